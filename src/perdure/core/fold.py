"""Folding a log: from a whole state and the changes after it to the state at a version. Every byte is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec
from msgspec import Raw

from perdure.core import blobs
from perdure.core.digest import GENESIS, body_of, follows, snapshot_digest, verify_links
from perdure.core.document import Document, DoesNotFit
from perdure.core.entries import Entry
from perdure.core.envelope import EnvelopeError, unseal
from perdure.core.errors import EntryDamagedError
from perdure.core.ops import Op
from perdure.core.payload import StateChange, WholeState, decode_change, decode_whole, encode_body
from perdure.core.writes import Restored, Snapshot

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


def whole_of(snapshot: Snapshot) -> WholeState:
    """The checked content of a snapshot."""
    if type(snapshot.payload) is not bytes or snapshot_digest(snapshot.chain, snapshot.payload) != snapshot.digest:
        raise SnapshotDamaged
    try:
        return decode_whole(unseal(snapshot.payload))
    except (EnvelopeError, msgspec.DecodeError) as exc:
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
    thread_id: str, document: Document, entries: Sequence[Entry], changes: Sequence[StateChange], bodies: Bodies
) -> None:
    """Apply the changes of entries, with their large values put back."""
    deltas = [_resolved(change, bodies) if change.blobs else change.ops for change in changes]
    try:
        document.fold(chain.from_iterable(deltas))
    except (DoesNotFit, msgspec.DecodeError, TypeError) as exc:
        versions = f"{entries[0].version} to {entries[-1].version}"
        reason = f"(or one of {versions}) does not fit the state before it ({exc})"
        raise EntryDamagedError(thread_id, entries[-1].version, reason) from exc


def _resolved(change: StateChange, bodies: Bodies) -> list[Op]:
    return decode_change(blobs.resolve(encode_body(change), bodies)).ops


def document_of(whole: WholeState, bodies: Bodies) -> Document:
    """The document a snapshot starts from."""
    state = Raw(blobs.resolve(whole.state, bodies)) if whole.blobs else whole.state
    return Document(state, memoryview(state).nbytes)
