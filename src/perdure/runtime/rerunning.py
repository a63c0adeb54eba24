"""Doing a run again from a point, on a fork: what was done before the point is read from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.core.calls import Call, Outcome, told
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import NotFoundError
from perdure.core.runs import Current, decode_started
from perdure.core.threads import ThreadRow
from perdure.runtime.journal import Journal
from perdure.runtime.leases import Held

if TYPE_CHECKING:
    from perdure.runtime.run import Run
    from perdure.runtime.runtime import Runtime


async def original_of(runtime: Runtime, row: ThreadRow, version: int) -> Current:
    """The run that a version belongs to."""
    found = await runtime.storage.headers(row.key, at=version, kinds=(EntryKind.RUN_STARTED,), limit=1)
    if not found:
        raise NotFoundError(f"a run up to version {version} of thread {row.key.id!r}")
    entries = await runtime.storage.entries(row.key, after=found[0].version - 1, limit=1)
    started = told(row.key.id, entries[0], decode_started)
    return Current(version=entries[0].version, started=started, micros=entries[0].micros)


class Elsewhere:
    """What the original run recorded in the thread that was forked."""

    def __init__(self, runtime: Runtime, row: ThreadRow, point: int, effects: str) -> None:
        self._storage = runtime.storage
        self._key = row.key
        self._point = point
        self.effects = effects
        self._journal = Journal(runtime.engine, runtime.leases, Held(row.key, 0, "", 1.0), row.uid, None)
        self._journal.read_from(point, row.head)

    async def outcome(self, call: Call) -> Outcome | None:
        """The result that a tool gave after the point, where such results count."""
        found = await self._journal.find(call) if self.effects == "recorded" else None
        return found.outcome if found is not None else None

    async def keyed(self, idem_key: str) -> Entry | None:
        """What stands under a key: up to the point, or all of it where what was recorded counts."""
        entry = await self._storage.keyed(self._key, idem_key)
        counts = entry is not None and (entry.version <= self._point or self.effects == "recorded")
        return entry if counts else None


async def as_rerun(runtime: Runtime, run: Run, row: ThreadRow) -> None:
    """Let a run on a fork read what the one that it does again recorded."""
    started = run.current.started
    parent = await runtime.storage.line(row.parent_uid) if row.parent_uid else None
    if started.rerun is None or parent is None:
        return
    original = await original_of(runtime, row, row.parent_version)
    run.calls_as = started.rerun
    run.resumed = run.accept = True
    run.elsewhere = Elsewhere(runtime, parent, row.parent_version, started.effects)
    run.journal.read_from(original.version, row.head)
