"""Looking after a thread: keeping it small, proving that it is intact, and making again what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.app.travelling import TimeTravel
from perdure.core.identity import check_label

if TYPE_CHECKING:
    from perdure.checkpoints.newest import Latest
    from perdure.checkpoints.pruning import Pruned
    from perdure.checkpoints.repairing import Repaired
    from perdure.core.retention import Plan
    from perdure.core.retention_policy import Retention
    from perdure.core.verification import Report


class Upkeep(TimeTravel):
    """The part of a thread that looks after its size and its health."""

    async def plan(self, keep: int | Retention) -> Plan:
        """What `prune` would drop, why, and about how many bytes that frees. Nothing is changed."""
        from perdure.core import retention
        from perdure.core.retention_policy import policy_of

        row = await self._row(await self._found())
        points = await self._parts.pruner.points(row, weigh=True)
        return retention.plan(points, policy_of(keep), self._parts.clock.now())

    async def prune(self, keep: int | Retention) -> Pruned:
        """Drop the points that a policy does not keep (an int: all but the newest that many), and what only they need.

        Every point that stays loads as before. Messages, tool results, pauses and decisions stay, and so does who did
        what and when. What is tagged, forked from, paused or newest is never dropped.
        """
        from perdure.core import retention
        from perdure.core.retention_policy import policy_of

        policy = policy_of(keep)
        row = await self._row(await self._found())
        points = await self._parts.pruner.points(row, weigh=policy.weighs)
        plan = retention.plan(points, policy, self._parts.clock.now())
        return await self._parts.pruner.apply(row, plan, policy, self._actor)

    async def verify(self, *, restore: bool = False) -> Report:
        """Check the whole log, every whole state against a replay, and every index against the log.

        With `restore`, every checkpoint is restored and compared too. Nothing is changed, nothing is raised for what
        is damaged: the report names each damage with its place.
        """
        await self._parts.flush()
        row = await self._row(await self._found())
        return (await self._parts.verifier.look(row.key, restore=restore)).report

    async def repair(self) -> Repaired:
        """Make everything again that is derived from the log: directory line, checkpoint index, rewinds, snapshots.

        The log is never changed: what is damaged in it is named in the answer and stays as it is.
        """
        row = await self._row(await self._found())
        return await self._parts.repairer.thread(row.key)

    async def latest(self, kind: str | None = None, status: str | None = None) -> Latest:
        """The newest checkpoint (of a kind, or with a status) that restores; damaged ones are skipped, and named.

        Raises `NotFoundError` when none is intact.
        """
        from perdure.checkpoints.newest import Latest

        row = await self._row(await self._found())
        kind, status = check_label(kind, "kind"), check_label(status, "status")
        mark, skipped = await self._parts.newest.find(row, kind=kind, status=status)
        return Latest(checkpoint=mark.public(self.user), skipped=skipped)
