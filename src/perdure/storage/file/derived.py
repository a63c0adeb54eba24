"""What is derived from a log: read for those who compare it with the log, and read again from the log."""

from __future__ import annotations

from contextlib import suppress
from posixpath import join, relpath

from perdure.core.derived import Derived, same_line
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.storage.file import leases
from perdure.storage.file.directory import LOG
from perdure.storage.file.index import Index, known
from perdure.storage.file.leases import LeaseFile
from perdure.storage.file.lines import Lease, checkpoint_of
from perdure.storage.file.log import INDEX, Log
from perdure.storage.file.logs import HIDDEN, Logs
from perdure.storage.file.snapshots import Snapshots

_BEYOND = 1_000_000  # more claims than a thread has in its life


def derived(logs: Logs, key: ThreadKey) -> Derived | None:
    """The derived of the contract."""
    with logs.reading(logs.folder(key)) as log:
        if log is None:
            return None
        for item in log.index.lines:
            if not item.line.entries and item.line.record is None:
                log.contents.line(item)  # the first line of a fork, which nobody reads for a body
        return Derived(
            row=log.row,
            checkpoints=[checkpoint_of(mark, key) for mark in log.index.marks],
            rewinds=list(log.index.rewinds),
            uses=_uses(log.index),
            snapshots=sorted(Snapshots(logs.disk, log.folder).versions()),
        )


def _uses(index: Index) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for item in index.lines:
        record = item.line.record
        for digest in (*item.line.blobs, *(record.blobs if record else ())):
            found[digest] = min(found.get(digest, item.line.begins_at), item.line.begins_at)
    return found


def reindex(logs: Logs, seen: ThreadRow, made: Derived) -> bool:
    """The reindex of the contract: the index is dropped and made again from the log, which has everything.

    Only where every line of the log can be read: of a damaged one, the index leads to those that are not.
    """
    with logs.writing(logs.folder(seen.key)) as log:
        if log is None or not same_line(log.row, seen):
            return False
        if _is_whole(log):
            logs.disk.remove(join(log.folder, INDEX))
            log.refresh(None)
        Snapshots(logs.disk, log.folder).drop_if(lambda version: version > made.row.head)
        return True


def _is_whole(log: Log) -> bool:
    try:
        for item in log.index.lines:
            log.contents.line(item)
    except EntryDamagedError:
        return False
    return True


def mend(logs: Logs, key: ThreadKey) -> list[str]:
    """The mend of the contract: a lease that cannot be read is replaced.

    Its epoch is not known, and one that had been given out before could let a run go on whose lease was taken: the new
    one is far beyond every epoch that was ever seen.
    """
    folder = logs.folder(key)
    with suppress(EntryDamagedError), logs.holding(folder, upto=0) as log:
        if log is None or log.index.is_empty or leases.is_readable(logs.disk, folder):
            return []
        lost = logs.directory.unreadable.get(key.digest())
        row = lost.row if lost and lost.row and lost.row.uid == log.row.uid else log.row
        # Whoever held it may be in the middle of a run: somebody looks after it at once.
        wake_at = row.wake_at if row.lease_owner is None else row.updated
        lease = Lease(
            turn=log.index.lease.turn + _BEYOND, epoch=max(row.epoch, log.row.epoch) + _BEYOND, wake_at=wake_at,
            attempts=row.attempts,
        )  # fmt: skip
        log.mark()
        leases.write(logs.disk, folder, lease)
        log.settle(LeaseFile(lease))
        logs.directory.put(folder, log.row)
        return [f"had a {leases.NAME} that could not be read; it has a new one, with epoch {lease.epoch:,}"]
    return []  # nothing of its log can be read


def strays(logs: Logs) -> dict[str, int]:
    """The strays of the contract: a deleted thread that forks need, and of which only the index is left.

    Of other threads that is damage, which `damaged` tells.
    """
    found: dict[str, int] = {}
    for folder in logs.folders(HIDDEN):
        if _is_gone(logs, folder):
            count = known(logs.disk, join(folder, INDEX))
            if count and _is_gone(logs, folder):  # asked again: it may have been made between the two looks
                found[f"{relpath(folder, logs.root)}; entries"] = count
    return found


def _is_gone(logs: Logs, folder: str) -> bool:
    return logs.disk.stat(join(folder, LOG)) is None
