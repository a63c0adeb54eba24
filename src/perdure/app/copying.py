"""Copying threads from one storage to another: each is read, put in one transaction, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.checkpoints.restoring import Restorer
from perdure.core import transfer
from perdure.core.checkpoint import CheckpointRow
from perdure.core.derived import same_line
from perdure.core.digest import GENESIS, body_of, digest_of, verify_links
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import (
    CheckpointDamagedError,
    ConflictError,
    DamagedError,
    EntryDamagedError,
    InvalidInputError,
    LeaseHeldError,
    NotFoundError,
    VersionConflictError,
)
from perdure.core.forks import parents_first
from perdure.core.identity import RESULTS, ThreadKey, callers_namespace, reserved_of
from perdure.core.ids import IdMaker
from perdure.core.ports import Silence
from perdure.core.pruning import is_blank
from perdure.core.quarantine import Arrival
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy
from perdure.storage.contract import Storage
from perdure.storage.listing import all_threads
from perdure.storage.transfer import checkpoints_after, take

_PAGE = 500
ANOTHER = "the target has a thread of this id with another history; delete it there, or have it overwritten"
_ELSEWHERE = ", or import this one under another id (to=…, --to)"
_EMPTYING = frozenset({EntryKind.RANGE_PRUNED, EntryKind.MESSAGE_DELETED})  # they take from the entries before them


class Outcome(StrEnum):
    """What became of a thread."""

    COPIED = "copied"
    GREW = "grew"  # an earlier copy was brought up to it
    SAME = "same"  # the target had all of it
    REFUSED = "refused"


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """One thread, and what became of it."""

    key: ThreadKey
    outcome: Outcome
    entries: int = 0  # that were read, put and read back; a fork has its parents' too, even where they are shared
    bytes: int = 0  # of their payloads, large values included
    reason: str = ""  # why it was refused
    quarantined: bool = False  # where it is now


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which threads to copy; nothing said is all of them.

    What the library keeps for them in reserved namespaces comes along: subgraphs, results of tools; with a namespace
    also its cache and its memory of graphs.
    """

    namespaces: tuple[str, ...] = ()
    user: str | None = None  # "" is nobody
    threads: tuple[str, ...] = ()


Progress = Callable[[int, int, Copied], None]  # how many are done, of how many, and the newest of them


async def copy_threads(
    source: Storage,
    target: Storage,
    choice: Choice = Choice(),  # noqa: B008  # frozen
    *,
    overwrite: bool = False,
    arrival: Arrival = Arrival(),  # noqa: B008  # frozen
    progress: Progress | None = None,
) -> list[Copied]:
    """Copy the chosen threads, and return what became of each; what is in the source stays as it is.

    Threads keep the quarantine and the origin that they have in the source, unless `arrival` says otherwise.

    It can be repeated: threads that the target has are left alone, and those that have grown since are brought up to
    the source: one that was pruned there, or had messages deleted, is put anew, and its forks in the target keep what
    they need. A thread that cannot be copied is refused and does not keep others from it; a storage that fails does.
    With `overwrite`, a thread of the target with another history is deleted first. Raises `NotFoundError` for a chosen
    thread that does not exist.
    """
    rows = await chosen(source, choice)
    copier = _Copier(source, target, overwrite, arrival)
    done: list[Copied] = []
    for row in rows:
        done.append(await copier.copy(row))
        if progress is not None:
            progress(len(done), len(rows), done[-1])
    return done


async def chosen(source: Storage, choice: Choice) -> list[ThreadRow]:
    """The lines of the chosen threads, parents before their forks, which then share their past."""
    rows: list[ThreadRow] = []
    for namespace in await source.namespaces():
        if not choice.namespaces or callers_namespace(namespace) in choice.namespaces:
            rows += await _chosen_in(source, namespace, choice)
    for thread_id in choice.threads:
        if not any(row.key.id == thread_id for row in rows):
            raise NotFoundError(f"thread {thread_id!r}")
    return parents_first(rows)


async def _chosen_in(source: Storage, namespace: str, choice: Choice) -> list[ThreadRow]:
    reserved = reserved_of(namespace)
    if not choice.threads or (reserved is not None and reserved.thread in choice.threads):
        return await all_threads(source, namespace, choice.user)
    if reserved is not None and reserved.kind != RESULTS:
        return []  # its ids are no threads' ids
    found = [row for thread_id in choice.threads for row in await source.find(namespace, thread_id)]
    return [row for row in found if choice.user is None or row.key.user == choice.user]


