"""A whole thread read for work on it: its log, what points at it, and what stands for what is gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from perdure.checkpoints.travel import Travel
from perdure.core.calls import LOAD, decode_outcome, told
from perdure.core.checkpoint import MAX_LIMIT, CheckpointMark, CheckpointQuery, CheckpointRow
from perdure.core.codec import decode
from perdure.core.cuts import state_at
from perdure.core.entries import Entry, EntryKind
from perdure.core.pauses import place_of
from perdure.core.pruning import WholeLog, standing_for
from perdure.core.retention import Point
from perdure.core.runs import CANCELLED, FINISHED
from perdure.core.seams import Range
from perdure.core.threads import IDLE, ThreadRow
from perdure.storage.contract import Storage


class Log(WholeLog, frozen=True, kw_only=True):
    """Everything of a thread, its parents' part of the history included."""

    marks: list[CheckpointRow]  # of its own entries, oldest first
    tags: dict[str, int]
    cleared: set[str]
    forks: list[int]  # versions that forks need
    loaded: list[int]  # … and that a run which is not over loaded: it does so again when it goes on

    @property
    def steps(self) -> list[Range]:
        """The thread's own changes that are there, each with the version before it."""
        found: list[Range] = []
        for entry in self.own:
            record = standing_for(self.records, entry.version) if entry.changes_state else None
            if entry.changes_state and (record is None or record.version == entry.version):
                found.append(Range(record.low if record else entry.version - 1, entry.version))
        return found

    @property
    def own(self) -> list[Entry]:
        """The entries that are stored with this thread."""
        return [entry for entry in self.entries if entry.version > self.row.parent_version]

    def pauses(self) -> list[int]:
        """The versions at which somebody is still being asked."""
        decided = {place_of(entry.key) for entry in self.entries if entry.kind is EntryKind.PAUSE_DECIDED}
        opened = [entry for entry in self.entries if entry.kind is EntryKind.PAUSE_OPENED]
        return [entry.version for entry in opened if place_of(entry.key) not in decided]

    def points(self) -> list[Point]:
        """What retention decides about: the checkpoints, or every state of a thread that has none."""
        states = [step.high for step in self.steps]
        marks = self.marks or [_implicit(self.row, entry) for entry in self.own if entry.version in set(states)]
        held = {state_at(states, version): "forked from" for version in self.forks}
        held |= {state_at(states, version): "loaded by a run" for version in self.loaded}
        held |= {state_at(states, version): "paused" for version in self.pauses()}
        weights = _weights(self.own, [mark.entry for mark in marks])
        return [self._point(mark, states, held, weight) for mark, weight in zip(marks, weights, strict=True)]

    def _point(self, row: CheckpointRow, states: list[int], held: dict[int, str], size: int) -> Point:
        mark, state = row.mark, state_at(states, row.version)
        tags = tuple(sorted(name for name, version in self.tags.items() if state_at(states, version) == state))
        return Point(
            id=mark.id,
            thread=self.row.uid,
            thread_id=row.thread_id,
            user=row.user,
            agent=mark.agent,
            kind=mark.kind,
            status=mark.status,
            version=row.version,
            entry=row.entry,
            micros=row.micros,
            size=size,
            tags=tags,
            cleared=mark.id in self.cleared,
            held=held.get(state),
        )


def _weights(entries: Iterable[Entry], ends: list[int]) -> list[int]:
    """The bytes of the entries up to each of these versions, after the one before it."""
    weights = [0] * len(ends)
    for entry in entries:
        at = bisect_left(ends, entry.version)
        if at < len(ends):
            weights[at] += len(entry.payload or b"")
    return weights


def _implicit(row: ThreadRow, entry: Entry) -> CheckpointRow:
    """A state that no checkpoint names."""
    mark = CheckpointMark(id=f"@{entry.version}", kind="version", agent=row.agent)
    return CheckpointRow(
        mark=mark, thread_id=row.key.id, user=row.key.user, version=entry.version, entry=entry.version, parent=None,
        micros=entry.micros,
    )  # fmt: skip


async def read(storage: Storage, travel: Travel, row: ThreadRow, *, payloads: bool = True) -> Log:
    """Read a thread as it stands. Without payloads it is quick: as of the head its line names, weighing nothing."""
    whole = await (_whole(storage, row) if payloads else _light(storage, row))
    row = whole.row
    return Log(
        row=row,
        entries=whole.entries,
        records=whole.records,
        rewinds=whole.rewinds,
        marks=[mark for mark in whole.checkpoints if row.parent_version < mark.entry <= row.head],
        tags=await travel.tags(row),
        cleared=await travel.cleared(row),
        forks=await storage.forks(row.key),
        loaded=await _loaded(storage, row),
    )


async def _whole(storage: Storage, row: ThreadRow) -> WholeLog:
    """The log as it stands now; empty when the thread is gone, or is another one of its name."""
    found = await storage.log(row.key, checkpoints=True)
    return found if found is not None and found.row.uid == row.uid else WholeLog(row=row)


async def _light(storage: Storage, row: ThreadRow) -> WholeLog:
    """What a plan is made from. Others may write between these reads: who carries it out reads the whole log."""
    entries = await storage.headers(row.key, at=row.head, limit=MAX_LIMIT)
    marks = await storage.checkpoints(row.key, CheckpointQuery(limit=MAX_LIMIT))
    records, seams = await storage.records(row.key), await storage.seams(row.key)
    return WholeLog(row=row, entries=entries[::-1], records=records, rewinds=seams.rewinds, checkpoints=marks[::-1])


async def _loaded(storage: Storage, row: ThreadRow) -> list[int]:
    """The versions that the unfinished run of a thread loaded."""
    if not row.run or row.status in (IDLE, FINISHED, CANCELLED):
        return []
    entries = await storage.entries(row.key, after=row.run, kinds=(EntryKind.STEP_FINISHED,))
    outcomes = [told(row.key.id, entry, decode_outcome) for entry in entries]
    values = [decode(bytes(each.value)) for each in outcomes if each.call.name == LOAD]
    return [value for value in values if type(value) is int]
