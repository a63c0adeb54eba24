"""Making everything that is derived from a log again, and comparing it with what stands.

A prune takes the ids of checkpoints out of the log that later ones name as the one before them. Where the log leaves
that open, what stands is kept, unless the log says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from perdure.core.checkpoint import CheckpointMark, CheckpointRow
from perdure.core.derived import Derived
from perdure.core.entries import STATE_KINDS, Entry, EntryKind, newest_run
from perdure.core.pruning import is_blank
from perdure.core.said import Said, needed
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.core.verification import Finder, changed_state

_MARKING = STATE_KINDS | {EntryKind.CHECKPOINT_SAVED}
_SURPLUS = "is in the index, and not in the log"
_PRUNED = "is in the index, although it was pruned"


class Standing(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A thread as it was read."""

    derived: Derived
    entries: list[Entry]  # its whole history, what the line does not know included
    said: Said
    inherited: list[CheckpointRow]  # the checkpoints of its parents' part, oldest first
    broken: frozenset[int] = frozenset()  # versions that do not follow from those before
    intact: bool = True  # whether the log is as it was written

    @property
    def row(self) -> ThreadRow:
        """The directory line as it stands."""
        return self.derived.row

    @cached_property
    def own(self) -> list[Entry]:
        """The entries that are stored with this thread."""
        return [entry for entry in self.entries if entry.version > self.row.parent_version]

    @cached_property
    def named(self) -> list[Entry]:
        """What the line names, and what follows from that: any other entry after the head is no part of the log."""
        return [entry for entry in self.entries if entry.version <= self.row.head or entry.version not in self.broken]

    @cached_property
    def at(self) -> dict[int, Entry]:
        """The entries by version."""
        return {entry.version: entry for entry in self.entries}

    def is_unknown(self, version: int) -> bool:
        """Whether there is, or was, an entry of this version that says nothing any more."""
        last = max([self.row.head, *(entry.version for entry in self.entries[-1:])])
        return version in self.said.unread or (version not in self.at and version <= last)


def make(thread: Standing) -> Derived:
    """Everything that is derived from a thread's log, as it should be.

    Of a fork whose line names a version before the fork, its parents' part cannot be read: that comes first.
    """
    if thread.row.head < thread.row.parent_version:
        return msgspec.structs.replace(
            thread.derived, row=msgspec.structs.replace(thread.row, head=thread.row.parent_version)
        )
    marks, newest = _marks(thread)
    row = _line(thread, newest)
    return Derived(row=row, checkpoints=marks, rewinds=_rewinds(thread), uses=_uses(thread))


def _marks(thread: Standing) -> tuple[list[CheckpointRow], str | None]:
    """The checkpoint rows that the log tells of, and the id of the newest one it ever had."""
    row, said = thread.row, thread.said
    stands = {mark.entry: mark for mark in thread.derived.checkpoints}
    made = [mark for mark in thread.derived.checkpoints if thread.is_unknown(mark.entry)]
    before, version = _Before(thread), row.parent_version
    for entry in thread.own:
        before.pass_by_gap(entry.version - version - 1)
        version = entry.version
        mark = said.marks.get(entry.version)
        if mark is None:
            before.pass_by(entry)
            continue
        parent = mark.parent or before.newest(stands.get(entry.version), mark.id)
        before.follow(mark)
        if mark.id not in said.dropped:
            made.append(_row(row, entry, mark, parent))
    newest = before.last(row.last_checkpoint)
    return sorted(made, key=lambda mark: mark.entry), newest


def _row(row: ThreadRow, entry: Entry, mark: CheckpointMark, parent: str | None) -> CheckpointRow:
    return CheckpointRow(
        mark=mark,
        thread_id=row.key.id,
        user=row.key.user,
        version=entry.version if mark.version is None else mark.version,
        entry=entry.version,
        parent=parent,
        micros=entry.micros,
    )


class _Before:
    """Which checkpoint was the newest, on a walk through a log."""

    def __init__(self, thread: Standing) -> None:
        marks, start = thread.said.marks, thread.row.parent_version
        self._own = {mark.id for version, mark in marks.items() if version > start}
        self._said = thread.said
        self._id = thread.inherited[-1].mark.id if thread.inherited else None
        self._open = thread.row.parent_uid is not None  # a fork took what its parent's index had then

    def pass_by(self, entry: Entry) -> None:
        """An entry without a checkpoint; one that was emptied may have had one."""
        emptied = is_blank(entry) or entry.version in self._said.unread
        self._open = self._open or (emptied and entry.kind in _MARKING)

    def pass_by_gap(self, missing: int) -> None:
        """Entries that are not there."""
        self._open = self._open or missing > 0

    def follow(self, mark: CheckpointMark) -> None:
        """An entry with a checkpoint."""
        self._id, self._open = mark.id, False

    def newest(self, stands: CheckpointRow | None, made: str) -> str | None:
        """The one before a checkpoint."""
        if stands is not None:
            return self.last(stands.parent)
        gone = [each for each in self._said.dropped if (self._id or "") < each < made] if self._open else []
        return max(gone, default=self._id)

    def last(self, stands: str | None) -> str | None:
        """The newest one; where the log leaves it open, what stands unless it is another that the log knows."""
        return stands if self._open and stands not in self._own else self._id


def _rewinds(thread: Standing) -> list[Rewind]:
    stands = {each.entry: each.to for each in thread.derived.rewinds}
    found: dict[int, int] = {entry: to for entry, to in stands.items() if thread.is_unknown(entry)}
    for entry in thread.own:
        if entry.kind is EntryKind.THREAD_REWOUND:
            to = getattr(thread.said.steps.get(entry.version), "to", None)
            to = stands.get(entry.version) if to is None else to  # pruned: only the index still knows
            if to is not None and 0 <= to < entry.version:
                found[entry.version] = to
    return [Rewind(entry, found[entry]) for entry in sorted(found)]