class _Copier:
    """Copies one thread after the other."""

    def __init__(self, source: Storage, target: Storage, overwrite: bool, arrival: Arrival) -> None:
        self._source = source
        self._target = target
        self._overwrite = overwrite
        self._arrival = arrival
        self._ids = IdMaker(SystemClock(), SystemRandomness())

    async def copy(self, row: ThreadRow) -> Copied:
        """Copy a thread, or say why not."""
        try:
            return await self._copied(row)
        except (ConflictError, DamagedError, InvalidInputError, NotFoundError) as exc:
            return Copied(key=row.key, outcome=Outcome.REFUSED, reason=str(exc))

    async def _copied(self, row: ThreadRow) -> Copied:
        standing = await self._target.thread(row.key)
        if standing is None:
            return await self._put_anew(row.key, Outcome.COPIED)
        if await _chain(self._target, standing, row.head) == row.head_digest:
            if standing.head == row.head and await self._is_put_anew(row, standing):
                return await self._put_anew(row.key, Outcome.GREW, standing)
            return Copied(key=row.key, outcome=Outcome.SAME, quarantined=standing.is_quarantined)
        if await _chain(self._source, row, standing.head) == standing.head_digest:
            return await self._caught_up(row, standing)
        if not self._overwrite:
            reason = ANOTHER if self._arrival.origin is None else ANOTHER + _ELSEWHERE
            return Copied(key=row.key, outcome=Outcome.REFUSED, reason=reason)
        return await self._put_anew(row.key, Outcome.COPIED, standing)

    async def _is_put_anew(self, row: ThreadRow, standing: ThreadRow) -> bool:
        """Whether a thread that has the whole log is replaced for what lies beside the log."""
        if self._arrival.frees(standing, row):
            return True
        return self._arrival.signed and await self._hangs_on_old(row, standing)

    async def _caught_up(self, row: ThreadRow, standing: ThreadRow) -> Copied:
        """Bring up a thread that is the beginning of this one.

        What tells of a prune does not prune: added to a log that still has everything, it left damage behind. And what
        stands for pruned ranges in a quarantined thread must not become part of a trusted one.
        """
        if self._overwrite and not self._arrival.signed:
            return await self._put_anew(row.key, Outcome.COPIED, standing)
        self._arrival.grown(standing, row)  # or it is refused
        if self._arrival.frees(standing, row):
            return await self._put_anew(row.key, Outcome.GREW, standing)
        rest = await self._taken(row.key, standing.head, standing.head_digest)
        if any(entry.kind in _EMPTYING for entry in rest.entries) or await self._hangs_on_old(row, standing):
            return await self._put_anew(row.key, Outcome.GREW, standing)
        grown = msgspec.structs.replace(rest, row=self._arrival.grown(standing, rest.row))
        return await self._put(grown, Outcome.GREW)

    async def _hangs_on_old(self, row: ThreadRow, standing: ThreadRow) -> bool:
        """Whether a fork shows what was emptied in its parent: that was put anew, and left the old one to its forks."""
        line = await self._source.line(row.parent_uid) if row.parent_uid else None
        parent = await self._target.thread(line.key) if line else None
        if line is None or parent is None or parent.uid == standing.parent_uid:
            return False
        if await _chain(self._source, line, parent.head) != parent.head_digest:
            return False  # hung on a parent with another history it might never be like its source
        return not await _shown(self._target, row) <= await _shown(self._source, row)

    async def _taken(self, key: ThreadKey, after: int = 0, chain: bytes = GENESIS) -> ThreadCopy:
        return await take(self._source, key, after=after, chain=chain, spare_uid=self._ids.sortable())

    async def _put_anew(self, key: ThreadKey, outcome: Outcome, standing: ThreadRow | None = None) -> Copied:
        """Put a copy under a uid of its own: who has seen a thread that stood there must not take it for that one."""
        if standing is not None and standing.lease_owner is not None:
            raise LeaseHeldError(key.id, standing.lease_owner)
        copy = await self._taken(key)
        row, parent = self._arriving(copy.row, outcome, standing), await self._parent_of(copy.row)
        epoch = max(row.epoch, standing.epoch if standing else 0)
        born = msgspec.structs.replace(row, uid=self._ids.sortable(), parent_uid=parent or row.parent_uid, epoch=epoch)
        return await self._put(msgspec.structs.replace(copy, row=born), outcome, standing)

    def _arriving(self, row: ThreadRow, outcome: Outcome, standing: ThreadRow | None) -> ThreadRow:
        """The row with the standing that it has in the target: one that grows keeps that of the thread it continues."""
        if standing is None or outcome is not Outcome.GREW or self._arrival.frees(standing, row):
            return self._arrival.new(row)
        return self._arrival.grown(standing, row)

    async def _make_room(self, copy: ThreadCopy, standing: ThreadRow) -> None:
        """Delete the thread that stands where a copy goes, once nothing is known that could keep the copy from it."""
        transfer.check(copy)
        now = await self._target.thread(standing.key)
        if now is not None and now.lease_owner is not None:
            raise LeaseHeldError(standing.key.id, now.lease_owner)
        # What somebody wrote there since it was compared would be lost, although nobody asked to overwrite it.
        if not self._overwrite and (now is None or not same_line(now, standing)):
            told = f"thread {standing.key.id!r} was written to in the target meanwhile; copy it again"
            raise VersionConflictError(standing.key.id, standing.head, now.head if now else 0, told)
        await self._target.delete(standing.key)

    async def _parent_of(self, row: ThreadRow) -> str | None:
        """The uid that the parent of a fork has where it goes, if it stands there by the same name."""
        line = await self._source.line(row.parent_uid) if row.parent_uid else None
        standing = await self._target.thread(line.key) if line else None
        return standing.uid if standing else None

    async def _put(self, copy: ThreadCopy, outcome: Outcome, standing: ThreadRow | None = None) -> Copied:
        key, head = copy.row.key, copy.row.head
        state = await _state(self._source, key, head)  # a source that is damaged is found out before anything is put
        if standing is not None:
            await self._make_room(copy, standing)
        made = await self._target.put_thread(copy)
        await self._put_snapshot(copy, made)
        await _check_log(self._target, copy)
        await _check_checkpoints(self._target, copy)
        if await _state(self._target, key, head) != state:
            raise EntryDamagedError(key.id, head, "gives another state than in the source")
        return Copied(
            key=key, outcome=outcome, entries=len(copy.entries), bytes=_weight(copy), quarantined=made.is_quarantined
        )

    async def _put_snapshot(self, copy: ThreadCopy, made: ThreadRow) -> None:
        """The newest whole state comes along: without it, the first to load would fold the whole log."""
        restored = await self._source.restore(copy.row.key, at=copy.row.head)
        snapshot = restored.snapshot if restored else None
        if snapshot is None or snapshot.version <= max(copy.after, made.parent_version):
            return
        if snapshot.base:
            return  # it came as a record; one that was made since is not of this log
        if copy.chain_at(snapshot.version) == snapshot.chain:
            await self._target.put_snapshot(made.key, made.uid, snapshot)


