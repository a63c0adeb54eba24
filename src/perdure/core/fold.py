"""Folding a log: from a whole state and the changes after it to the state at a version. Every byte is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec import Raw

from perdure.core import blobs
from perdure.core.checkpoint import CheckpointMark
from perdure.core.codec import guarded
from perdure.core.digest import GENESIS, body_of, follows, snapshot_digest, verify_links
from perdure.core.document import Document, DoesNotFit
from perdure.core.entries import Entry
from perdure.core.envelope import EnvelopeError, unsealed
from perdure.core.errors import EntryDamagedError
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ops import Op
from perdure.core.payload import StateChange, WholeState, decode_change, decode_mark, decode_whole, encode_body
from perdure.core.pruning import Composed, Record, content_of, is_blank, standing_for
from perdure.core.writes import Restored, Snapshot, base_of

_decode_changes = msgspec.msgpack.Decoder(list[StateChange]).decode


Bodies = Mapping[bytes, bytes]


class SnapshotDamaged(Exception):
    """A whole state that fails its check; derived ones are dropped and done without."""


def change_of(thread_id: str, entry: Entry) -> StateChange:
    """The checked change of an entry."""
    body = body_of(thread_id, entry)
    try:
        return decode_change(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise EntryDamagedError(thread_id, entry.version, f"cannot be decoded ({exc})") from exc


def changes_of(thread_id: str, entries: Sequence[Entry]) -> list[StateChange]:
    """The checked changes of many entries, decoded in one go: a call for each would cost as much as the work."""
    bodies = [body_of(thread_id, entry) for entry in entries]
    try:
        return _decode_changes(b"".join((b"\xdd", len(bodies).to_bytes(4, "big"), *bodies)))
    except (msgspec.DecodeError, RecursionError):
        return [change_of(thread_id, entry) for entry in entries]  # names the one that is wrong


class Pruned(Exception):
    """A change that is needed has no payload, and no record stands for it."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def changes_in(thread_id: str, restored: Restored) -> list[StateChange]:
    """The checked changes of what was restored, in order; a pruned range is one change. Raises `Pruned`."""
    entries = [entry for entry in restored.entries if entry.changes_state]
    if not restored.records:
        empty = next((entry.version for entry in entries if is_blank(entry)), None)
        if empty is not None:
            raise Pruned(empty)
        return changes_of(thread_id, entries)
    return [change for entry in entries for change in _standing(thread_id, entry, restored.records)]


def _standing(thread_id: str, entry: Entry, records: Sequence[Record]) -> list[StateChange]:
    """What an entry of a log with pruned ranges does: nothing where a record stands for it."""
    record = standing_for(records, entry.version)
    if record is None:
        if is_blank(entry):
            raise Pruned(entry.version)
        return [change_of(thread_id, entry)]
    if record.version != entry.version:
        return []
    content = content_of(thread_id, record)
    if record.chain != entry.chain:
        raise EntryDamagedError(thread_id, entry.version, "has the composed change of another log")
    return [StateChange(content.ops, content.mark, content.to, content.blobs)]


def each_change(thread_id: str, restored: Restored) -> Iterator[tuple[Entry, StateChange]]:
    """`changes_in` one by one, for changes that would take much memory together."""
    for entry in restored.entries:
        if entry.changes_state:
            for change in _standing(thread_id, entry, restored.records):
                yield entry, change


Step = StateChange | WholeState | Composed


def walk(thread_id: str, entries: Iterable[Entry], records: Sequence[Record]) -> Iterator[tuple[Entry, Step | None]]:
    """Each entry of a log with what it does to the state: a base or a composed change stands for a pruned range.

    None for entries that do nothing, and for those that a later one stands for. Every digest is checked. Raises
    `EntryDamagedError` for an empty one that nothing stands for.
    """
    for entry in entries:
        record = standing_for(records, entry.version)
        if not entry.changes_state or (record is not None and record.version != entry.version):
            yield entry, None
        elif record is None:
            if is_blank(entry):
                raise EntryDamagedError(thread_id, entry.version, "is empty, and nothing stands for it")
            yield entry, change_of(thread_id, entry)
        elif record.chain != entry.chain:
            raise EntryDamagedError(thread_id, entry.version, "has the record of another log")
        else:
            yield entry, _content(thread_id, record)


