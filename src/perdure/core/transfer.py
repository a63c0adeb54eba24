"""A whole thread on its way from one storage to another, and the rules that decide what becomes of it there.

A copy has the entries of a log as they stand: versions, times, write ids, keys and chain digests do not change. A fork
is copied with its whole history. What came from its parents is kept as that of deleted parents is: apart, for the fork
alone. Stored with the fork itself, its parents' keys would answer for it, and one used again after the fork would be
there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from perdure.core.blobs import checked
from perdure.core.checkpoint import CheckpointRow
from perdure.core.digest import GENESIS, body_of, snapshot_digest, verify_links
from perdure.core.entries import Entry, newest_run
from perdure.core.errors import EntryDamagedError, LeaseHeldError, NotFoundError, ThreadExistsError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Record, content_of, is_blank, standing_for
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow


class CopiedBlob(msgspec.Struct, frozen=True):
    """A large value that a copied log refers to."""

    digest: bytes  # SHA-256 of the body
    payload: bytes  # sealed
    version: int  # the first that refers to it


class ThreadCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as it stands: all of it, or what comes after a version that the other storage has already."""

    row: ThreadRow  # as the storage it was taken from has it
    entries: list[Entry]  # with payload, after `after` up to the head, those of parents included
    checkpoints: list[CheckpointRow] = []  # that ride on those entries, oldest first
    blobs: list[CopiedBlob] = []
    records: list[Record] = []  # of pruned ranges that end after `after`, bases among them
    rewinds: list[Rewind] = []  # after `after`
    after: int = 0
    chain: bytes = GENESIS  # the chain digest at `after`
    spare_uid: str | None = None  # taken where another thread has the row's uid

    @property
    def uids(self) -> list[str]:
        """The uids it may have, the preferred one first."""
        return [self.row.uid, *((self.spare_uid,) if self.spare_uid else ())]

    @property
    def inherited(self) -> int:
        """Up to which version its history came from parents."""
        return self.row.parent_version if self.row.parent_uid is not None else 0

    @property
    def run(self) -> int:
        """The version of the newest run that was started in it, its parents' part aside; 0 when none was."""
        return newest_run(self.between(self.inherited, self.row.head))

    def under(self, key: ThreadKey) -> ThreadCopy:
        """The same for another key, which may be another user's."""
        return msgspec.structs.replace(self, row=msgspec.structs.replace(self.row, key=key))

    def between(self, low: int, high: int) -> Sequence[Entry]:
        """Its entries after `low` up to `high`."""
        return self.entries[max(low - self.after, 0) : max(high - self.after, 0)]

    def chain_at(self, version: int) -> bytes | None:
        """The chain digest at a version, None where the copy does not know it."""
        if version == self.after:
            return self.chain
        found = self.between(version - 1, version) if version > self.after else ()
        return found[0].chain if found else None


def check(copy: ThreadCopy) -> None:
    """Raise `EntryDamagedError` or `BlobDamagedError` unless every link, body and large value is as it was written."""
    name, row = copy.row.key.id, copy.row
    last = verify_links(name, copy.after, copy.chain, copy.entries)
    if copy.after + len(copy.entries) != row.head:
        raise EntryDamagedError(name, copy.after + len(copy.entries) + 1, "is missing")
    if last != row.head_digest:
        raise EntryDamagedError(name, row.head, "is not the head the directory names: its chain digest is wrong")
    _check_records(copy)
    for entry in copy.entries:
        if not is_blank(entry):
            body_of(name, entry)
        elif entry.changes_state and standing_for(copy.records, entry.version) is None:
            raise EntryDamagedError(name, entry.version, "is empty, and nothing stands for it")
    for blob in copy.blobs:
        checked(blob.digest, blob.payload)


def _check_records(copy: ThreadCopy) -> None:
    name = copy.row.key.id
    for record in copy.records:
        if (
            copy.chain_at(record.version) != record.chain
            or snapshot_digest(record.chain, record.payload) != record.digest
        ):
            raise EntryDamagedError(name, record.version, "has a record of another log in its place")
        if not record.whole:
            content_of(name, record)


