"""All logs of a folder: where each one is, how it is opened under its lock, and what is remembered of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from posixpath import dirname, join

import msgspec

from perdure.core.errors import (
    DamagedError,
    EntryDamagedError,
    PerdureError,
    StorageBusyError,
    StorageError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from perdure.core.identity import ThreadKey
from perdure.core.ports import Telemetry
from perdure.storage.file import files, leases
from perdure.storage.file.directory import LOG, Directory
from perdure.storage.file.disk import Disk, File, Stat
from perdure.storage.file.index import Index
from perdure.storage.file.lines import CannotReadLine, Line, checked
from perdure.storage.file.log import INDEX, Log, NeedsCare, shown
from perdure.storage.file.snapshots import FOLDER as SNAPSHOTS
from perdure.storage.permissions import is_temporary

THREADS, HIDDEN, TRASH, BLOBS, KEPT, FORKS = "threads", "hidden", "trash", "blobs", "kept", "forks"
_REMEMBERED = 16_384  # lines of logs that are kept in memory, about 2 KB each
_LONG = 2048  # … and of one log, before those that are behind its landmark go
_LINE = msgspec.json.Decoder(Line)
_GLANCE = 4096
_ATTEMPTS = 5


class Logs:
    """Opens logs and remembers their indexes, each valid for as long as its file only grows."""

    def __init__(self, disk: Disk, root: str, telemetry: Telemetry) -> None:
        self.disk = disk
        self.root = root
        self.directory = Directory(disk, root, join(root, THREADS))
        self._telemetry = telemetry
        self._known: OrderedDict[str, tuple[Index, int]] = OrderedDict()
        self._weight = 0

    def folder(self, key: ThreadKey) -> str:
        """The folder of a thread; its name tells nothing and can hold nothing but 64 hex digits."""
        return join(self.root, THREADS, key.digest())

    def hidden(self, uid: str) -> str:
        """Where a deleted thread waits for its last fork."""
        return join(self.root, HIDDEN, name_of(uid))

    def folders(self, place: str = THREADS) -> list[str]:
        """Every thread's folder."""
        return [join(self.root, place, name) for name in self.disk.names(join(self.root, place))]

    @contextmanager
    def reading(self, folder: str, upto: int | None = None) -> Generator[Log | None]:
        """Hold a log that others may read too; None when there is no such thread.

        With `upto`, one that is damaged behind that version is given as far as it is intact.
        """
        log = self._read(folder, upto)
        with self._held(log):
            yield log if log and not log.index.is_empty else None

    def _read(self, folder: str, upto: int | None = None, wait: bool = True) -> Log | None:
        try:
            return self._opened(folder, write=False, upto=upto, wait=wait)
        except NeedsCare:
            return self._mended(folder, upto, wait)

    @contextmanager
    def writing(self, folder: str, create: bool = False) -> Generator[Log | None]:
        """Hold a log alone; None when there is no such thread. With `create`, it may be one without any line yet."""
        log = self._opened(folder, write=True, create=create)
        with self._held(log):
            yield log if log and (create or not log.index.is_empty) else None
            self._settle_row(log)

    @contextmanager
    def holding(self, folder: str, upto: int | None = None) -> Generator[Log | None]:
        """Hold alone whatever there is of a log, also one without any line; None when there is no file."""
        log = self._opened(folder, write=True, upto=upto)
        with self._held(log):
            yield log

    def _settle_row(self, log: Log | None) -> None:
        """Write the row of a thread that was changed; after an error its mark stays, and the next reader looks."""
        if log is None or not log.is_marked:
            return
        if log.is_gone:
            self.directory.drop(log.folder)
        elif not log.index.is_empty:
            self.directory.put(log.folder, log.row)

    def _mended(self, folder: str, upto: int | None, wait: bool) -> Log | None:
        try:
            return self._opened(folder, write=True, upto=upto, wait=wait)
        except StorageReadOnlyError:
            return self._opened(folder, write=False, upto=upto, wait=wait, believe=True)

    @contextmanager
    def _held(self, log: Log | None) -> Generator[None]:
        try:
            yield
            self._remember(log)
        except PerdureError:
            self._remember(log)
            raise
        finally:
            if log is not None:
                log.close()

    def _opened(
        self,
        folder: str,
        *,
        write: bool,
        create: bool = False,
        upto: int | None = None,
        wait: bool = True,
        believe: bool = False,
    ) -> Log | None:
        file = self._locked(folder, write, create, wait)
        if file is None:
            return None
        log = Log(self.disk, folder, file, self._telemetry, write, self._marker(folder))
        try:
            self._bring_up(log, believe)
            if log.damage is None or not log.index.is_empty:
                self._check_identity(log)
            if log.damage is not None and (upto is None or upto > (log.damage.intact or 0)):
                raise log.damage
        except BaseException:
            log.close()
            raise
        return log

    def _bring_up(self, log: Log, believe: bool) -> None:
        try:
            log.refresh(self._take_known(log.folder), believe)
            log.settle(leases.read(self.disk, log.folder, log.index.row.key.id, log.index.row.head))
        except EntryDamagedError as exc:
            log.keep_intact(exc)

    def _marker(self, folder: str) -> Callable[[], None] | None:
        """What says in the directory that a thread is about to change; hidden ones are not in it."""
        return partial(self.directory.mark, folder) if dirname(folder) == join(self.root, THREADS) else None

    def _check_identity(self, log: Log) -> None:
        """A log in a folder that is not its own is damage, whatever it says: it is another user's thread, or a copy."""
        if log.index.is_empty:
            if left := _left(self.disk, log.folder):  # all that is there, since its lock is held
                raise _lost(log.folder, left)
            return
        row = log.index.row
        own = self.folder(row.key) if dirname(log.folder) == join(self.root, THREADS) else self.hidden(row.uid)
        if own != log.folder:
            raise EntryDamagedError(shown(log.folder), 1, "is of another thread, whose log was put in this folder")

    def _locked(self, folder: str, write: bool, create: bool, wait: bool) -> File | None:
        """Open and lock; a folder that was deleted or replaced while we waited is opened again."""
        path = join(folder, LOG)
        while (file := self._file(folder, write)) is not None or self._made(folder, create):
            if file is None:
                continue
            try:
                file.lock(shared=not write, wait=wait)
                found = self.disk.stat(path)
                if found is not None and found.inode == file.stat().inode:
                    return file
            except BaseException:
                file.close()
                raise
            file.close()
        return None

    def _file(self, folder: str, write: bool) -> File | None:
        try:
            return self.disk.open(join(folder, LOG), write=write)
        except (StorageIOError, StorageReadOnlyError) as exc:
            if write and isinstance(exc, StorageReadOnlyError):
                raise
            raise EntryDamagedError(shown(folder), 1, f"cannot be read: {exc.reason}") from exc

    def _made(self, folder: str, create: bool) -> bool:
        """Make a log that is not there, if nothing says that it was; False when it shall not be made."""
        if not self._is_absent(folder):
            return True
        if create:
            self._make(folder)
        return create

    def _make(self, folder: str) -> None:
        for _ in range(_ATTEMPTS):  # a thread that somebody else made meanwhile may be deleted with the folder
            with suppress(StorageUnavailableError):
                files.make_folder(self.disk, folder)
                return files.opened(self.disk, join(folder, LOG)).close()
        raise StorageUnavailableError(folder, "the folder is gone")

    def _is_absent(self, folder: str) -> bool:
        """Whether nothing says that there was a log; False when somebody makes or deletes the thread at this moment.

        No lock can be held where there is no log. A thread is made with its log first and deleted with its whole folder
        at once, so only a log that is missing while the rest stays as it is was lost.
        """
        left = _left(self.disk, folder)
        if not left:
            return True
        log = join(folder, LOG)
        if self.disk.stat(log) is None and _left(self.disk, folder) == left and self.disk.stat(log) is None:
            raise _lost(folder, left)
        return False

    def _remember(self, log: Log | None) -> None:
        # Not after an error of another kind, such as an interrupt: it may have stopped between two changes of an index.
        if log is not None and not log.index.is_empty and log.damage is None:
            if log.index.weight > _LONG:
                log.index.trim()
            self.forget(log.folder)
            self._known[log.folder] = log.index, log.index.weight
            self._weight += log.index.weight
            while self._weight > _REMEMBERED and len(self._known) > 1:
                self._weight -= self._known.popitem(last=False)[1][1]

    def forget(self, folder: str) -> None:
        """Forget what is known of a folder that was moved away."""
        self._take_known(folder)

    def _take_known(self, folder: str) -> Index | None:
        """What is remembered of a log, which is nobody else's while it is held."""
        index, weight = self._known.pop(folder, (None, 0))
        self._weight -= weight
        return index

    # ── all threads ──

    def follow(self) -> Directory:
        """The directory, with everything that was committed; what cannot be read is told once and left out."""
        self.directory.refresh()
        for name in sorted(self.directory.marked):
            self._look(name)
        self.directory.tidy()
        return self.directory

    def look_again(self, names: Iterable[str]) -> bool:
        """Compare rows with their files, and read those again that do not fit; whether there were any."""
        changed = [name for name in names if not self.directory.is_as_it_was(name)]
        for name in changed:
            self._look(name)
        return bool(changed)

    def look_at_all(self) -> Directory:
        """The directory, each row compared with its files."""
        found = self.follow()
        self.look_again([*(name for name, _ in found.newest_first()), *found.unreadable])
        return found

    def _look(self, name: str) -> None:
        """Read the row of one thread, unless its writer is at work: then it is the one before that write."""
        folder = join(self.root, THREADS, name)
        try:
            log = self._read(folder, wait=False)
            with self._held(log):
                if log is None or log.index.is_empty:
                    self.directory.drop(folder)
                else:
                    self.directory.put(folder, log.row)
        except StorageBusyError:
            return
        except (DamagedError, StorageError) as exc:
            if self.directory.set_unreadable(name, exc):
                self._telemetry.count("perdure.threads.damaged")
                self._telemetry.log("warning", "a damaged thread is left out of lists", folder=folder, error=str(exc))

    def born(self, folder: str) -> Line | None:
        """The first line of a log, read without its lock: once it is there, it always says the same of the thread."""
        file = self.disk.open(join(folder, LOG))
        if file is None:
            return None
        try:
            return _first_line(file, folder)
        finally:
            file.close()

    def holds(self, folder: str, uid: str) -> bool:
        """Whether the thread of this uid is in a folder."""
        born = self.born(folder)
        return born is not None and born.changed.uid == uid

    def all(self, place: str = THREADS) -> Iterator[Log]:
        """Every log of a place that can be read, each held while it is looked at."""
        for folder in self.folders(place):
            with suppress(DamagedError), self.reading(folder) as log:
                if log is not None:
                    yield log

    def all_or_error(self, place: str) -> Iterator[Log]:
        """The same; raise the error of the first that cannot be read."""
        for folder in self.folders(place):
            with self.reading(folder) as log:
                if log is not None:
                    yield log


def _left(disk: Disk, folder: str) -> dict[str, Stat | None]:
    """What a folder has beside its log: where it has no line of one, that is not absent, but lost."""
    paths = {name: join(folder, name) for name in (INDEX, leases.NAME, SNAPSHOTS, FORKS)}
    return {name: disk.stat(path) for name, path in paths.items() if _holds_something(disk, path)}


def _lost(folder: str, left: Iterable[str]) -> EntryDamagedError:
    return EntryDamagedError(shown(folder), 1, f"is gone with all of {LOG}, although there is {next(iter(left))}")


def _holds_something(disk: Disk, path: str) -> bool:
    if disk.is_folder(path):
        return any(not is_temporary(name) for name in disk.names(path))
    found = disk.stat(path)
    return found is not None and found.size > 0


def _first_line(file: File, folder: str) -> Line | None:
    size, data = _GLANCE, b""
    while b"\n" not in data:
        data = file.read(0, size)
        if len(data) < size and b"\n" not in data:
            return None
        size *= 4
    try:
        return checked(data[: data.index(b"\n") + 1], _LINE)
    except CannotReadLine as exc:
        raise EntryDamagedError(shown(folder), 1, str(exc)) from exc


def name_of(text: str) -> str:
    """A file name for any text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