def _content(thread_id: str, record: Record) -> WholeState | Composed:
    if not record.whole:
        return content_of(thread_id, record)
    try:
        return whole_of(base_of(record))
    except SnapshotDamaged as exc:
        raise EntryDamagedError(thread_id, record.version, "has a damaged base") from exc


def with_bodies(step: Step, bodies: Bodies, limits: DecodeLimits = DEFAULT_LIMITS) -> Step:
    """The same with its large values put back."""
    if not step.blobs:
        return step
    if isinstance(step, WholeState):
        state = Raw(guarded(blobs.resolve, step.state, bodies, limits))
        return msgspec.structs.replace(step, state=state)
    return _resolve_step(type(step), encode_body(step), bodies, limits)


def _resolve_step(
    kind: type[StateChange | Composed], body: bytes, bodies: Bodies, limits: DecodeLimits
) -> StateChange | Composed:
    return guarded(lambda: msgspec.msgpack.decode(blobs.resolve(body, bodies, limits), type=kind))


def mark_of(thread_id: str, entry: Entry) -> CheckpointMark:
    """The checkpoint of an entry that only marks a version."""
    try:
        return decode_mark(body_of(thread_id, entry))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise EntryDamagedError(thread_id, entry.version, f"cannot be decoded ({exc})") from exc


def kept_mark(thread_id: str, record: Record) -> CheckpointMark | None:
    """The checkpoint of the entry that a record took the place of."""
    return _content(thread_id, record).mark


def straddled(snapshot: Snapshot | None, records: Sequence[Record]) -> bool:
    """Whether a whole state lies inside a pruned range: the change from it to the end of the range is not known."""
    return snapshot is not None and any(each.low < snapshot.version < each.version for each in records)


def whole_of(snapshot: Snapshot) -> WholeState:
    """The checked content of a snapshot."""
    if type(snapshot.payload) is not bytes or snapshot_digest(snapshot.chain, snapshot.payload) != snapshot.digest:
        raise SnapshotDamaged
    try:
        return decode_whole(unsealed(snapshot.payload))
    except (EnvelopeError, msgspec.DecodeError, RecursionError) as exc:
        raise SnapshotDamaged from exc


def verify(restored: Restored, at: int | None, start: int = 0, chain: bytes = GENESIS) -> None:
    """Check every link from the start (a snapshot's version, or what the caller knows) to `at`.

    Raises `SnapshotDamaged` when the snapshot is of another thread or version than the entries after it, and
    `EntryDamagedError` when an entry is missing, changed, or not the head that the directory names.
    """
    row, snapshot, entries = restored.row, restored.snapshot, restored.entries
    if snapshot is not None:
        start, chain = snapshot.version, snapshot.chain
        if entries and not follows(chain, entries[0]):
            raise SnapshotDamaged
    goal = row.head if at is None else at
    last = verify_links(row.key.id, start, chain, entries)
    if start + len(entries) != goal:
        raise EntryDamagedError(row.key.id, start + len(entries) + 1, "is missing")
    if goal == row.head and last != row.head_digest:
        if snapshot is not None and not entries:
            raise SnapshotDamaged
        raise EntryDamagedError(row.key.id, goal, "is not the head the directory names: its chain digest is wrong")


def apply(
    thread_id: str,
    document: Document,
    entries: Sequence[Entry],
    changes: Sequence[StateChange],
    bodies: Bodies,
    limits: DecodeLimits = DEFAULT_LIMITS,
) -> None:
    """Apply the changes of entries, with their large values put back."""
    deltas = [_resolved(change, bodies, limits) if change.blobs else change.ops for change in changes]
    try:
        document.fold(chain.from_iterable(deltas))
    except (DoesNotFit, msgspec.DecodeError, TypeError, RecursionError) as exc:
        versions = f"{entries[0].version} to {entries[-1].version}"
        reason = f"(or one of {versions}) does not fit the state before it ({exc})"
        raise EntryDamagedError(thread_id, entries[-1].version, reason) from exc


def _resolved(change: StateChange, bodies: Bodies, limits: DecodeLimits) -> list[Op]:
    return guarded(lambda: decode_change(blobs.resolve(encode_body(change), bodies, limits))).ops


def document_of(whole: WholeState, bodies: Bodies, limits: DecodeLimits = DEFAULT_LIMITS) -> Document:
    """The document a snapshot starts from."""
    state = Raw(guarded(blobs.resolve, whole.state, bodies, limits)) if whole.blobs else whole.state
    return Document(state, memoryview(state).nbytes)
