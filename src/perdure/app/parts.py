"""The parts a store is made of, joined."""

from __future__ import annotations

from typing import Any

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.app.opening import Address, Asked, Mode, open_storage
from perdure.app.users import Users
from perdure.checkpoints.engine import Engine
from perdure.checkpoints.points import Points
from perdure.core.ports import Clock, Randomness, Silence, Telemetry
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
    ) -> None:
        self.telemetry = telemetry or Silence()
        self.clock = clock or SystemClock()
        self.users = Users(options.get("user_id_type", "string"))
        asked = Asked(mode=mode, options=options, own_clock=clock is not None, baton=baton, telemetry=self.telemetry)
        self.storage = open_storage(address, asked)
        self.engine = Engine(
            self.storage,
            clock=self.clock,
            randomness=randomness or SystemRandomness(),
            telemetry=self.telemetry,
            cache_bytes=cache_bytes,
        )
        self.points = Points(self.storage, self.clock)
        self.messages = Messages(self.storage)
        self._migrate: Migrate = migrate
        self._ready = False

    async def ready(self) -> None:
        """Set the storage up at its first use."""
        if not self._ready:
            await self.storage.setup(self._migrate)
            self._ready = True
