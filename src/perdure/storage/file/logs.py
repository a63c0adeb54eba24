"""All logs of a folder: where each one is, how it is opened under its lock, and what is remembered of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from posixpath import join

import msgspec

from perdure.core.errors import EntryDamagedError, PerdureError, StorageReadOnlyError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Telemetry
from perdure.storage.file import files, leases
from perdure.storage.file.disk import Disk, File
from perdure.storage.file.index import Index
from perdure.storage.file.lines import CannotReadLine, Line, checked
from perdure.storage.file.log import LOG, Log, NeedsCare

THREADS, HIDDEN, TRASH, BLOBS, KEPT = "threads", "hidden", "trash", "blobs", "kept"
_REMEMBERED = 1024
_LINE = msgspec.json.Decoder(Line)
_GLANCE = 4096


class Logs:
    """Opens logs and remembers their indexes, each valid for as long as its file only grows."""

    def __init__(self, disk: Disk, root: str, telemetry: Telemetry) -> None:
        self.disk = disk
        self.root = root
        self._telemetry = telemetry
        self._known: OrderedDict[str, Index] = OrderedDict()

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
    def reading(self, folder: str) -> Generator[Log | None]:
        """Hold a log that others may read too; None when there is no such thread."""
        try:
            log = self._opened(folder, write=False)
        except NeedsCare:
            log = self._mended(folder)
        with self._held(log):
            yield log if log and log.index.lines else None

    @contextmanager
    def writing(self, folder: str, create: bool = False) -> Generator[Log | None]:
        """Hold a log alone; None when there is no such thread. With `create`, it may be one without any line yet."""
        if create:
            files.make_folder(self.disk, folder)
        log = self._opened(folder, write=True, create=create)
        with self._held(log):
            yield log if log and (create or log.index.lines) else None

    @contextmanager
    def holding(self, folder: str) -> Generator[Log | None]:
        """Hold alone whatever there is of a log, also one without any line; None when there is no file."""
        log = self._opened(folder, write=True)
        with self._held(log):
            yield log

    def _mended(self, folder: str) -> Log | None:
        try:
            return self._opened(folder, write=True)
        except StorageReadOnlyError:
            return self._opened(folder, write=False, believe=True)

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

    def _opened(self, folder: str, *, write: bool, create: bool = False, believe: bool = False) -> Log | None:
        file = self._locked(join(folder, LOG), write, create)
        if file is None:
            return None
        log = Log(self.disk, folder, file, self._telemetry, write)
        try:
            log.refresh(self._known.pop(folder, None), believe)
            log.settle(leases.read(self.disk, folder, log.index.row.key.id, log.index.row.head))
        except BaseException:
            log.close()
            raise
        return log

    def _locked(self, path: str, write: bool, create: bool) -> File | None:
        """Open and lock; a folder that was deleted or replaced while we waited is opened again."""
        while (file := self.disk.open(path, write=write, create=create)) is not None:
            try:
                file.lock(shared=not write)
                found = self.disk.stat(path)
                if found is not None and found.inode == file.stat().inode:
                    return file
            except BaseException:
                file.close()
                raise
            file.close()
        return None

    def _remember(self, log: Log | None) -> None:
        # Not after an error of another kind, such as an interrupt: it may have stopped between two changes of an index.
        if log is not None and log.index.lines:
            self._known[log.folder] = log.index
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, folder: str) -> None:
        """Forget what is known of a folder that was moved away."""
        self._known.pop(folder, None)

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
        """Every log of a place, each held while it is looked at."""
        for folder in self.folders(place):
            with self.reading(folder) as log:
                if log is not None:
                    yield log


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
        raise EntryDamagedError(folder, 1, str(exc)) from exc


def name_of(text: str) -> str:
    """A file name for any text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
