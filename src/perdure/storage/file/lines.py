"""Lines as they stand in the files: JSON objects that end with their own checksum.

    {"entries":[{"version":1,"kind":"state.saved",…}],"changed":{…},"payload":[…],"crc":"1c291ca3"}

A line of a log is one write, whole: its entries, what it changed in the thread's directory line, its checkpoint and the
bodies. Or it is a record, which stands for changes before it whose bodies were pruned (they are null, their size is 0).
The same line without its bodies, with its place in the log, is a line of the index.
"""

from __future__ import annotations

from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, UnsetType

from perdure.core.checkpoint import NO_METADATA, CheckpointMark, CheckpointRow
from perdure.core.entries import ENTRY_SCHEMA, STATE_KINDS, Entry, EntryKind
from perdure.core.identity import ThreadKey, identity_digest
from perdure.core.render import from_json, to_json
from perdure.core.seams import Range, Rewind
from perdure.core.threads import ThreadRow

T = TypeVar("T")

_write = msgspec.json.Encoder().encode
_TAIL = len(b',"crc":"00000000"}\n')


class CannotReadLine(Exception):
    """Bytes that are not a line of ours; callers turn it into a damage error that names the place."""


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry without its payload."""

    version: int
    kind: EntryKind
    micros: int
    write_id: bytes
    digest: bytes
    chain: bytes
    size: int  # of the sealed payload
    actor: str | None = None
    key: str | None = None
    request: bytes | None = None
    schema: int = ENTRY_SCHEMA
    packed: bool = False  # the writer had compressed it
    back_to: int | None = None  # a rewind: the version it goes back to

    @property
    def is_blank(self) -> bool:
        """Whether its payload was pruned: every other has an envelope at least."""
        return self.size == 0


class RecordHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record without its payload."""

    low: int
    version: int
    chain: bytes
    digest: bytes
    size: int  # of the sealed payload
    whole: bool = False
    blobs: tuple[bytes, ...] = ()

    @property
    def gone(self) -> Range:
        """The versions that can no longer be restored."""
        return Range(self.low, self.version - 1)


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint, with its metadata in readable form."""

    id: str
    kind: str
    version: int
    entry: int
    micros: int
    parent: str | None = None
    status: str | None = None
    note: str | None = None
    agent: str | None = None
    metadata: Raw | UnsetType = UNSET  # nothing but {}
    said_parent: str | None = None  # as the writer said it, before the storage filled it in
    said_version: int | None = None


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who runs a thread and when to look after it. Of several, the one with the highest turn counts."""

    turn: int = 0
    epoch: int = 0
    owner: str | None = None
    until: int = 0
    wake_at: int | None = None
    attempts: int = 0


class Changed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a directory line that a write changed and that do not follow from its entries."""

    key: ThreadKey | UnsetType = UNSET
    uid: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    metadata: bytes | UnsetType = UNSET
    status: str | UnsetType = UNSET
    head: int | UnsetType = UNSET
    state_version: int | UnsetType = UNSET
    head_digest: bytes | UnsetType = UNSET
    last_checkpoint: str | UnsetType | None = UNSET
    parent_uid: str | UnsetType | None = UNSET
    parent_version: int | UnsetType = UNSET
    created: int | UnsetType = UNSET
    updated: int | UnsetType = UNSET
    quarantined_at: int | UnsetType | None = UNSET
    origin: str | UnsetType | None = UNSET
    origin_version: int | UnsetType = UNSET


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One write, or one record. The first line of a log carries the thread's key and uid, and a fork's its parent."""

    # In the first line, and first in it, to be told from its first bytes:
    edition: int = 0  # how often the log was written anew
    identity: bytes = b""  # digest of whose log this is and how it begins
    entries: tuple[Header, ...] = ()
    changed: Changed = Changed()
    checkpoint: Mark | None = None
    lease: Lease | None = None
    blobs: tuple[bytes, ...] = ()
    parent: str | None = None  # digest of the parent's key: the folder to look in first
    record: RecordHead | None = None
    payload: tuple[Raw, ...] = ()
    sealed: bytes | None = None  # a record's payload as it was given, where that was compressed: digests are over it

    @property
    def begins_at(self) -> int:
        """The version of its first entry, or of its record."""
        return self.record.version if self.record else self.entries[0].version if self.entries else 0


class Indexed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the index: where a line of the log stands, and all of it but its bodies."""

    at: int
    size: int
    sum: str  # the checksum of the line in the log
    line: Line
    edition: int = 0  # of the log: a line of another one says nothing about this


class Landmark(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is known at a line of the log besides the lines themselves: who asks for what is new begins here."""

    row: ThreadRow
    lease: Lease
    identity: bytes
    last: Indexed  # the line it stands behind
    lines: int  # … and how many there are up to it
    parent: str | None = None
    rewinds: tuple[Rewind, ...] = ()
    records: tuple[Indexed, ...] = ()


class LandmarkLine(msgspec.Struct, frozen=True):
    """A landmark as it stands between the lines of the index."""

    landmark: Landmark


class ForkMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a parent keeps of each of its forks, so that it stays as long as they do."""

    uid: str
    folder: str  # digest of the fork's key
    version: int  # up to which it needs the parent
    rewinds: tuple[Rewind, ...] = ()  # those of the fork that went back to earlier


def identified(line: Line) -> Line:
    """The first line of a log, with the digest of whose it is."""
    return msgspec.structs.replace(line, identity=identity_of(line))


def identity_of(line: Line) -> bytes:
    """The digest that the first line of a log has to carry."""
    row = row_after(NOBODY, line)
    return identity_digest(row.key, row.uid, line.entries[0].chain if line.entries else row.head_digest)


_FIELDS = Changed.__struct_fields__
NOBODY = ThreadRow(key=ThreadKey("", "", ""), uid="")


def written(value: msgspec.Struct) -> bytes:
    """A line with its checksum."""
    text = _write(value)[:-1]
    return text + _tail(text)


def checked(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Read a line; raise `CannotReadLine` unless every byte is as it was written."""
    text = data[:-_TAIL]
    if len(text) < 1 or data[-_TAIL:] != _tail(text):
        raise CannotReadLine("fails its checksum")
    try:
        return decoder.decode(text + b"}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise CannotReadLine(f"cannot be read by this release ({exc})") from exc


def checksum(data: bytes) -> str:
    """The checksum a line ends with."""
    return data[-11:-3].decode("latin-1")


def _tail(text: bytes) -> bytes:
    return b',"crc":"%08x"}\n' % crc32(text)


def lean(line: Line) -> Line:
    """The line without its bodies."""
    return msgspec.structs.replace(line, payload=(), sealed=None)


def header_of(entry: Entry, packed: bool, back_to: int | None = None) -> Header:
    """What the index keeps of an entry."""
    return Header(
        entry.version, entry.kind, entry.micros, entry.write_id, entry.digest, entry.chain, len(entry.payload or b""),
        entry.actor, entry.key, entry.request, entry.schema, packed, back_to,
    )  # fmt: skip


def entry_of(header: Header, payload: bytes | None) -> Entry:
    """The entry again."""
    return Entry(
        version=header.version,
        kind=header.kind,
        micros=header.micros,
        actor=header.actor,
        write_id=header.write_id,
        key=header.key,
        request=header.request,
        schema=header.schema,
        digest=header.digest,
        chain=header.chain,
        payload=payload,
    )


def mark_of(row: CheckpointRow) -> Mark:
    """A checkpoint row as it is written."""
    said = row.mark
    return Mark(
        said.id, said.kind, row.version, row.entry, row.micros, row.parent, said.status, said.note, said.agent,
        Raw(to_json(said.metadata)) if said.metadata != NO_METADATA else UNSET, said.parent, said.version,
    )  # fmt: skip


def checkpoint_of(mark: Mark, key: ThreadKey) -> CheckpointRow:
    """A checkpoint row as it was."""
    said = CheckpointMark(
        id=mark.id,
        kind=mark.kind,
        status=mark.status,
        note=mark.note,
        agent=mark.agent,
        metadata=NO_METADATA if isinstance(mark.metadata, UnsetType) else from_json(mark.metadata),
        parent=mark.said_parent,
        version=mark.said_version,
    )
    return CheckpointRow(
        mark=said, thread_id=key.id, user=key.user, version=mark.version, entry=mark.entry, parent=mark.parent,
        micros=mark.micros,
    )  # fmt: skip


def change_between(
    before: ThreadRow, after: ThreadRow, entries: tuple[Header, ...], checkpoint: Mark | None = None
) -> Changed:
    """What has to be written down, beside the entries and the checkpoint, to get from one row to the other."""
    follows = _moved(before, entries, checkpoint)
    fields = {name: getattr(after, name) for name in _FIELDS if getattr(after, name) != getattr(follows, name)}
    return Changed(**fields)


def row_after(row: ThreadRow, line: Line) -> ThreadRow:
    """The row after a line; leases are the `Lease`'s part."""
    changed = {name: value for name in _FIELDS if (value := getattr(line.changed, name)) is not UNSET}
    moved = _moved(row, line.entries, line.checkpoint)
    return msgspec.structs.replace(moved, **changed) if changed else moved


def _moved(row: ThreadRow, entries: tuple[Header, ...], checkpoint: Mark | None) -> ThreadRow:
    if not entries:
        return row
    newest = checkpoint.id if checkpoint else row.last_checkpoint
    states = [each.version for each in entries if each.kind in STATE_KINDS]
    runs = [each.version for each in entries if each.kind is EntryKind.RUN_STARTED]
    last = entries[-1]
    return msgspec.structs.replace(
        row,
        head=last.version,
        state_version=states[-1] if states else row.state_version,
        run=runs[-1] if runs else row.run,
        head_digest=last.chain,
        updated=last.micros,
        last_checkpoint=newest,
    )


def lease_in(row: ThreadRow, turn: int) -> Lease:
    """The lease fields of a row."""
    return Lease(turn, row.epoch, row.lease_owner, row.lease_until, row.wake_at, row.attempts)


def with_lease(row: ThreadRow, lease: Lease) -> ThreadRow:
    """The row with these lease fields."""
    return msgspec.structs.replace(
        row,
        epoch=lease.epoch,
        lease_owner=lease.owner,
        lease_until=lease.until,
        wake_at=lease.wake_at,
        attempts=lease.attempts,
    )