def standing_until(standing: ThreadRow | None, copy: ThreadCopy) -> int:
    """Up to which version the copy is there already, its head when nothing is left to do.

    The chain digest tells a thread that is the beginning of this one from any other, which is a `ThreadExistsError`.
    Raises `NotFoundError` for the rest of a thread whose beginning is not there, and `LeaseHeldError` while somebody
    runs the thread that would grow.
    """
    name = copy.row.key.id
    if standing is None:
        if copy.after:
            raise NotFoundError(f"thread {name!r}", f"its entries after version {copy.after} cannot be added")
        return 0
    # One that ends before the fork is the parents' beginning, not this thread's; every log begins like an empty one.
    other = standing.head < copy.inherited or (standing.head == 0 and standing.uid not in copy.uids)
    if other or copy.chain_at(standing.head) != standing.head_digest:
        raise ThreadExistsError(name)
    if standing.head < copy.row.head and standing.lease_owner is not None:
        raise LeaseHeldError(name, standing.lease_owner)
    return standing.head


def born(copy: ThreadCopy, free: Sequence[str]) -> ThreadRow:
    """The line of the thread that a copy makes: nobody runs it, and a fork of nothing is no fork.

    `free` are those of its uids that no other thread has; raise `ThreadExistsError` when there is none.
    """
    if not free:
        raise ThreadExistsError(copy.row.key.id)
    parent = copy.row.parent_uid if copy.inherited else None
    return msgspec.structs.replace(
        copy.row, uid=free[0], run=copy.run, lease_owner=None, lease_until=0, parent_uid=parent
    )


def grown(standing: ThreadRow, copy: ThreadCopy) -> ThreadRow:
    """The line of a thread after the rest of a copy was added. Its epoch never goes back."""
    return msgspec.structs.replace(
        copy.row,
        uid=standing.uid,
        run=copy.run or standing.run,
        created=standing.created,
        epoch=max(standing.epoch, copy.row.epoch),
        lease_owner=None,
        lease_until=0,
        parent_uid=standing.parent_uid,
        parent_version=standing.parent_version,
    )


def past(copy: ThreadCopy, uid: str, *, parent_is_free: bool) -> list[ThreadRow]:
    """The lines of the threads that hold what a fork has from its parents, the oldest first; nobody sees them.

    The last one takes the parent's uid if it is free, so that other forks of the same parent find it.
    """
    parent = copy.row.parent_uid if parent_is_free else None
    lines: list[ThreadRow] = []
    for number, (low, high) in enumerate(pairwise([0, *_cuts(copy)]), 1):
        lines.append(
            ThreadRow(
                key=copy.row.key,
                uid=parent if parent is not None and high == copy.inherited else f"{uid}.{number}",
                head=high,
                state_version=max((each.version for each in copy.between(0, high) if each.changes_state), default=0),
                head_digest=copy.chain_at(high) or GENESIS,
                parent_uid=lines[-1].uid if lines else None,
                parent_version=low,
                created=copy.row.created,
                updated=copy.between(high - 1, high)[0].micros,
                quarantined_at=copy.row.quarantined_at,
                origin=copy.row.origin,
                origin_version=copy.row.origin_version,
            )
        )
    return lines


def _cuts(copy: ThreadCopy) -> list[int]:
    """Where the past is cut, and ends: no thread has a key twice, but a fork may have used its parents' again.

    A base stands for everything since its thread began: one of a fork must not stand for what came before that.
    """
    cuts: list[int] = []
    keys: set[str | None] = set()
    begun = {record.low for record in copy.records if record.whole and record.low}
    for entry in copy.between(0, copy.inherited):
        if entry.key in keys or entry.version - 1 in begun:
            cuts.append(entry.version - 1)
            keys.clear()
        keys |= {entry.key} - {None}
    return [*cuts, copy.inherited] if copy.inherited else []
