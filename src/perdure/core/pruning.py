"""What a prune leaves of a log: headers for all entries, and one record where a range of changes was.

A record does what the changes of its range did: it is a composed change, or, at the oldest point that stays, a whole
state. The entry that tells of a prune carries the digests of its records, so that the chain vouches for them too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache

import msgspec
from msgspec import Raw

from perdure.core.checkpoint import CheckpointMark, CheckpointRow
from perdure.core.digest import snapshot_digest
from perdure.core.entries import STATE_KINDS, Entry, EntryKind
from perdure.core.envelope import EnvelopeError, unseal
from perdure.core.errors import EntryDamagedError, PlanOutdatedError
from perdure.core.ops import Op
from perdure.core.seams import Range, Rewind, Seams
from perdure.core.threads import ThreadRow

BLANK = b""  # the payload of an entry that was pruned
# Entries that name a point, or go back to one: a plan made before them may drop it.
_NAMING = frozenset(
    {
        EntryKind.CHECKPOINT_TAGGED,
        EntryKind.CHECKPOINT_SAVED,
        EntryKind.PAUSE_OPENED,
        EntryKind.THREAD_REWOUND,
        EntryKind.RANGE_PRUNED,
    }
)


class Talk(msgspec.Struct, array_like=True, frozen=True):
    """The conversation at the end of a range, as far as the state there does not tell it."""

    count: int  # messages said so far
    listed: list[int]  # for each item of the list in the state: which of them it is
    lost: list[tuple[int, Raw]] = []  # those that the list no longer has, as they were last
    whole: bool = True  # False: beside what was known at the beginning of the range
    held: list[tuple[int, int]] = []  # those of the others that an entry is: their number and its version


class Composed(msgspec.Struct, array_like=True, frozen=True):
    """The content of a record that is a change."""

    low: int
    low_chain: bytes
    ops: list[Op]
    mark: CheckpointMark | None = None  # the checkpoint of the last entry of the range
    to: int | None = None
    blobs: list[bytes] = []
    talk: Talk | None = None
    times: list[tuple[int, int]] = []  # the messages of the range: their numbers, and the versions they were said at


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for the changes after `low` up to `version`."""

    low: int
    version: int
    chain: bytes  # the chain digest of that version
    digest: bytes  # SHA-256 of chain and payload as stored
    payload: bytes  # sealed
    whole: bool = False  # a base: the state itself
    blobs: tuple[bytes, ...] = ()  # the large values it refers to

    @property
    def gone(self) -> Range:
        """The versions that can no longer be restored."""
        return Range(self.low, self.version - 1)


class WholeLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log as it stood at one moment, its parents' part included: all of it fits together."""

    row: ThreadRow
    entries: list[Entry] = []
    records: list[Record] = []
    rewinds: list[Rewind] = []
    checkpoints: list[CheckpointRow] = []  # oldest first

    @property
    def seams(self) -> Seams:
        """The rewinds and the gone versions, of a log that was read from its beginning."""
        return Seams(self.rewinds, [each.gone for each in self.records])


class Pruning(msgspec.Struct, frozen=True, kw_only=True):
    """What a storage does, in the transaction of the entry that tells of it. All of it is the thread's own."""

    seen: int  # the head when it was planned
    first: int = 0  # the first change of the thread: a fork made before it needs no state
    records: tuple[Record, ...]
    blank: tuple[int, ...] = ()  # entries besides the changes in the ranges whose payload goes
    unmarked: tuple[int, ...] = ()  # entries whose checkpoint goes
    uses: dict[bytes, int] | None = (
        None  # afterwards, by large value: the first version that refers to it; None: as before
    )

    def blanks(self, entry: Entry) -> bool:
        """Whether this entry loses its payload."""
        changed = entry.kind in STATE_KINDS and any(each.low < entry.version <= each.version for each in self.records)
        return changed or entry.version in self.blank

    def covers(self, version: int) -> bool:
        """Whether a whole state of this version would lie inside a range, of no use to anybody."""
        return any(version in each.gone for each in self.records)


NO_RECORDS: tuple[Record, ...] = ()


@cache
def _decoder() -> msgspec.msgpack.Decoder[Composed]:
    return msgspec.msgpack.Decoder(Composed)


def content_of(thread_id: str, record: Record) -> Composed:
    """The checked content of a composed record."""
    if snapshot_digest(record.chain, record.payload) != record.digest:
        raise EntryDamagedError(thread_id, record.version, "has a composed change that fails its digest")
    try:
        content = _decoder().decode(unseal(record.payload))
    except (EnvelopeError, msgspec.DecodeError, RecursionError) as exc:
        raise EntryDamagedError(
            thread_id, record.version, f"has a composed change that cannot be read ({exc})"
        ) from exc
    if content.low != record.low:
        raise EntryDamagedError(thread_id, record.version, "has a composed change of another range")
    return content


def check_current(row: ThreadRow, pruning: Pruning, needed: Iterable[int], newer: Sequence[EntryKind]) -> None:
    """Raise `PlanOutdatedError` when a plan would drop what was named since: `newer` are the kinds after `seen`.

    `needed` are the versions that forks of the thread need.
    """
    for version in needed:
        if version >= pruning.first and any(version in record.gone for record in pruning.records):
            raise PlanOutdatedError(row.key.id, f"version {version} was forked from meanwhile")
    named = [kind for kind in newer if kind in _NAMING]
    if named:
        raise PlanOutdatedError(row.key.id, f"there is a new {named[0].value} entry")


def standing_for(records: Sequence[Record], version: int) -> Record | None:
    """The record whose range holds a version; `records` are in order."""
    at = bisect_left(records, version, key=lambda record: record.version)
    return records[at] if at < len(records) and records[at].low < version else None


def is_blank(entry: Entry) -> bool:
    """Whether the payload of an entry was pruned (and not merely left out of a listing)."""
    return entry.payload == BLANK
