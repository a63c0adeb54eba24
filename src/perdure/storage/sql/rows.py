"""Rows of the tables as values, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from typing import Annotated, Any

import msgspec

from perdure.core.checkpoint import CheckpointMark, CheckpointRow, metadata_in
from perdure.core.digest import GENESIS
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import StorageDamagedError, ValueDamagedError, ValueTooLargeError
from perdure.core.identity import ThreadKey, identity_digest
from perdure.core.messages import MessageRow, Tally
from perdure.core.pruning import Record
from perdure.core.render import CannotRead, from_json, to_json
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.core.times import MAX_MICROS
from perdure.core.writes import Snapshot

Row = tuple[Any, ...]
_KINDS = {kind.value: kind for kind in EntryKind}
_tags = msgspec.json.Decoder(tuple[str, ...]).decode
_encode_tags = msgspec.json.Encoder().encode
VERSIONS = 1 << 32


def _shapes(*columns: tuple[type, ...]) -> frozenset[tuple[type, ...]]:
    """The types that the columns of a row may have, in all combinations."""
    return frozenset(product(*columns))


def _check(row: Row, shapes: frozenset[tuple[type, ...]]) -> None:
    """Raise unless each column has a type of its own: a damaged row of SQLite's may hold anything anywhere.

    The connection calls that damage.
    """
    if tuple(map(type, row)) not in shapes:
        raise TypeError(f"columns of the types {', '.join(type(each).__name__ for each in row)}")


_NONE = type(None)
_INT, _STR, _BYTES = (int,), (str,), (bytes,)
_MAYBE_INT, _MAYBE_STR, _MAYBE_BYTES = (int, _NONE), (str, _NONE), (bytes, _NONE)
_ENTRY = _shapes(_INT, _STR, _INT, _MAYBE_STR, _BYTES, _MAYBE_STR, _MAYBE_BYTES, _INT, _BYTES, _BYTES, _MAYBE_BYTES)
_MARK = _shapes(
    _STR, _STR, _MAYBE_STR, _MAYBE_STR, _MAYBE_STR, _BYTES, _INT, _INT, _MAYBE_STR, _INT, _STR, _STR
)  # fmt: skip
_RECORD = _shapes(_INT, _INT, _BYTES, _BYTES, _BYTES)
_SNAPSHOT = _shapes(_INT, _BYTES, _BYTES, _BYTES, _INT)
_REWIND = _shapes(_INT, _INT)
_SEAM, _BLOB = _shapes(_INT, _INT, _INT), _shapes(_BYTES)
_USE = _shapes(_BYTES, _INT)
_MESSAGE = _shapes(
    _INT, _INT, _MAYBE_INT, _MAYBE_STR, _STR, _MAYBE_STR, _MAYBE_STR, _INT, _INT, _INT, _INT, _MAYBE_BYTES,
    _MAYBE_BYTES, _STR, _STR, _STR,
)  # fmt: skip


class StoredThread(msgspec.Struct, frozen=True):
    """A thread's line and the number of its row."""

    number: int
    row: ThreadRow
    first_chain: bytes = GENESIS  # of its first entry, or of the version it was forked from; GENESIS: not known

    def place(self, version: int) -> int:
        """The row number of one of its versions."""
        return self.number * VERSIONS + version

    def as_known(self) -> Row:
        """What tells that the line is still this one: what changes with each entry, and all that can without one."""
        row = self.row
        return (
            self.number, row.uid, row.head, row.head_digest, row.epoch, row.lease_owner, row.lease_until, row.wake_at
        )  # fmt: skip


_Count = Annotated[int, msgspec.Meta(ge=0)]
_Moment = Annotated[int, msgspec.Meta(ge=0, le=MAX_MICROS)]


class _Line(msgspec.Struct, array_like=True, gc=False):
    """The columns of the thread table, each of its type: `convert` would take a tuple's types apart at every row."""

    number: int
    uid: str
    namespace: str
    user: str
    id: str
    name: str | None
    agent: str | None
    tags: str
    status: str
    head: _Count
    state_version: _Count
    head_digest: bytes
    last_checkpoint: str | None
    epoch: _Count
    lease_owner: str | None
    lease_until: int
    wake_at: int | None
    attempts: int
    parent_uid: str | None
    parent_version: _Count
    created: _Moment
    updated: _Moment
    metadata: str | None
    run: _Count
    quarantined_at: int | None
    origin: str | None
    origin_version: int
    first_chain: bytes
    identity: bytes


