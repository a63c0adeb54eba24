"""Deleting: a thread is renamed away in one step, and only then taken apart.

A thread that forks need is kept under `hidden`, where only they find it; everything else goes through `trash`. Whatever
a crash leaves there is removed at the next set-up.
"""

from __future__ import annotations

from contextlib import suppress
from posixpath import basename, dirname, join

from perdure.core.errors import DamagedError, EntryDamagedError, StorageIOError
from perdure.core.identity import ThreadKey
from perdure.storage.contract import Leftovers
from perdure.storage.file import files
from perdure.storage.file.blobs import Blobs
from perdure.storage.file.forks import last_needed
from perdure.storage.file.lines import NOBODY, row_after
from perdure.storage.file.log import INDEX, Log
from perdure.storage.file.logs import HIDDEN, THREADS, TRASH, Logs, name_of
from perdure.storage.file.reading import used_blobs_of
from perdure.storage.file.snapshots import Snapshots


def delete(logs: Logs, key: ThreadKey) -> bool:
    """The delete of the contract."""
    folder = logs.folder(key)
    try:
        with logs.writing(folder) as log:
            if log is None:
                return False
            parent = log.row.parent_uid
            log.mark()
            _move_away(logs, log)
            log.is_gone = True
    except (EntryDamagedError, StorageIOError):
        if last_needed(logs, folder) is not None:
            raise  # its forks still may have something to save
        logs.directory.mark(folder)
        _discard(logs, folder)
        logs.directory.drop(folder)
        return True
    free(logs, parent)
    return True


def _move_away(logs: Logs, log: Log) -> None:
    version = last_needed(logs, log.folder)
    if version is None:
        _discard(logs, log.folder)
    else:
        _move(logs, log.folder, logs.hidden(log.row.uid))
        _trim(logs, log, logs.hidden(log.row.uid), version)


def _move(logs: Logs, folder: str, target: str) -> bool:
    moved = logs.disk.replace(folder, target)
    logs.disk.sync_folder(dirname(target))
    logs.disk.sync_folder(dirname(folder))
    logs.forget(folder)
    return moved


def _discard(logs: Logs, folder: str) -> None:
    target = join(logs.root, TRASH, name_of(folder + basename(folder)))
    files.remove_tree(logs.disk, target)  # an earlier one of the same name, left by a crash
    if _move(logs, folder, target):
        files.remove_tree(logs.disk, target)


def _trim(logs: Logs, log: Log, folder: str, version: int) -> None:
    """Give back what the forks do not need."""
    if log.row.head <= version and log.damage is None:
        return
    # The index first, and for good: one that knew more than the log would call the cut a damage.
    logs.disk.remove(join(folder, INDEX))
    logs.disk.sync_folder(folder)
    log.cut_after(version)
    Snapshots(logs.disk, folder).drop_if(lambda each: each > version)


def free(logs: Logs, uid: str | None) -> None:
    """Give back what no fork needs of a hidden thread; once that is all of it, look at its parent too."""
    folder = logs.hidden(uid or "")
    if uid is None or not logs.disk.is_folder(folder):
        return
    version = last_needed(logs, folder)
    # Behind what the forks need it may look damaged: by a power loss in the middle of the cut that is made here.
    with logs.holding(folder, upto=version or 0) as log:
        version = last_needed(logs, folder)
        if log is not None and version is not None:
            _trim(logs, log, folder, version)
    if log is not None and version is None:
        _discard(logs, folder)
        free(logs, log.row.parent_uid)


def sweep_user(logs: Logs, blobs: Blobs, namespace: str, user: str) -> Leftovers:
    """The sweep_user of the contract."""
    for uid in _hidden(logs, namespace, user):
        free(logs, uid)
    key = ThreadKey(namespace, user, "")
    removed = blobs.clear(blobs.scope(key), lambda: used_blobs_of(logs, namespace, user))
    return Leftovers(blobs=removed, hidden=len(_hidden(logs, namespace, user)))


def _hidden(logs: Logs, namespace: str, user: str) -> list[str]:
    """The deleted threads of a user that forks need, by uid."""
    found: list[str] = []
    for folder in logs.folders(HIDDEN):
        with suppress(DamagedError):  # nobody can tell whose it is; its forks, if there are any, will say so
            born = logs.born(folder)
            row = row_after(NOBODY, born) if born else None
            if row is not None and (row.key.namespace, row.key.user) == (namespace, user):
                found.append(row.uid)
    return found


def clean(logs: Logs) -> None:
    """Finish deletions that a crash interrupted."""
    for place in (HIDDEN, TRASH, THREADS):
        logs.disk.sync_folder(join(logs.root, place))  # a rename that nobody acknowledged is believed from here on
    for folder in logs.folders(TRASH):
        files.remove_tree(logs.disk, folder)
    for folder in logs.folders(HIDDEN):
        with suppress(DamagedError):  # its forks, if there are any, will say so
            born = logs.born(folder)
            free(logs, born.changed.uid if born and isinstance(born.changed.uid, str) else None)