async def _chain(storage: Storage, row: ThreadRow, version: int) -> bytes | None:
    """The chain digest of a thread at a version; None when it has no such version."""
    if version == 0 or version > row.head:
        return GENESIS if version == row.head else None
    found = await storage.headers(row.key, at=version)
    return found[0].chain if found and found[0].version == version else None


async def _shown(storage: Storage, fork: ThreadRow) -> set[tuple[type, int]]:
    """What a fork has of its parents' part: entries that were not emptied, and checkpoints."""
    entries = await storage.entries(fork.key, limit=fork.parent_version)
    marks = await checkpoints_after(storage, fork, 0)
    return {
        *((Entry, entry.version) for entry in entries if not is_blank(entry)),
        *((CheckpointRow, mark.entry) for mark in marks if mark.entry <= fork.parent_version),
    }


async def _state(storage: Storage, key: ThreadKey, version: int) -> bytes:
    """The digest of the state at a version."""
    return digest_of((await Restorer(storage, Silence()).restore(key, version)).document.encoded())


async def _check_log(target: Storage, copy: ThreadCopy) -> None:
    """Read back what was put: every body, and every link from the first to the head."""
    name, version, chain = copy.row.key.id, copy.after, copy.chain
    while version < copy.row.head:
        page = await target.entries(copy.row.key, after=version, limit=min(_PAGE, copy.row.head - version))
        if not page:
            raise EntryDamagedError(name, version + 1, "is missing in the target")
        chain = verify_links(name, version, chain, page)
        for entry in page:
            if not is_blank(entry):
                body_of(name, entry)
        version = page[-1].version
    if chain != copy.row.head_digest:
        raise EntryDamagedError(name, version, "has another chain digest in the target")


async def _check_checkpoints(target: Storage, copy: ThreadCopy) -> None:
    """Each is there and means the same version, whose chain digest stands for the state it had."""
    found = _decided(await checkpoints_after(target, copy.row, copy.after))
    for mark, there in _decided(copy.checkpoints).items():
        if found.get(mark) != there:
            raise CheckpointDamagedError(mark, copy.row.key.id)


def _decided(rows: Iterable[CheckpointRow]) -> dict[str, CheckpointRow]:
    """Checkpoints by id, without what their writers had left open."""
    plain = (
        msgspec.structs.replace(row, mark=msgspec.structs.replace(row.mark, parent=None, version=None)) for row in rows
    )
    return {row.mark.id: row for row in plain}


def _weight(copy: ThreadCopy) -> int:
    return sum(len(entry.payload or b"") for entry in copy.entries) + sum(len(blob.payload) for blob in copy.blobs)
