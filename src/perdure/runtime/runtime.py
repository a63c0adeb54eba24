"""What runs stand on: the engine, leases, and somewhere to run code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.checkpoints.engine import Engine
from perdure.core.approval import patience
from perdure.core.policies import Policies
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.runtime.allowances import Allowances
from perdure.runtime.attending import Attending
from perdure.runtime.leases import SECOND, TTL, Held, Leases
from perdure.runtime.signals import Signals
from perdure.runtime.standing import Standing

if TYPE_CHECKING:
    from perdure.runtime.keeping import Keeper
    from perdure.runtime.run import Run
    from perdure.runtime.scope import Scope
    from perdure.runtime.triggering import Upkeep
    from perdure.runtime.work import Work

_LOOK = 0.01  # seconds between two looks whether steps beside a pause are over


class Runtime:
    """The parts that every run of a store shares."""

    def __init__(
        self, engine: Engine, work: Work, *, clock: Clock, randomness: Randomness, telemetry: Telemetry,
        ttl: float = TTL, policies: Policies | None = None, upkeep: Upkeep | None = None, traceback: bool = True,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.storage = engine.storage
        self.work = work
        self.clock = clock
        self.randomness = randomness
        self.telemetry = telemetry
        self.keeps_tracebacks = traceback  # of failures
        self.leases = Leases(engine.storage, clock, randomness, ttl)
        policies = policies or Policies()
        self.triggers = policies.checkpoints
        self.recovery_policy = policies.recovery
        self.approvals = policies.approvals
        self.webhooks = policies.webhooks
        self.upkeep = upkeep  # after a run that saved checkpoints
        self.standing = Standing(engine.storage)
        self.signals = Signals(self)
        self.attending = Attending(self)
        self.allowances = Allowances(self)

    def keep(self, held: Held) -> Keeper:
        """Renew a lease until the answer is told to stop."""
        return self.work.keep(self.leases, held, self.telemetry)

    def in_seconds(self, seconds: float) -> int:
        """The time so many seconds from now."""
        return self.clock.now() + int(seconds * SECOND)

    def patience(self, now: int) -> int:
        """When a question that names no deadline expires; 0 for never."""
        seconds = patience(self.approvals, self.recovery_policy)
        return 0 if seconds is None else now + int(seconds * SECOND)

    async def settled(self, run: Run, scope: Scope) -> None:
        """Wait for the steps that are under way beside `scope`: they finish before a run lets go.

        Those that wait for the same inside are left out: two questions in two steps would wait for each other. What is
        being recorded is recorded first: a question, or when a sleep is over, beside what lets go.
        """
        await self.work.pause(0)  # code beside it may be about to begin
        run.waiting.append(scope)
        while run.journal.at_work.count or self._are_under_way(run):
            await self.work.pause(_LOOK)

    def _are_under_way(self, run: Run) -> bool:
        return any(not any(each.encloses(other) for other in run.waiting) for each in run.under_way)
