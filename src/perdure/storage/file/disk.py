"""The one door to the file system: every call this storage makes, and what its errors mean.

A `Disk` is a port: the real one calls the system, `perdure.testing.powerloss` forgets what was not synced.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from io import FileIO
from stat import S_ISLNK
from typing import Protocol

import msgspec

from perdure.core.errors import (
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from perdure.storage import permissions
from perdure.storage.permissions import temporary_name

BUSY_SECONDS = 30.0
_LONGEST_NAP = 0.02


class Stat(msgspec.Struct, frozen=True):
    """What the system says of a file without opening it."""

    inode: int
    size: int
    mtime: int  # microseconds


class File(Protocol):
    """An open file."""

    def stat(self) -> Stat: ...

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end."""
        ...

    def write(self, offset: int, data: bytes) -> None:
        """Write all of `data`, or raise."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when every byte is on the medium."""
        ...

    def lock(self, shared: bool, wait: bool = True) -> None:
        """Take the lock of this file, which closing gives back.

        Raises `StorageBusyError` where somebody else holds it for a while, or at all without `wait`.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. A missing file is an answer, every other failure a `StorageError`."""

    def boot(self) -> str:
        """What changes when the machine starts again: what was not synced may be lost since."""
        ...

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File | None:
        """Open a file; None when it (or its folder) is not there. A symbolic link in its place is refused."""
        ...

    def stat(self, path: str) -> Stat | None: ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder, [] when there is none."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> bool:
        """Make a folder in one that is there; False when it was there already."""
        ...

    def replace(self, source: str, target: str) -> bool:
        """Rename a file over another, or a folder to a free name; False when the source is gone."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder; one that is gone already is no error."""
        ...

    def touch(self, path: str, micros: int) -> None: ...

    def sync_folder(self, folder: str) -> None:
        """Return when the names in this folder are on the medium."""
        ...


_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def translated(exc: OSError, path: str) -> StorageError:
    """The error a caller gets for one of the system."""
    reason = exc.strerror or str(exc)
    if exc.errno == errno.ELOOP:
        reason = "it is a symbolic link, which is not followed here"
    if exc.errno in _FULL:
        return StorageFullError(path, reason)
    if exc.errno in _READ_ONLY:
        return StorageReadOnlyError(path, reason)
    return StorageUnavailableError(path, reason) if exc.errno in _GONE else StorageIOError(path, reason)


class _errors:  # used like a function; a generator takes four times as long, at every call
    """Translate the errors of the system that are raised inside."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError):
            raise translated(error, self._path) from error


class _Replaced(Exception):
    """Another file was put in the place of this one while it was opened."""


class RealFile:
    """A file of the operating system.

    The descriptor belongs to a `FileIO` from the moment it exists, which closes it as soon as nobody refers to it. A
    Ctrl-C can come between any two steps of Python, also before a `finally` closes the file: a bare number would keep
    its lock until the process ends.
    """

    def __init__(self, path: str, write: bool) -> None:
        self._path = path
        self._owner = FileIO(path, "rb+" if write else "rb")
        self._handle = self._owner.fileno()
        try:
            self._refuse_link()
        except BaseException:
            self._owner.close()
            raise

    def _refuse_link(self) -> None:
        # An opener of our own could refuse links by itself, but would hold the bare number for a moment.
        found = os.lstat(self._path)
        if not os.path.samestat(found, os.fstat(self._handle)):
            if not S_ISLNK(found.st_mode):
                raise _Replaced
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)

    def stat(self) -> Stat:
        with _errors(self._path):
            return _stat(os.fstat(self._handle))

    def read(self, offset: int, size: int) -> bytes:
        parts: list[bytes] = []
        with _errors(self._path):
            while size > 0 and (part := os.pread(self._handle, size, offset)):
                parts.append(part)
                offset, size = offset + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, offset: int, data: bytes) -> None:
        view = memoryview(data)
        with _errors(self._path):
            while view:
                written = os.pwrite(self._handle, view, offset)
                view, offset = view[written:], offset + written

    def truncate(self, size: int) -> None:
        with _errors(self._path):
            os.ftruncate(self._handle, size)

    def sync(self) -> None:
        with _errors(self._path):
            _sync(self._handle)

    def lock(self, shared: bool, wait: bool = True) -> None:
        kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        deadline, nap = time.monotonic() + (BUSY_SECONDS if wait else 0), 0.0005
        with _errors(self._path):
            while not _locked(self._handle, kind):
                if time.monotonic() >= deadline:
                    raise StorageBusyError(self._path, f"locked by another process for {BUSY_SECONDS:.0f} s")
                time.sleep(nap)
                nap = min(nap * 2, _LONGEST_NAP)

    def close(self) -> None:
        with suppress(OSError):  # nothing is promised at closing: whatever matters was synced
            self._owner.close()


class RealDisk:
    """The file system of this machine. Files are made with the mode `file_mode`, folders with the one to match."""

    file_mode = permissions.PRIVATE

    def __init__(self, file_mode: int = permissions.PRIVATE) -> None:
        self.file_mode = file_mode

    def boot(self) -> str:
        return _boot()

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File | None:
        try:
            with _errors(path):
                return self._opened(path, write, create)
        except StorageUnavailableError:
            return None

    def _opened(self, path: str, write: bool, create: bool) -> RealFile:
        while True:
            try:
                return RealFile(path, write)
            except _Replaced:
                continue
            except FileNotFoundError:
                if os.path.islink(path):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
                if not create:
                    raise
            with suppress(FileExistsError):  # somebody else has just made it
                os.close(permissions.make_file(path, self.file_mode))

    def stat(self, path: str) -> Stat | None:
        try:
            return _stat(os.stat(path))
        except OSError as exc:
            if exc.errno in _GONE:
                return None
            raise translated(exc, path) from exc

    def names(self, folder: str) -> list[str]:
        try:
            with _errors(folder):
                return sorted(os.listdir(folder))
        except StorageUnavailableError:
            return []

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folder(self, path: str) -> bool:
        with _errors(path):
            return permissions.make_folder(path, self.file_mode)

    def replace(self, source: str, target: str) -> bool:
        try:
            with _errors(source):
                os.replace(source, target)
        except StorageUnavailableError:
            return False
        return True

    def remove(self, path: str) -> None:
        with _errors_but_gone(path):
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)

    def touch(self, path: str, micros: int) -> None:
        with _errors(path):
            os.utime(path, ns=(micros * 1000, micros * 1000))

    def sync_folder(self, folder: str) -> None:
        with _errors(folder):
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _sync(handle)
            finally:
                os.close(handle)


@contextmanager
def _errors_but_gone(path: str) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno in _GONE:
            return
        raise translated(exc, path) from exc


@cache
def _boot() -> str:
    """Elsewhere than on Linux every process takes what it finds for something from before a restart."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return temporary_name("")


def _stat(found: os.stat_result) -> Stat:
    return Stat(found.st_ino, found.st_size, found.st_mtime_ns // 1000)


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind)
    except BlockingIOError:
        return False
    return True


def _sync(handle: int) -> None:
    # On macOS fsync stops at the drive's cache, and only F_FULLFSYNC reaches the medium.
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(handle)
    else:
        fcntl.fcntl(handle, full)
