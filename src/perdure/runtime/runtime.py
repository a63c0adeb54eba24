"""What runs stand on: the engine, leases, and somewhere to run code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.checkpoints.engine import Engine
from perdure.core.approval import patience
from perdure.core.approvals import Approvals
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.webhooks import Webhook
from perdure.runtime.attending import Attending
from perdure.runtime.leases import SECOND, TTL, Leases
from perdure.runtime.signals import Signals
from perdure.runtime.standing import Standing

if TYPE_CHECKING:
    from perdure.runtime.run import Run
    from perdure.runtime.scope import Scope
    from perdure.runtime.work import Work

_LOOK = 0.01  # seconds between two looks whether steps beside a pause are over


class Runtime:
    """The parts that every run of a store shares."""

    def __init__(
        self, engine: Engine, work: Work, *, clock: Clock, randomness: Randomness, telemetry: Telemetry,
        ttl: float = TTL,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.storage = engine.storage
        self.work = work
        self.clock = clock
        self.randomness = randomness
        self.telemetry = telemetry
        self.leases = Leases(engine.storage, clock, randomness, ttl)
        self.standing = Standing(engine.storage)
        self.signals = Signals(self)
        self.recovery_policy = RecoveryPolicy()
        self.approvals = Approvals()
        self.webhooks: tuple[Webhook, ...] = ()
        self.attending = Attending(self)

    def in_seconds(self, seconds: float) -> int:
        """The time so many seconds from now."""
        return self.clock.now() + int(seconds * SECOND)

    def patience(self, now: int) -> int:
        """When a question that names no deadline expires; 0 for never."""
        seconds = patience(self.approvals, self.recovery_policy)
        return 0 if seconds is None else now + int(seconds * SECOND)

    async def settled(self, run: Run, scope: Scope) -> None:
        """Wait for the steps that are under way beside `scope`: they finish before a run lets go.

        Those that wait for the same inside are left out: two questions in two steps would wait for each other.
        """
        await self.work.pause(0)  # code beside it may be about to begin
        run.waiting.append(scope)
        while any(not any(each.encloses(other) for other in run.waiting) for each in run.under_way):
            await self.work.pause(_LOOK)
