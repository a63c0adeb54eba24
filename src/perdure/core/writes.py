"""A write as a storage is given it, and the rules that decide what becomes of it.

Every backend asks the same functions, inside its own transaction: the answers cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from operator import attrgetter
from typing import Protocol

import msgspec

from perdure.core.checkpoint import CheckpointMark, CheckpointRow
from perdure.core.digest import header_rest, link
from perdure.core.entries import STATE_KINDS, Entry, EntryKind, NewEntry
from perdure.core.errors import (
    KeyReusedError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    VersionConflictError,
)
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Pruning, Record
from perdure.core.quarantine import check_run, check_write
from perdure.core.threads import NO_PATCH, Lease, ThreadPatch, ThreadRow, patched

kind_of = attrgetter("kind")


class Header(Protocol):
    """What tells which write an entry came with."""

    @property
    def version(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def write_id(self) -> bytes: ...


class Blob(msgspec.Struct, frozen=True):
    """A large value kept apart, once per user."""

    digest: bytes  # SHA-256 of the body
    payload: bytes  # sealed


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one atomic append needs. It is applied wholly or not at all."""

    key: ThreadKey
    entries: tuple[NewEntry, ...]
    write_id: bytes
    micros: int
    new_uid: str  # the uid if this write makes the thread
    uid: str | None = None  # the thread the caller knows; None: whichever has the key, made when absent
    expected: int | None = None  # the last version that changed the state, as the caller knows it; None: any
    after_run: int | None = None  # the newest run of the thread (`ThreadRow.run`) as the caller knows it; None: any
    head: int | None = None  # the newest version, of whatever kind, as the caller knows it; None: any
    epoch: int | None = None  # of the caller's lease; None: outside a run
    renew_until: int = 0  # inside a run: the lease is renewed by the way
    commutes: bool = False  # a state change that is right after any other (append)
    idem_key: str | None = None
    request: bytes | None = None  # digest of the request, compared when the key is used again
    since: int | None = None  # on a retry: the version after which a first try would stand
    checkpoint: CheckpointMark | None = None  # rides on the last entry
    patch: ThreadPatch = NO_PATCH
    blobs: tuple[Blob, ...] = ()  # to insert, or to touch where they are there already
    back_to: int | None = None  # a rewind: the version its last entry goes back to
    names: int | None = None  # a version that a checkpoint or a tag of it is of
    pruning: Pruning | None = None  # what is dropped in the same transaction

    @property
    def is_plain(self) -> bool:
        """Whether it only adds: nothing of the log is left behind or dropped by it."""
        return self.names is None and self.back_to is None and self.pruning is None

    @property
    def goal(self) -> int | None:
        """The version whose state has to be there."""
        return self.names if self.back_to is None else self.back_to

    @property
    def patches(self) -> bool:
        """Whether it changes more of the thread's line than its head."""
        return self.patch is not NO_PATCH and self.patch != NO_PATCH

    @property
    def changes_state(self) -> bool:
        """Whether any of its entries has a delta."""
        return not STATE_KINDS.isdisjoint(map(kind_of, self.entries))


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a write."""

    row: ThreadRow  # after it
    version: int  # of its last entry
    state_version: int  # of its last entry that changed the state, 0 if none did
    before: int  # state_version of the thread just before it
    again: bool = False  # it had been written earlier; nothing was written now
    checkpoint: CheckpointRow | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A whole state at a version. A base is truth; any other may be dropped."""

    version: int
    chain: bytes  # the chain digest of that version
    digest: bytes  # SHA-256 of chain and payload as stored
    payload: bytes  # sealed
    base: bool = False
    blobs: tuple[bytes, ...] = ()  # a base holds on to the large values it refers to


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What folding needs: a starting point and the entries after it, with payload only where the state changed."""

    row: ThreadRow
    snapshot: Snapshot | None
    entries: list[Entry]
    records: list[Record] = []  # composed changes of pruned ranges among them


def base_record(low: int, base: Snapshot) -> Record:
    """A base as the record it is."""
    return Record(
        low=low, version=base.version, chain=base.chain, digest=base.digest, payload=base.payload, whole=True,
        blobs=base.blobs,
    )  # fmt: skip


def base_of(record: Record) -> Snapshot:
    """The base that a record of a whole state is."""
    return Snapshot(
        version=record.version, chain=record.chain, digest=record.digest, payload=record.payload, base=True,
        blobs=record.blobs,
    )  # fmt: skip


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes a thread, or a whole storage, takes."""

    threads: int
    entries: int
    entry_bytes: int
    snapshots: int
    snapshot_bytes: int
    checkpoints: int
    blobs: int
    blob_bytes: int
    disk_bytes: int  # of the whole storage (of a thread alone, where it has files of its own), 0 where there is none


