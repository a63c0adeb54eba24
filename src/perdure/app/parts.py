"""The parts a store is made of, joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.app.maintenance import Maintenance
from perdure.app.opening import Address, open_storage
from perdure.app.servers import Asked, Mode
from perdure.app.speaking import Speaker
from perdure.app.users import UserId, Users
from perdure.checkpoints.engine import Engine
from perdure.checkpoints.newest import Newest
from perdure.checkpoints.points import Points
from perdure.checkpoints.pruning import Pruner
from perdure.checkpoints.repairing import Repairer
from perdure.checkpoints.travel import Travel
from perdure.checkpoints.verifying import Verifier
from perdure.core.errors import InvalidInputError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Clock, Randomness, Silence, Telemetry
from perdure.core.retention_policy import Retention
from perdure.sessions.checking import Lines
from perdure.sessions.messages import Messages
from perdure.storage.baton import Baton
from perdure.storage.contract import Migrate


class Parts:
    """Everything behind one open store."""

    def __init__(
        self,
        address: Address,
        mode: Mode,
        *,
        migrate: Migrate,
        clock: Clock | None,
        randomness: Randomness | None,
        telemetry: Telemetry | None,
        cache_bytes: int,
        options: dict[str, Any],
        baton: Baton | None,
        retention: Retention | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.telemetry = telemetry or Silence()
        self.clock = clock or SystemClock()
        self.users = Users(options.get("user_id_type", "string"))
        randomness = randomness or SystemRandomness()
        engines: WeakSet[Engine] = WeakSet()  # the storage must not hold on to what the store is collected with

        def forget(key: ThreadKey) -> None:
            for engine in engines:
                engine.forget(key)

        asked = Asked(
            mode=mode, options=options, clock=self.clock, randomness=randomness, own_clock=clock is not None,
            baton=baton, telemetry=self.telemetry, on_broken=forget,
        )  # fmt: skip
        opened = open_storage(address, asked)
        self.storage, self.hot, self.background = opened.storage, opened.hot, opened.background
        self.engine = Engine(
            self.storage,
            clock=self.clock,
            randomness=randomness,
            telemetry=self.telemetry,
            cache_bytes=cache_bytes,
        )
        engines.add(self.engine)
        self.points = Points(self.storage, self.clock)
        self.travel = Travel(self.storage)
        self.pruner = Pruner(self.storage, self.engine, self.travel)
        self.newest = Newest(self.storage, self.points, self.engine)
        # What Redis or a queue would answer proves nothing about what is stored.
        behind = opened.background.inner if opened.background else opened.storage
        stored = opened.hot.inner if opened.hot else behind
        self.verifier = Verifier(stored, Lines(stored).faults)
        self.repairer = Repairer(self.storage, self.verifier, self.engine)
        self.maintenance = Maintenance(self.storage, self.pruner, self.clock, self.telemetry)
        self.retention = retention
        self.messages = Messages(self.storage)
        self.speaker = Speaker(self.storage, self.engine, self.messages)
        self._migrate: Migrate = migrate
        self._ready = False

    async def ready(self) -> None:
        """Set the storage up at its first use."""
        if not self._ready:
            await self.storage.setup(self._migrate)
            self._ready = True

    async def flush(self) -> None:
        """Wait for what is queued."""
        if self.background is not None:
            await self.ready()
            await self.background.flush()

    async def look_after(self, key: ThreadKey) -> None:
        """After a checkpoint was acknowledged: what the store's policy drops, now and then."""
        if self.retention is not None:
            await self.maintenance.after_checkpoint(key, self.retention)

    async def warm(self, namespace: str, users: Iterable[UserId], threads: int) -> int:
        """Bring threads of users into the hot layer."""
        if self.hot is None:
            raise InvalidInputError("there is no hot layer to warm: open the store with hot='redis://…'")
        await self.ready()
        return await self.hot.warm(namespace, [self.users.key(user) for user in users], threads)
