"""What a parent keeps of its forks: a mark for each, made before the fork is, and before a rewind of it to earlier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from posixpath import join

import msgspec

from perdure.core import forks
from perdure.core.errors import EntryDamagedError
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.storage.file import files
from perdure.storage.file.history import History
from perdure.storage.file.lines import NOBODY, CannotReadLine, ForkMark, checked, row_after, written
from perdure.storage.file.log import Log
from perdure.storage.file.logs import FORKS, HIDDEN, THREADS, Logs, name_of

_MARK = msgspec.json.Decoder(ForkMark)
_ALL_OF_IT = 1 << 62

Fork = tuple[ThreadRow, Sequence[int]]  # its line as it began, and where its rewinds went back to


def need(logs: Logs, parent: str, child: ThreadRow, rewinds: Iterable[Rewind] = ()) -> None:
    """Tell the parent, before the fork exists, that it is needed; a mark without its fork is ignored."""
    files.make_folder(logs.disk, join(parent, FORKS))
    earlier = tuple(each for each in rewinds if each.to < child.parent_version)
    mark = ForkMark(child.uid, child.key.digest(), child.parent_version, earlier)
    files.put(logs.disk, join(parent, FORKS, name_of(child.uid)), written(mark))


def need_earlier(logs: Logs, past: History, rewinds: Sequence[Rewind]) -> None:
    """Tell the parent of rewinds to before the fork; it is held until they are written, or a prune could come between.

    The child's lock is held first and the parents' after it, as when a fork is made.
    """
    child, *parents = past.logs
    if parents and any(each.to < child.row.parent_version for each in rewinds):
        need(logs, parents[0].folder, child.row, (*child.index.rewinds, *rewinds))


def last_needed(logs: Logs, folder: str) -> int | None:
    """Up to which version forks need a thread; None when none does."""
    versions = [_needed_by(logs, mark) for mark in _marks(logs, folder)]
    return max((version for version in versions if version is not None), default=None)


def _marks(logs: Logs, folder: str) -> list[bytes]:
    names = logs.disk.names(join(folder, FORKS))
    return [files.get(logs.disk, join(folder, FORKS, name)) or b"" for name in names if "." not in name]


def _needed_by(logs: Logs, data: bytes) -> int | None:
    try:
        mark = checked(data, _MARK)
    except CannotReadLine:
        return _ALL_OF_IT  # whose it was cannot be told any more: better too much kept than a fork without its past
    visible, hidden = _homes(logs, mark)
    try:
        stands = logs.holds(visible, mark.uid)
    except EntryDamagedError:
        stands = True  # a damaged fork may still have something to save
    return mark.version if stands or logs.disk.is_folder(hidden) else None


def _homes(logs: Logs, mark: ForkMark) -> tuple[str, str]:
    """Where a fork may be. It only ever moves from the first to the second."""
    return join(logs.root, THREADS, mark.folder), logs.hidden(mark.uid)


def needed(logs: Logs, log: Log) -> list[int]:
    """Every version of a thread that forks need, and forks of those, in rising order.

    None is being made meanwhile: that takes the locks of all its parents.
    """
    try:
        found = list(_below(logs, log.folder))
    except CannotReadLine:
        # Each fork knows its parent too. Where it went back to is not known: better too much kept than too little.
        found = [(line, range(line.parent_version)) for line in _all(logs)]
    return forks.needed(log.row.uid, [line for line, _ in found], {line.uid: targets for line, targets in found})


def _below(logs: Logs, folder: str) -> Iterator[Fork]:
    for data in _marks(logs, folder):
        yield from _family(logs, checked(data, _MARK))


def _family(logs: Logs, mark: ForkMark) -> list[Fork]:
    """A fork and those below it; [] when it is gone."""
    for home in _homes(logs, mark):
        born = logs.born(home)
        if born is not None and born.changed.uid == mark.uid:
            found: list[Fork] = [(row_after(NOBODY, born), _targets(logs, mark, home)), *_below(logs, home)]
            if logs.holds(home, mark.uid):  # else it was deleted, and so moved, while we looked
                return found
    return []


def _targets(logs: Logs, mark: ForkMark, home: str) -> list[int]:
    """Where the rewinds of a fork went back to; of a deleted one only those that forks of its own still have."""
    last = last_needed(logs, home) or 0 if home == logs.hidden(mark.uid) else _ALL_OF_IT
    return [each.to for each in mark.rewinds if each.entry <= last]


def _all(logs: Logs) -> Iterator[ThreadRow]:
    for folder in (*logs.folders(), *logs.folders(HIDDEN)):
        with suppress(EntryDamagedError):  # of another thread, whose own readers will say so
            if born := logs.born(folder):
                yield row_after(NOBODY, born)
