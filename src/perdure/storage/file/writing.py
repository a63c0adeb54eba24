"""The transactions that change a thread: append, fork, leases, snapshots."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

from perdure.core.checkpoint import CheckpointRow
from perdure.core.entries import Entry
from perdure.core.errors import NotFoundError
from perdure.core.forks import same_fork
from perdure.core.identity import ThreadKey
from perdure.core.seams import Rewind, check_there
from perdure.core.threads import ThreadRow
from perdure.core.writes import (
    Appended,
    RowChange,
    Snapshot,
    Write,
    accepted,
    admit,
    checkpoint_row,
    deleted,
    found_again,
    same_request,
    stamped,
)
from perdure.storage.file import leases, pruning
from perdure.storage.file.blobs import Blobs
from perdure.storage.file.bodies import is_packed, shown
from perdure.storage.file.forks import need, need_earlier
from perdure.storage.file.history import ancestry
from perdure.storage.file.lines import (
    NOBODY,
    Lease,
    Line,
    Mark,
    change_between,
    checkpoint_of,
    header_of,
    lease_in,
    mark_of,
    row_after,
)
from perdure.storage.file.log import Log
from perdure.storage.file.logs import Logs
from perdure.storage.file.snapshots import Snapshots


def append(logs: Logs, blobs: Blobs, write: Write) -> Appended:
    """The append of the contract."""
    folder = logs.folder(write.key)
    if not logs.disk.is_folder(folder):
        admit(None, write)  # refused before anything is made
        if logs.disk.is_folder(logs.hidden(write.new_uid)):
            raise deleted(write)
    with (
        blobs.held(blobs.scope(write.key)) if write.blobs else nullcontext(),
        logs.writing(folder, create=True) as log,
        ExitStack() as stack,
    ):
        assert log is not None  # noqa: S101  # made when absent
        return _again(log, write) or _append(log, blobs, logs, write, stack)


def _again(log: Log, write: Write) -> Appended | None:
    """The answer to a write that stands already."""
    if log.index.is_empty:
        return None
    first = log.index.keys.get(write.idem_key) if write.idem_key is not None else None
    if first is not None:
        same_request(write, log.index.header(first).request, first)
    else:
        first = _retried(log, write)
    return None if first is None else _found(log, write, first)


def _retried(log: Log, write: Write) -> int | None:
    if write.since is not None:
        return log.index.written_at(write.write_id, write.since)
    stale = write.expected not in (None, log.row.state_version)
    return log.index.written_at(write.write_id, write.expected or 0) if stale else None


def _found(log: Log, write: Write, first: int) -> Appended:
    def mark_at(version: int) -> CheckpointRow | None:
        mark = log.index.mark_at(version)
        return checkpoint_of(mark, write.key) if mark else None

    return found_again(log.row, map(log.index.header, range(first, log.row.head + 1)), mark_at)


def _append(log: Log, blobs: Blobs, logs: Logs, write: Write, stack: ExitStack) -> Appended:
    before = admit(log.row if not log.index.is_empty else None, write)
    plan = write.pruning if not log.index.is_empty else None  # a thread that is just made has nothing to lose
    if plan is not None:
        pruning.check(logs, log, plan)
    past = ancestry(logs, log, stack) if write.goal is not None else None  # held until the entry is written
    if past is not None and write.goal is not None:
        check_there(write.key.id, write.goal, past.gone())
    after, entries = stamped(before, write)
    mark = checkpoint_row(before, after, write.checkpoint) if write.checkpoint else None
    line = _line(log, write, after, entries, mark_of(mark) if mark else None)
    # What the line refers to has to be durable before the line is.
    if write.blobs:
        blobs.put(write.key, write.blobs, write.micros)
    if past is not None and write.back_to is not None:
        need_earlier(logs, past, (Rewind(after.head, write.back_to),))
    if plan is not None:
        pruning.prune(logs, log, plan, line)
    else:
        log.append(line)
    return accepted(before, after, mark)


def _line(log: Log, write: Write, after: ThreadRow, entries: list[Entry], mark: Mark | None) -> Line:
    headers = tuple(
        header_of(entry, is_packed(entry.payload or b""), write.back_to if entry is entries[-1] else None)
        for entry in entries
    )
    return Line(
        entries=headers,
        changed=change_between(log.index.row if not log.index.is_empty else NOBODY, after, headers, mark),
        checkpoint=mark,
        lease=changed_lease(log, after),
        blobs=tuple(blob.digest for blob in write.blobs),
        payload=tuple(shown(entry.payload or b"") for entry in entries),
    )


def changed_lease(log: Log, after: ThreadRow) -> Lease | None:
    """The lease that a line has to carry, if a write changes it."""
    unchanged = lease_in(after, log.lease.turn) == log.lease
    return None if unchanged else lease_in(after, log.lease.turn + 1)


def fork(logs: Logs, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
    """The fork of the contract."""
    made = _forked(logs, source, version, target)
    # One that stands already is read without the parent's lock: its own writers take both, the child's first.
    return made or _standing(logs, target.key)


def _forked(logs: Logs, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow | None:
    """The new thread; None when this very fork was made before."""
    with logs.writing(logs.folder(source)) as log, ExitStack() as stack:
        if log is None or not 0 <= version <= log.row.head:
            raise NotFoundError(f"version {version} of thread {source.id!r}")
        found = ancestry(logs, log, stack)
        check_there(source.id, version, found.gone())
        if _stands(logs, log.row.uid, version, target):
            return None
        row = found.forked(version, target)
        made = stack.enter_context(logs.writing(logs.folder(target.key), create=True))
        if _stands(logs, log.row.uid, version, target):
            return None
        assert made is not None  # noqa: S101  # made when absent
        need(logs, log.folder, row)
        made.append(Line(changed=change_between(NOBODY, row, ()), parent=source.digest()))
        return made.row


def _stands(logs: Logs, parent_uid: str, version: int, target: ThreadRow) -> bool:
    """Looked at without the lock first: two forks onto each other's threads would wait for each other."""
    born = logs.born(logs.folder(target.key))
    if born is not None:
        same_fork(row_after(NOBODY, born), parent_uid, version, target)
    return born is not None


def _standing(logs: Logs, key: ThreadKey) -> ThreadRow:
    with logs.reading(logs.folder(key)) as log:
        if log is None:
            raise NotFoundError(f"thread {key.id!r}", "it was deleted")
        return log.row


def change_lease(logs: Logs, key: ThreadKey, change: RowChange) -> ThreadRow:
    """Claim, renew or release, as `change` says."""
    with logs.writing(logs.folder(key)) as log:
        if log is None:
            raise NotFoundError(f"thread {key.id!r}")
        row = change(log.row)
        log.mark()
        log.lease = leases.keep(logs.disk, log.folder, row, log.lease.turn + 1)
        return row


def put_snapshot(logs: Logs, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
    """The put_snapshot of the contract."""
    with logs.writing(logs.folder(key)) as log:
        if log is None or log.row.uid != uid:
            return False
        if snapshot.base:
            pruning.put_base(logs, log, snapshot)
        elif log.index.base_at(snapshot.version) is None:
            Snapshots(logs.disk, log.folder).put(snapshot)
        return True
