"""Runs that somebody holds and that do not get on: their lease is renewed, or ran out, and their log does not grow."""

from __future__ import annotations

from perdure.core.runs import RUNNING
from perdure.core.threads import ThreadRow
from perdure.runtime.leases import SECOND
from perdure.runtime.runtime import Runtime

STALLED = "perdure.runs.stalled"
_PAGE = 1000
_TOLD = 10_000  # runs that are remembered as told of


class Stalled:
    """Finds them in a namespace, and tells of each once."""

    def __init__(self, runtime: Runtime, namespace: str) -> None:
        self._runtime = runtime
        self._namespace = namespace
        self._told: dict[tuple[str, int], None] = {}

    async def rows(self, after: float) -> list[ThreadRow]:
        """Threads that are being run and whose log did not grow for so many seconds; found by the index of leases."""
        runtime = self._runtime
        now, ahead = runtime.clock.now(), int(2 * runtime.leases.ttl * SECOND)
        rows = await runtime.storage.due(self._namespace, now, _PAGE, ahead=ahead)
        return [row for row in rows if _is_stalled(row, now - int(after * SECOND))]

    async def tell(self, after: float) -> list[ThreadRow]:
        """Log and count those that were not told of yet, and return them."""
        new = [row for row in await self.rows(after) if (row.uid, row.head) not in self._told]
        for row in new:
            self._remember(row)
            self._runtime.telemetry.count(STALLED)
            self._runtime.telemetry.log(
                "warning", "a run does not get on", thread=row.key.id, owner=row.lease_owner, version=row.head
            )
        return new

    def _remember(self, row: ThreadRow) -> None:
        """By its head: a run that got on, and stalls again, is told of again."""
        if len(self._told) >= _TOLD:
            self._told.clear()
        self._told[row.uid, row.head] = None


def _is_stalled(row: ThreadRow, since: int) -> bool:
    return row.lease_owner is not None and row.status == RUNNING and row.updated <= since
