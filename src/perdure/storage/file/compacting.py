"""Giving disk space back. A prune has done so for its log already; here goes what processes that died left behind."""

from __future__ import annotations

from contextlib import suppress
from posixpath import join

from perdure.core.errors import EntryDamagedError
from perdure.storage.file import deletion, files, index, layout, snapshots
from perdure.storage.file.blobs import Blobs
from perdure.storage.file.log import INDEX
from perdure.storage.file.logs import FORKS, HIDDEN, KEPT, TRASH, Logs

WHO_WAITS = "one thread after the other is locked for a moment: only who uses that thread just then waits"


def compact(logs: Logs, blobs: Blobs) -> int:
    """The compact of the contract."""
    freed = _trash(logs) + blobs.tidy() + _root(logs)
    return freed + sum(_thread(logs, folder) for folder in (*logs.folders(), *logs.folders(HIDDEN)))


def _trash(logs: Logs) -> int:
    """What deletions that died have left."""
    freed = sum(files.tree_sizes(logs.disk, join(logs.root, TRASH)))
    deletion.clean(logs)
    return freed


def _root(logs: Logs) -> int:
    with layout.held(logs.disk, logs.root):
        leftovers = sum(files.remove_leftovers(logs.disk, folder) for folder in (logs.root, join(logs.root, KEPT)))
    # Rows of threads that were deleted stand in the directory until it is written anew.
    return leftovers + logs.directory.rewrite()


def _thread(logs: Logs, folder: str) -> int:
    with suppress(EntryDamagedError), logs.holding(folder) as log:  # a damaged one is left to those who mend it
        if log is not None:
            places = (folder, join(folder, snapshots.FOLDER), join(folder, FORKS))
            leftovers = sum(files.remove_leftovers(logs.disk, place) for place in places)
            return leftovers + index.tidy(logs.disk, join(folder, INDEX), log.index)
    return 0