THREAD_WIDTH = len(_Line.__struct_fields__)  # columns


def check_identity(key: ThreadKey, uid: str, first_chain: bytes, identity: bytes) -> None:
    """Raise unless a row was made for this thread: its name, its owner or its log may be another's."""
    if identity_digest(key, uid, first_chain) != identity:
        raise StorageDamagedError(f"the row of thread {key.id!r}", "it was made for another thread")


UNREADABLE = (StorageDamagedError, msgspec.MsgspecError, ValueError, TypeError)  # what a damaged row raises


def sound_threads(rows: Iterable[Row]) -> list[StoredThread]:
    """The threads of these rows. A damaged row is left out, so that it stops nobody else; `damaged` names it."""
    found: list[StoredThread] = []
    for row in rows:
        with suppress(*UNREADABLE):
            found.append(thread_of(row))
    return found


def thread_of(row: Row) -> StoredThread:
    """A row of the thread table; a column that holds something else raises, and the connection calls that damage."""
    line = msgspec.convert(row, _Line, builtin_types=(bytes,))
    key = ThreadKey(line.namespace, line.user, line.id)
    check_identity(key, line.uid, line.first_chain, line.identity)
    return StoredThread(
        line.number,
        ThreadRow(
            key=key,
            uid=line.uid,
            name=line.name,
            agent=line.agent,
            tags=() if line.tags == "[]" else _tags(line.tags),
            status=line.status,
            head=line.head,
            state_version=line.state_version,
            head_digest=line.head_digest,
            last_checkpoint=line.last_checkpoint,
            epoch=line.epoch,
            lease_owner=line.lease_owner,
            lease_until=line.lease_until,
            wake_at=line.wake_at,
            attempts=line.attempts,
            parent_uid=line.parent_uid,
            parent_version=line.parent_version,
            created=line.created,
            updated=line.updated,
            metadata=_metadata(key, line.metadata) if line.metadata else b"",
            run=line.run,
            quarantined_at=line.quarantined_at,
            origin=line.origin,
            origin_version=line.origin_version,
        ),
        line.first_chain,
    )


def _metadata(key: ThreadKey, text: str) -> bytes:
    try:
        metadata = from_json(text.encode())
        metadata_in(metadata)  # one row that cannot be shown would keep everybody's list from being shown
    except CannotRead as exc:
        raise StorageDamagedError(f"the row of thread {key.id!r}", f"its metadata {exc}") from exc
    except (ValueDamagedError, ValueTooLargeError) as exc:
        raise StorageDamagedError(f"the row of thread {key.id!r}", f"its metadata cannot be read ({exc})") from exc
    return metadata


def tags_text(tags: tuple[str, ...]) -> str:
    """Tags as they stand in the table."""
    return _encode_tags(tags).decode()


def metadata_text(metadata: bytes) -> str | None:
    """Metadata as it stands in the table."""
    return to_json(metadata).decode() if metadata else None


def thread_values(row: ThreadRow, first_chain: bytes) -> Row:
    """The values of INSERT_THREAD, but for those of the moment."""
    return (
        row.uid, bytes.fromhex(row.key.digest()), row.key.namespace, row.key.user, row.key.id, row.name, row.agent,
        tags_text(row.tags), row.status, row.head, row.state_version, row.head_digest, row.last_checkpoint, row.epoch,
        row.lease_owner, row.lease_until, row.wake_at, row.attempts, row.parent_uid, row.parent_version, row.created,
        metadata_text(row.metadata), row.run, row.quarantined_at, row.origin, row.origin_version,
        first_chain, identity_digest(row.key, row.uid, first_chain),
    )  # fmt: skip


def patch_values(number: int, row: ThreadRow) -> Row:
    """The values of PATCH_THREAD."""
    return (
        row.name, row.agent, tags_text(row.tags), row.status, row.epoch, row.lease_owner, row.lease_until, row.wake_at,
        row.attempts, metadata_text(row.metadata), row.quarantined_at, row.origin, row.origin_version, number,
    )  # fmt: skip


def entry_of(row: Row) -> Entry:
    """A line of the entry table."""
    _check(row, _ENTRY)
    version, kind, at, actor, write_id, key, request, schema, digest, chain, payload = row
    return Entry(
        version=version,
        kind=_KINDS[kind],
        micros=at,
        actor=actor,
        write_id=write_id,
        key=key,
        request=request,
        schema=schema,
        digest=digest,
        chain=chain,
        payload=payload,
    )


