"""The parts a store is made of, joined.

What not every store is asked for (refs, conversations, pruning, verifying) is imported and made when it first is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.app.opening import Address, bounded, files_of, open_storage
from perdure.app.servers import Asked, Mode
from perdure.app.users import UserId, Users
from perdure.checkpoints.engine import Engine
from perdure.core.errors import InvalidInputError
from perdure.core.identity import ThreadKey
from perdure.core.limits import DecodeLimits, limits_given
from perdure.core.ports import Clock, Randomness, Silence, Telemetry
from perdure.storage.permissions import EXPOSED, exposed

if TYPE_CHECKING:
    from perdure.app.maintenance import Maintenance
    from perdure.app.speaking import Speaker
    from perdure.checkpoints.newest import Newest
    from perdure.checkpoints.points import Points
    from perdure.checkpoints.pruning import Pruner
    from perdure.checkpoints.repairing import Repairer
    from perdure.checkpoints.travel import Travel
    from perdure.checkpoints.verifying import Verifier
    from perdure.core.policies import Policies
    from perdure.core.retention_policy import Retention
    from perdure.core.subclasses import Subclasses
    from perdure.memory.log import FactLogs
    from perdure.runtime.agents.defaults import AgentDefaults
    from perdure.runtime.parts import RunParts
    from perdure.runtime.triggering import Upkeep
    from perdure.sessions.messages import Messages
    from perdure.storage.baton import Baton
    from perdure.storage.contract import Migrate, Storage

_MOMENT = 2.0  # seconds


class LogLines(Silence):
    """The telemetry of a store that was given none: its log lines go to the logger `perdure`, nothing is counted.

    Where nobody set up logging, Python itself would print all of them to stderr: only errors are worth that.
    """

    def log(self, level: str, message: str, /, **fields: object) -> None:
        import logging

        logger = logging.getLogger("perdure")
        if level == "error" or logger.hasHandlers():
            told = "".join(f" {name}={value!r}" for name, value in fields.items())
            logger.log(logging.getLevelNamesMapping()[level.upper()], "%s%s", message, told)


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
        policies: Policies | None = None,
        subclasses: Subclasses = "refuse",
        agent: AgentDefaults | None = None,
    ) -> None:
        self.agent = agent
        self.mode: Mode = mode
        self.telemetry = telemetry or LogLines()
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
        self._files = files_of(address)
        self.file_mode = asked.file_mode
        self.storage, self.hot, self.background = opened.storage, opened.hot, opened.background
        self.engine = Engine(
            self.storage,
            clock=self.clock,
            randomness=randomness,
            telemetry=self.telemetry,
            cache_bytes=cache_bytes,
            limits=asked.limits,
            subclasses=subclasses,
        )
        engines.add(self.engine)
        self.retention = retention
        self.policies = policies
        self.randomness = randomness
        self._lease_ttl = float(options.get("lease_ttl", 30.0))
        self._keeps_tracebacks = bool(options.get("traceback", True))
        self.prices: Any = options.get("prices")
        self._baton = baton
        self._migrate: Migrate = migrate
        self.is_ready = False

    @cached_property
    def points(self) -> Points:
        """Finds the version that a ref means."""
        from perdure.checkpoints.points import Points

        return Points(self.storage, self.clock)

    @cached_property
    def travel(self) -> Travel:
        """Goes to other points of threads."""
        from perdure.checkpoints.travel import Travel

        return Travel(self.storage)

    @cached_property
    def messages(self) -> Messages:
        """Reads conversations."""
        from perdure.sessions.messages import Messages

        return Messages(self.storage, damage_log=self.engine.damage_log)

    @cached_property
    def speaker(self) -> Speaker:
        """Writes messages."""
        from perdure.app.speaking import Speaker

        return Speaker(self.storage, self.engine, self.messages)

    @cached_property
    def memory(self) -> FactLogs:
        """Reads what is remembered of users."""
        from perdure.memory.log import FactLogs

        return FactLogs(self.storage, self.engine)

    @cached_property
    def pruner(self) -> Pruner:
        """Drops points."""
        from perdure.checkpoints.pruning import Pruner

        return Pruner(self.storage, self.engine, self.travel)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Prunes by a policy."""
        from perdure.app.maintenance import Maintenance

        return Maintenance(self.storage, self.pruner, self.clock, self.telemetry, self.engine.damage_log)

    @cached_property
    def newest(self) -> Newest:
        """Finds the newest point that is intact."""
        from perdure.checkpoints.newest import Newest

        return Newest(self.storage, self.points, self.engine)

    @cached_property
    def verifier(self) -> Verifier:
        """Checks what is stored."""
        return self.verifier_of(self.stored, self.engine.limits)

    def verifier_of(self, storage: Storage, limits: DecodeLimits) -> Verifier:
        """Checks a storage by these limits."""
        from perdure.checkpoints.verifying import Verifier
        from perdure.sessions.checking import Lines

        return Verifier(storage, Lines(storage).faults, limits)

    def verifier_within(self, max_bytes: int | None, max_nodes: int | None) -> Verifier:
        """Checks what is stored, by limits of its own where they are given."""
        if max_bytes is None and max_nodes is None:
            return self.verifier
        return self.verifier_of(*self.within(max_bytes, max_nodes))

    def repairer_within(self, max_bytes: int | None, max_nodes: int | None) -> Repairer:
        """Makes again what is derived from logs, by limits of its own where they are given."""
        if max_bytes is None and max_nodes is None:
            return self.repairer
        from perdure.checkpoints.repairing import Repairer

        storage, limits = self.within(max_bytes, max_nodes)
        engine = Engine(
            storage, clock=self.clock, randomness=self.randomness, telemetry=self.telemetry, cache_bytes=0,
            limits=limits,
        )  # fmt: skip
        return Repairer(storage, self.verifier_of(storage, limits), engine)

    def within(self, max_bytes: int | None, max_nodes: int | None) -> tuple[Storage, DecodeLimits]:
        """The storage as it is; for a call that names limits of its own, what is stored, by these."""
        if max_bytes is None and max_nodes is None:
            return self.storage, self.engine.limits
        limits = limits_given(max_bytes, max_nodes, self.engine.limits)
        return bounded(self.stored, limits), limits

    @cached_property
    def repairer(self) -> Repairer:
        """Makes again what is derived from logs."""
        from perdure.checkpoints.repairing import Repairer

        return Repairer(self.storage, self.verifier, self.engine)

    @property
    def stored(self) -> Storage:
        """The storage itself: what Redis or a queue would answer proves nothing about what is stored."""
        if self.hot is not None:
            return self.hot.inner
        return self.background.inner if self.background is not None else self.storage

    @cached_property
    def running(self) -> RunParts:
        """What runs need."""
        from perdure.runtime.parts import RunParts

        driven = None if self._baton is None else self._baton.drive
        return RunParts(
            self.engine, driven, clock=self.clock, randomness=self.randomness, telemetry=self.telemetry,
            ttl=self._lease_ttl, policies=self.policies, upkeep=None if self.retention is None else _upkeep(self),
            traceback=self._keeps_tracebacks,
        )  # fmt: skip

    def state_was_read(self) -> None:
        """Somebody looked at a state; a run wants to know when it is its own code."""
        if "running" in vars(self):
            from perdure.runtime.scope import state_was_read

            state_was_read()

    async def ready(self) -> None:
        """Set the storage up at its first use."""
        if not self.is_ready:
            await self.storage.setup(self._migrate)
            self.is_ready = True
            for each in exposed(self._files, self.file_mode)[:1]:
                self.telemetry.log("warning", EXPOSED, path=each.path, mode=f"{each.mode:04o}")

    async def finish(self) -> None:
        """Give what is done beside runs, such as telling people, a moment to end; it is made up for otherwise."""
        if "running" in vars(self):
            await self.running.runtime.work.finish(_MOMENT)

    async def flush(self) -> None:
        """Wait for what is queued."""
        if self.background is not None:
            await self.ready()
            await self.background.flush()

    async def look_over(self, namespace: str) -> None:
        """When the store is entered: what its policy drops, of all threads."""
        if self.retention is not None:
            await self.maintenance.at_start(namespace, self.retention)

    async def look_after(self, key: ThreadKey, count: int = 1) -> None:
        """After so many checkpoints were acknowledged: what the store's policy drops, now and then."""
        if self.retention is not None:
            await self.maintenance.after_checkpoint(key, self.retention, count)

    async def has_views(self) -> bool:
        """Whether somebody asked for SQL views of this store; nothing is imported to find out."""
        return bool(await self.storage.kept("views"))

    async def purge_views(self) -> None:
        """Remove what SQL views hold of threads that are gone."""
        if await self.has_views():
            from perdure.app.sql_views import purge

            await purge(self)

    async def warm(self, namespace: str, users: Iterable[UserId], threads: int) -> int:
        """Bring threads of users into the hot layer."""
        if self.hot is None:
            raise InvalidInputError("there is no hot layer to warm: open the store with hot='redis://…'")
        await self.ready()
        return await self.hot.warm(namespace, [self.users.key(user) for user in users], threads)


def _upkeep(parts: Parts) -> Upkeep:
    """What a run that saved checkpoints asks for. It does not hold on to the parts: they hold on to the runs."""
    held = ref(parts)

    async def look_after(key: ThreadKey, count: int) -> None:
        alive = held()
        if alive is not None:
            await alive.look_after(key, count)

    return look_after
