"""Looking after a whole store: pruning by a policy, now and then by itself, and giving disk back."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.checkpoints.pruning import Pruned, Pruner
from perdure.core import retention
from perdure.core.damage_log import DamageLog
from perdure.core.errors import PerdureError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Clock, Telemetry
from perdure.core.retention import Plan, Point
from perdure.core.retention_policy import Retention
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage
from perdure.storage.listing import all_threads

_COUNTED = 10_000  # threads whose checkpoints are counted
EVERY = 32  # checkpoints of a thread between two looks at what its policy drops

Progress = Callable[[int, int, Pruned], None]  # how many threads are done, of how many, and the newest of them


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy drops, and what was done about it; nothing after a dry run."""

    plan: Plan
    pruned: tuple[Pruned, ...] = ()

    @property
    def bytes(self) -> int:
        """How many bytes of payloads went, less what stands for them now."""
        return sum(each.bytes for each in self.pruned)

    def __str__(self) -> str:
        if not self.pruned:
            return self.plan.text() if self.plan.dropped else "there is nothing to prune"
        points, entries = sum(each.points for each in self.pruned), sum(each.entries for each in self.pruned)
        threads = f"{len(self.pruned):,} thread{'s' * (len(self.pruned) != 1)}"
        return f"pruned {points:,} points of {threads}: {entries:,} payloads, {self.bytes:,} bytes"


class Maintenance:
    """Prunes the threads of a namespace."""

    def __init__(
        self, storage: Storage, pruner: Pruner, clock: Clock, telemetry: Telemetry, damage_log: DamageLog
    ) -> None:
        self._storage = storage
        self._pruner = pruner
        self._clock = clock
        self._telemetry = telemetry
        self._damage_log = damage_log
        self._since: dict[ThreadKey, int] = {}  # checkpoints since the last look

    async def prune(
        self,
        namespace: str,
        policy: Retention,
        *,
        user: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> PruneReport:
        """Drop what a policy does not keep of all threads, or of one user's."""
        rows = await all_threads(self._storage, namespace, user)
        plan = await self._plan(rows, policy, weigh=dry_run or policy.weighs)
        if dry_run:
            return PruneReport(plan=plan)
        return PruneReport(plan=plan, pruned=await self._apply(rows, plan, policy, progress))

    async def _plan(self, rows: list[ThreadRow], policy: Retention, *, weigh: bool) -> Plan:
        points: list[Point] = []
        for row in rows:
            with self._damage_log.skip(row):
                points += await self._pruner.points(row, weigh=weigh)
        return retention.plan(points, policy, self._clock.now())

    async def _apply(
        self, rows: list[ThreadRow], plan: Plan, policy: Retention, progress: Progress | None
    ) -> tuple[Pruned, ...]:
        doomed = {verdict.point.thread for verdict in plan.dropped}
        wanted = [row for row in rows if row.uid in doomed]
        done: list[Pruned] = []
        for row in wanted:
            with self._damage_log.skip(row):
                done.append(await self._pruner.apply(row, plan, policy))
            if progress is not None and done:
                progress(len(done), len(wanted), done[-1])
        return tuple(done)

    async def at_start(self, namespace: str, policy: Retention) -> None:
        """When a store is opened with a policy: drop what became stale while nothing ran."""
        try:
            await self.prune(namespace, policy)
        except PerdureError as exc:
            self._telemetry.log("warning", "what is stale could not be pruned", error=str(exc))

    async def after_checkpoint(self, key: ThreadKey, policy: Retention, count: int = 1) -> None:
        """After the acknowledgement of checkpoints: look now and then at what the policy drops.

        It is upkeep: failing at it harms nothing and is told in the log.
        """
        if len(self._since) >= _COUNTED:
            self._since.clear()
        self._since[key] = self._since.get(key, EVERY - 1) + count
        if self._since[key] < EVERY:
            return
        self._since[key] = 0
        try:
            await self._look_after(key, policy)
        except PerdureError as exc:
            self._telemetry.log("warning", "a thread could not be pruned", thread=key.id, error=str(exc))

    async def _look_after(self, key: ThreadKey, policy: Retention) -> None:
        scopes = {rule.per for rule in policy.rules}
        if scopes & {"user", "store"}:
            await self.prune(key.namespace, policy, user=None if "store" in scopes else key.user)
            return
        row = await self._storage.thread(key)
        if row is not None:
            plan = await self._plan([row], policy, weigh=policy.weighs)
            await self._pruner.apply(row, plan, policy)