def _uses(thread: Standing) -> dict[bytes, int]:
    found = {} if thread.intact else dict(thread.derived.uses)  # what cannot be read may refer to any of them
    exact = needed(thread.said).items()
    likely = [(digest, version) for version, digests in thread.said.large.items() for digest in digests]
    for digest, version in (*exact, *likely):
        if version > thread.row.parent_version:
            found[digest] = min(found.get(digest, version), version)
    return found


def _line(thread: Standing, newest: str | None) -> ThreadRow:
    row, entries = thread.row, thread.named
    last = entries[-1] if entries else None
    if last is None:
        return msgspec.structs.replace(row, last_checkpoint=newest)
    believed = last.chain == row.head_digest or (thread.intact and row.head <= last.version)
    head, digest = (last.version, last.chain) if believed else (row.head, row.head_digest)
    ends = next((entry for entry in reversed(entries) if entry.version == head), None)
    if ends is None:
        return row  # its newest entries are gone: nothing tells what they were
    return msgspec.structs.replace(
        row,
        head=head,
        head_digest=digest,
        state_version=changed_state(entries, head),
        run=newest_run(entry for entry in entries if row.parent_version < entry.version <= head),
        last_checkpoint=newest,
        updated=ends.micros if head > row.parent_version else max(row.created, ends.micros),
        lease_until=row.lease_until if row.lease_owner is not None else 0,
    )


def compare(finder: Finder, thread: Standing, made: Derived) -> None:
    """Tell where what stands differs from what was made."""
    _compare_marks(finder, thread, made)
    _compare_inherited(finder, thread)
    _compare_rewinds(finder, thread, made.rewinds)
    _check_created(finder, thread)
    if not thread.derived.is_catalogued:
        finder.add("catalog", "does not name the thread, or another one in its place", derived=True)
    for version in thread.derived.snapshots:
        if version > made.row.head:
            reason = "is of a version that is not in the log"
            finder.add(f"snapshot at version {version}", reason, version, derived=True)


def _check_created(finder: Finder, thread: Standing) -> None:
    """When a thread was made is not in its log, only that it was not after the first entry of its own."""
    first = next((entry for entry in thread.own if entry.version not in thread.said.unread), None)
    if first is not None and thread.row.created > first.micros:
        finder.add("directory line", f"says that the thread was made after its first entry ({first.at})")


def _compare_marks(finder: Finder, thread: Standing, made: Derived) -> None:
    stands = {mark.entry: mark for mark in thread.derived.checkpoints}
    right = {mark.entry: mark for mark in made.checkpoints}
    for entry in sorted(stands | right):
        one, other = stands.get(entry), right.get(entry)
        if one is None and other is not None:
            finder.add(f"checkpoint {other.mark.id}", "is missing in the index", entry, derived=True)
        elif other is None and one is not None:
            reason = _PRUNED if one.mark.id in thread.said.dropped else _SURPLUS
            finder.add(f"checkpoint {one.mark.id}", reason, entry, derived=True)
        elif one is not None and other is not None and (names := _differing(one, other)):
            _add_differing(finder, other, names)


def _compare_inherited(finder: Finder, thread: Standing) -> None:
    """The rows of a parent's part: those that stand must be true. One that is missing may have been pruned there."""
    for stands in thread.inherited:
        entry, mark = thread.at.get(stands.entry), thread.said.marks.get(stands.entry)
        if entry is not None and mark is not None:
            names = _differing(stands, _row(thread.row, entry, mark, stands.parent))
            if names:
                _add_differing(finder, stands, names)
        elif not thread.is_unknown(stands.entry):
            finder.add(f"checkpoint {stands.mark.id}", _SURPLUS, stands.entry, derived=True)


def differs(row: ThreadRow, entry: Entry, mark: CheckpointMark, stands: CheckpointRow) -> bool:
    """Whether a line of the index is not what the entry it names says; which one was before it is not asked."""
    return bool(_differing(stands, _row(row, entry, mark, stands.parent)))


def _add_differing(finder: Finder, row: CheckpointRow, names: Sequence[str]) -> None:
    reason = f"has another {', '.join(names)} in the index than in the log"
    finder.add(f"checkpoint {row.mark.id}", reason, row.entry, derived=True)


def _differing(one: CheckpointRow, other: CheckpointRow) -> list[str]:
    """The fields in which two rows differ, without what their writer had left open."""
    return [name for name, value in _fields(one).items() if value != _fields(other)[name]]


def _fields(row: CheckpointRow) -> Mapping[str, object]:
    mark = {name: getattr(row.mark, name) for name in ("id", "kind", "status", "note", "agent", "metadata")}
    return mark | {"version": row.version, "parent": row.parent, "time": row.micros}


def _compare_rewinds(finder: Finder, thread: Standing, made: Iterable[Rewind]) -> None:
    stands = {each.entry: each.to for each in thread.derived.rewinds}
    right = {each.entry: each.to for each in made}
    told = [entry.version for entry in thread.own if entry.kind is EntryKind.THREAD_REWOUND]
    for entry in sorted({*stands, *right, *told}):
        place, here, there = f"rewind at version {entry}", stands.get(entry), right.get(entry)
        if here is None:
            finder.add(place, "is missing in the index", entry, derived=there is not None)
        elif here != there:
            reason = f"goes back to {here} in the index, and in the log " + ("nowhere" if there is None else f"{there}")
            finder.add(place, reason, entry, derived=True)