def admit(row: ThreadRow | None, write: Write) -> ThreadRow:
    """Return the row the write builds on, or raise why it is refused.

    Call it after the key and the write id were looked up: a write that stands already is not a conflict.
    """
    if row is None:
        return _admit_new(write)
    if write.uid is not None and write.uid != row.uid:
        raise made_again(write.key, write.expected, row.state_version)
    _check_lease(row, write)
    if write.expected is not None and write.expected != row.state_version:
        raise VersionConflictError(write.key.id, write.expected, row.state_version)
    if write.after_run is not None and write.after_run != row.run:
        raise VersionConflictError(write.key.id, write.after_run, row.run)
    if write.head is not None and write.head != row.head:
        raise VersionConflictError(write.key.id, write.head, row.head)
    check_write(row, map(kind_of, write.entries))
    return row


def continues(row: ThreadRow, write: Write) -> bool:
    """Whether a write is admitted by this very line, if that stands: any doubt is for `admit` to settle.

    A storage that finds the line as it knew it needs no look at it first, but for the key.
    """
    if write.epoch is None:
        is_free = row.lease_owner is None
    else:
        is_free = row.lease_owner is not None and write.epoch == row.epoch
    return (
        is_free
        and write.since is None
        and write.uid in (None, row.uid)
        and write.expected in (None, row.state_version)
        and write.after_run in (None, row.run)
        and write.head in (None, row.head)
        and write.names is None
        and write.back_to is None
        and write.pruning is None
        and row.quarantined_at is None
    )


def _admit_new(write: Write) -> ThreadRow:
    if write.epoch is not None or write.uid is not None:
        raise deleted(write)
    if write.expected or write.after_run:
        raise VersionConflictError(write.key.id, write.expected or write.after_run or 0, 0)
    return ThreadRow(key=write.key, uid=write.new_uid, created=write.micros, updated=write.micros)


def made_again(key: ThreadKey, expected: int | None, version: int) -> VersionConflictError:
    """The error of a caller that knows another thread of this name; its versions cannot be compared."""
    told = f"thread {key.id!r} was deleted and made again since it was read; load it again and redo the change"
    return VersionConflictError(key.id, expected or 0, version, told)


def deleted(write: Write) -> NotFoundError:
    """The refusal of a write to a thread that is gone.

    A storage raises it too when `new_uid` belongs to a deleted thread that forks still need: the write made that thread
    once, and its retry must not make another of the same identity.
    """
    return NotFoundError(f"thread {write.key.id!r}", "it was deleted")


def _check_lease(row: ThreadRow, write: Write) -> None:
    if write.epoch is not None:
        if write.epoch != row.epoch or row.lease_owner is None:
            raise LeaseLostError(write.key.id, write.epoch, row.epoch)
        return
    live = row.lease_owner is not None and row.lease_until > write.micros
    if live and write.changes_state and not write.commutes:
        raise LeaseHeldError(write.key.id, row.lease_owner or "")


def same_request(write: Write, request: bytes | None, version: int) -> None:
    """Raise `KeyReusedError` when a key that stands at `version` was used for another request."""
    if request != write.request:
        raise KeyReusedError(write.key.id, write.idem_key or "", version)


def at_moment(write: Write, now: int) -> Write:
    """The write in the time that counts; a lease is renewed for as long as was asked."""
    if now == write.micros:
        return write
    return msgspec.structs.replace(write, micros=now, renew_until=_until(write, now))


def _until(write: Write, now: int) -> int:
    return write.renew_until and write.renew_until + now - write.micros


def stamped(row: ThreadRow, write: Write, now: int | None = None) -> tuple[ThreadRow, list[Entry]]:
    """Give the new entries their versions, times and chain digests, and return the row after them.

    Time never goes back inside a log: a clock that jumped back gives the predecessor's time again. `now` is the time
    that counts, if that is not the write's own.
    """
    now = write.micros if now is None else now
    micros = max(now, row.updated)
    version, chain, state_version, run = row.head, row.head_digest, row.state_version, row.run
    entries: list[Entry] = []
    idem_key, request = write.idem_key, write.request if write.idem_key is not None else None
    for new in write.entries:
        version += 1
        rest = header_rest(new, write.write_id, idem_key, request)
        chain = link(chain, version, micros, rest, new.digest)
        if new.kind in STATE_KINDS:
            state_version = version
        elif new.kind is EntryKind.RUN_STARTED:
            run = version
        entries.append(
            Entry(
                version=version, kind=new.kind, micros=micros, actor=new.actor, write_id=write.write_id, key=idem_key,
                request=request, schema=new.schema, digest=new.digest, chain=chain, payload=new.payload,
            )
        )  # fmt: skip
        idem_key = request = None  # stand on the first one
    moved = msgspec.structs.replace(
        row,
        head=version,
        state_version=state_version,
        run=run,
        head_digest=chain,
        updated=micros,
        last_checkpoint=write.checkpoint.id if write.checkpoint else row.last_checkpoint,
        lease_until=row.lease_until if write.epoch is None else max(row.lease_until, _until(write, now)),
    )
    return moved if write.patch is NO_PATCH else patched(moved, write.patch), entries