def entry_values(place: int, entry: Entry) -> Row:
    """The values of INSERT_ENTRY."""
    return (
        place, str(entry.kind), entry.micros, entry.actor, entry.write_id, entry.key, entry.request, entry.schema,
        entry.digest, entry.chain, entry.payload,
    )  # fmt: skip


def checkpoint_of(row: Row) -> CheckpointRow:
    """A line of the checkpoint table, joined with its thread."""
    _check(row, _MARK)
    mark = CheckpointMark(id=row[0], kind=row[1], status=row[2], note=row[3], agent=row[4], metadata=row[5])
    return CheckpointRow(
        mark=mark, version=row[6], entry=row[7], parent=row[8], micros=row[9], thread_id=row[10], user=row[11]
    )


def checkpoint_values(thread: int, place: int, row: CheckpointRow) -> Row:
    """The values of INSERT_CHECKPOINT."""
    mark = row.mark
    return (
        place, mark.id, thread, row.version, mark.kind, mark.status, mark.note, mark.agent, mark.metadata, row.parent,
        row.micros,
    )  # fmt: skip


def record_of(row: Row) -> Record:
    """A line of the composed table."""
    _check(row, _RECORD)
    return Record(version=row[0], low=row[1], chain=row[2], digest=row[3], payload=row[4])


def snapshot_of(row: Row) -> Snapshot:
    """A line of the snapshot table."""
    _check(row, _SNAPSHOT)
    return Snapshot(version=row[0], chain=row[1], digest=row[2], payload=row[3], base=bool(row[4]))


def seam_of(row: Row) -> tuple[int, int, int]:
    """Where a log is not one version after the other: of which sort, at which version, and since which or back to."""
    _check(row, _SEAM)
    return row[0], row[1], row[2]


def blob_of(row: Row) -> bytes:
    """The payload of a large value."""
    _check(row, _BLOB)
    return row[0]


def read_to_of(row: Row) -> tuple[int, int, int]:
    """How far a log was read: in which shape, up to which version, and how many numbers messages got."""
    _check(row, _SEAM)
    return row[0], row[1], row[2]


def rewind_of(row: Row) -> Rewind:
    """A line of the rewind table."""
    _check(row, _REWIND)
    entry, to = row
    if not 0 <= to < entry:
        raise ValueError(f"a rewind at version {entry} to version {to}")
    return Rewind(entry, to)


def use_of(row: Row) -> tuple[bytes, int]:
    """A large value that a thread uses, and since which version."""
    _check(row, _USE)
    return row[0], row[1]


def scope_of(key: ThreadKey) -> bytes:
    """Whose large values these are: hash of namespace and user."""
    return bytes.fromhex(ThreadKey(key.namespace, key.user, "").digest())


def scope_number(namespace: str, user: str) -> int:
    """A number for a user's threads, or with "" for those of a namespace: others may have the same, but hardly ever."""
    return int.from_bytes(scope_of(ThreadKey(namespace, user, ""))[:8], "big") >> 1


def line_values(stored: StoredThread, line: MessageRow, place_of: Callable[[int], int]) -> Row:
    """The values of a line of the message table; what an entry holds is not kept twice."""
    key, entry = stored.row.key, line.version
    return (
        stored.place(line.number), None if entry is None else place_of(entry), scope_number(key.namespace, ""),
        scope_number(key.namespace, key.user), line.micros, line.id, line.role, line.node, line.run, line.tool_calls,
        int(line.error), line.tokens, line.duration, line.digest if entry is None else None, line.payload,
    )  # fmt: skip


def line_of(row: Row) -> MessageRow:
    """A line of the message table, joined with its entry and its thread."""
    _check(row[:16], _MESSAGE)
    return MessageRow(
        number=row[0], micros=row[1], version=row[2], id=row[3], role=row[4], node=row[5], run=row[6],
        tool_calls=row[7], error=bool(row[8]), tokens=row[9], duration=row[10], payload=row[11], digest=row[12] or b"",
        thread_id=row[13], user=row[14], uid=row[15],
    )  # fmt: skip


def tally_of(row: Row) -> Tally:
    """What lines of a role add up to; the sums of large numbers come in two halves."""
    role, messages, calls, errors, tokens, more_tokens, duration, more_duration, first, last = row
    return Tally(
        role=role, messages=messages, tool_calls=int(calls), errors=int(errors),
        tokens=(int(tokens) << 32) + int(more_tokens), duration=(int(duration) << 32) + int(more_duration),
        first=first, last=last,
    )  # fmt: skip
