"""What the entries of a log say, each body read and checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from perdure.core import blobs, fold
from perdure.core.checkpoint import CheckpointMark
from perdure.core.codec import decode_tagged
from perdure.core.digest import body_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.envelope import unseal
from perdure.core.errors import EntryDamagedError, ValueDamagedError
from perdure.core.fold import SnapshotDamaged, Step
from perdure.core.pruning import Record, content_of, is_blank
from perdure.core.writes import base_of

# What reading a row whose columns hold something else may raise.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, OverflowError, msgspec.MsgspecError, ValueDamagedError)


class Prune(msgspec.Struct, frozen=True):
    """What an entry tells of a prune."""

    entry: int
    dropped: frozenset[str]  # ids of checkpoints that are gone
    records: list[tuple[int, int, bytes, bytes]]  # low, version, chain, digest


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says, by version."""

    steps: dict[int, Step]  # what entries, or the records in their place, do to the state
    marks: dict[int, CheckpointMark]  # the checkpoints that ride on entries
    prunes: list[Prune]
    large: dict[int, list[bytes]]  # what looks like a reference to a large value
    records: list[Record]  # a base stands for everything before it
    unread: dict[int, str]  # entries and records that cannot be read, and why
    emptied: set[int]  # messages that were deleted

    @property
    def dropped(self) -> frozenset[str]:
        """The ids of all checkpoints that were pruned."""
        return frozenset(each for prune in self.prunes for each in prune.dropped)

    @property
    def last_prune(self) -> int:
        """The newest entry that tells of a prune, 0 when there is none."""
        return max((each.entry for each in self.prunes), default=0)


def read(thread_id: str, entries: Iterable[Entry], records: Iterable[Record]) -> Said:
    """Read every body. One that fails is left out, and told."""
    standing = [msgspec.structs.replace(each, low=0) if each.whole else each for each in records]
    said = Said(steps={}, marks={}, prunes=[], large={}, records=standing, unread={}, emptied=set())
    for entry in entries:
        if not is_blank(entry):
            _try(said, entry.version, lambda entry=entry: _entry(thread_id, entry, said))
    for record in standing:
        _try(said, record.version, lambda record=record: _record(thread_id, record, said))
    return said


def _try(said: Said, version: int, work: Callable[[], None]) -> None:
    try:
        work()
    except EntryDamagedError as exc:
        said.unread[version] = exc.reason
    except SnapshotDamaged:
        said.unread[version] = "has a base that fails its digest"
    except _UNREADABLE as exc:
        said.unread[version] = f"cannot be read ({exc})"


def _entry(thread_id: str, entry: Entry, said: Said) -> None:
    body = body_of(thread_id, entry)
    if entry.changes_state:
        change = fold.change_of(thread_id, entry)
        _step(said, entry.version, change)
    elif entry.kind is EntryKind.CHECKPOINT_SAVED:
        said.marks[entry.version] = fold.mark_of(thread_id, entry)
    elif entry.kind is EntryKind.RANGE_PRUNED:
        said.prunes.append(_prune(entry.version, decode_tagged(body)))
    elif entry.kind is EntryKind.MESSAGE_DELETED:
        said.emptied.update(decode_tagged(body)["versions"])
    _refers(said, entry.version, body)


def _record(thread_id: str, record: Record, said: Said) -> None:
    content = fold.whole_of(base_of(record)) if record.whole else content_of(thread_id, record)
    _step(said, record.version, content)
    _refers(said, record.version, unseal(record.payload))


def _step(said: Said, version: int, step: Step) -> None:
    said.steps[version] = step
    if step.mark is not None:
        said.marks[version] = step.mark


def _prune(version: int, told: Any) -> Prune:
    records = [(int(low), int(high), bytes(chain), bytes(digest)) for low, high, chain, digest in told["records"]]
    return Prune(version, frozenset(told["dropped"]), records)


def _refers(said: Said, version: int, body: bytes) -> None:
    if found := blobs.referred(body):
        said.large[version] = found


def needed(said: Said) -> dict[bytes, int]:
    """The large values that states are made of, and the first version that refers to each."""
    found: dict[bytes, int] = {}
    for version in sorted(said.steps):
        for digest in said.steps[version].blobs:
            found.setdefault(digest, version)
    return found