def checkpoint_row(before: ThreadRow, after: ThreadRow, mark: CheckpointMark) -> CheckpointRow:
    """The index line of the checkpoint that rides on the last entry of a write."""
    return CheckpointRow(
        mark=mark,
        thread_id=after.key.id,
        user=after.key.user,
        version=after.head if mark.version is None else mark.version,
        entry=after.head,
        parent=mark.parent or before.last_checkpoint,
        micros=after.updated,
    )


def accepted(before: ThreadRow, after: ThreadRow, mark: CheckpointRow | None) -> Appended:
    """The answer to a write that was made now."""
    changed = after.state_version if after.state_version > before.head else 0
    return Appended(row=after, version=after.head, state_version=changed, before=before.state_version, checkpoint=mark)


def foreseen(row: ThreadRow, write: Write, now: int | None = None) -> tuple[Appended, list[Entry]]:
    """The answer to a write that is made on top of this line, and its entries; `now` as in `stamped`."""
    after, entries = stamped(row, write, now)
    mark = checkpoint_row(row, after, write.checkpoint) if write.checkpoint else None
    changed = after.state_version if after.state_version > row.head else 0
    done = Appended(row=after, version=after.head, state_version=changed, before=row.state_version, checkpoint=mark)
    return done, entries


def found_again(row: ThreadRow, standing: Iterable[Header], mark_at: Callable[[int], CheckpointRow | None]) -> Appended:
    """The answer to a write that stands already. `standing` are the log's headers from its first entry on.

    What it wrote then is what the answer names, even if the same request would be written otherwise now.
    """
    written = written_together(standing)
    changed = [header.version for header in written if header.kind in STATE_KINDS]
    return Appended(
        row=row,
        version=written[-1].version,
        state_version=changed[-1] if changed else 0,
        before=row.state_version,
        again=True,
        checkpoint=mark_at(written[-1].version),
    )


WAKING_KINDS = frozenset(
    {
        EntryKind.RUN_STARTED,
        EntryKind.RUN_FINISHED,
        EntryKind.RUN_FAILED,
        EntryKind.RUN_CANCELLED,
        EntryKind.PAUSE_APPROVED,
        EntryKind.PAUSE_DECIDED,
        EntryKind.SIGNAL_RECEIVED,
    }
)


def wakes(write: Write) -> bool:
    """Whether somebody may wait for this write: an answer, a signal, the begin or end of a run, a timer, trust."""
    timer = write.patch.wake_at is not None or write.patch.trusted
    return timer or not WAKING_KINDS.isdisjoint(map(kind_of, write.entries))


def written_together(standing: Iterable[Header]) -> list[Header]:
    """The first of these headers and those after it that came with the same write."""
    headers = iter(standing)
    first = next(headers)
    return [first, *takewhile(lambda header: header.write_id == first.write_id, headers)]


def claimed(row: ThreadRow, owner: str, until: int, now: int, take_from: str | None) -> ThreadRow:
    """The row after `owner` claims it; raise `LeaseHeldError` while another lease is live.

    `take_from` names an owner known to be dead, whose lease is taken at once. Raises `QuarantinedError` for a thread
    that nobody has trusted.
    """
    check_run(row)
    held_by = row.lease_owner
    if held_by is not None and row.lease_until > now and held_by != take_from:
        raise LeaseHeldError(row.key.id, held_by)
    return msgspec.structs.replace(row, epoch=row.epoch + 1, lease_owner=owner, lease_until=until, wake_at=None)


def renewed(row: ThreadRow, epoch: int, until: int) -> ThreadRow:
    """The row with a longer lease; raise `LeaseLostError` when it is another's by now."""
    _owned(row, epoch)
    return msgspec.structs.replace(row, lease_until=max(row.lease_until, until))


def released(row: ThreadRow, epoch: int, wake_at: int | None) -> ThreadRow:
    """The row without its lease; raise `LeaseLostError` when it is another's by now.

    A timer that was set meanwhile stays, unless this one is earlier: an answer that came must not be forgotten.
    """
    _owned(row, epoch)
    timers = [at for at in (row.wake_at, wake_at) if at is not None]
    return msgspec.structs.replace(row, lease_owner=None, lease_until=0, wake_at=min(timers, default=None))


def _owned(row: ThreadRow, epoch: int) -> None:
    if row.epoch != epoch or row.lease_owner is None:
        raise LeaseLostError(row.key.id, epoch, row.epoch)


def lease_of(row: ThreadRow) -> Lease:
    """The lease a row carries."""
    return Lease(owner=row.lease_owner or "", epoch=row.epoch, until=row.lease_until)


RowChange = Callable[[ThreadRow], ThreadRow]
