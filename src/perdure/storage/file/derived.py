"""What is derived from a log: read for those who compare it with the log, and read again from the log."""

from __future__ import annotations

from posixpath import join, relpath

from perdure.core.derived import Derived, same_line
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.storage.file.index import Index, known
from perdure.storage.file.lines import checkpoint_of
from perdure.storage.file.log import INDEX, LOG, Log
from perdure.storage.file.logs import HIDDEN, Logs
from perdure.storage.file.snapshots import Snapshots


def derived(logs: Logs, key: ThreadKey) -> Derived | None:
    """The derived of the contract."""
    with logs.reading(logs.folder(key)) as log:
        if log is None:
            return None
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


def strays(logs: Logs) -> dict[str, int]:
    """The strays of the contract: a log is its own line, and of one that is gone only the index is left."""
    found: dict[str, int] = {}
    for folder in (*logs.folders(), *logs.folders(HIDDEN)):
        if _is_gone(logs, folder):
            count = known(logs.disk, join(folder, INDEX))
            if count and _is_gone(logs, folder):  # asked again: it may have been made between the two looks
                found[relpath(folder, logs.root)] = count
    return found


def _is_gone(logs: Logs, folder: str) -> bool:
    return logs.disk.stat(join(folder, LOG)) is None
