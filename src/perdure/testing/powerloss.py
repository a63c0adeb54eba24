"""A disk that forgets what was not synced, as a real one does when the power goes.

It lives in memory. After any number of operations `after_power_loss(seed)` gives the disk as it might be found:

- what was synced is there: bytes of a file after `sync`, names in a folder after `sync_folder`;
- unsynced bytes are there or not, sector by sector, and a file may have grown without them: then they are zeros;
- unsynced creations, removals and renames happened or not, each for itself; a rename is never half done.

`fails_after` makes an operation raise `PowerLost`, before or after it took effect.
"""

from __future__ import annotations

from posixpath import basename, dirname
from random import Random
from typing import TypeVar

from perdure.core.errors import StorageIOError, StorageUnavailableError
from perdure.storage.file.disk import File, Stat

SECTOR = 512
_VERSIONS = 6  # of an unsynced file: the medium may have any of them

N = TypeVar("N")


class PowerLost(BaseException):
    """The machine stopped here."""


class _Data:
    """The bytes of a file: those on the medium, and what happened to them since."""

    def __init__(self, inode: int, data: bytes = b"") -> None:
        self.inode = inode
        self.now = data
        self.since: list[bytes] = []  # contents since the last sync, the newest last
        self.durable = data
        self.mtime = 0

    def change(self, data: bytes) -> None:
        self.now = data
        self.since = [*self.since[-_VERSIONS:], data]

    def sync(self) -> None:
        self.durable, self.since = self.now, []

    def found(self, random: Random) -> bytes:
        """The bytes after a power loss."""
        if not self.since:
            return self.durable
        versions = [self.durable, *self.since]
        size = random.choice([len(random.choice(versions)), len(self.now), len(self.durable)])
        return b"".join(self._sector(random.choice(versions), at, size) for at in range(0, size, SECTOR))

    def _sector(self, version: bytes, at: int, size: int) -> bytes:
        length = min(SECTOR, size - at)
        return version[at : at + length].ljust(length, b"\0")


class _Folder:
    """Names: those on the medium, and all."""

    def __init__(self) -> None:
        self.now: dict[str, _Data | _Folder] = {}
        self.durable: dict[str, _Data | _Folder] = {}


class _Change:
    """A creation (`old` is None), a removal (`new` is None) or a rename, until every folder it touches was synced."""

    def __init__(self, node: _Data | _Folder, old: tuple[_Folder, str] | None, new: tuple[_Folder, str] | None) -> None:
        self.node = node
        self.old = old
        self.new = new
        self.waits_for = [place[0] for place in (old, new) if place]

    def apply(self) -> None:
        """Make it so on the medium."""
        if self.old and self.old[0].durable.get(self.old[1]) is self.node:
            del self.old[0].durable[self.old[1]]
        if self.new:
            self.new[0].durable[self.new[1]] = self.node


class PowerLossDisk:
    """A disk in memory that knows what was synced."""

    def __init__(self) -> None:
        self.operations = 0
        self.bytes_read: dict[str, int] = {}
        self.fails_after: int | None = None
        self.fails_late = False
        self._root = _Folder()
        self._changes: list[_Change] = []
        self._inodes = 0
        self._boots = 1

    def boot(self) -> str:
        return str(self._boots)

    def after_power_loss(self, seed: int) -> PowerLossDisk:
        """The disk as it might be found, decided by `seed`; everything on it is durable now."""
        random = Random(seed)
        for change in self._changes:
            if random.random() < 0.5:
                change.apply()
        found = PowerLossDisk()
        found._boots = self._boots + 1
        found._root = found._copied(self._root, random)
        return found

    def _copied(self, folder: _Folder, random: Random) -> _Folder:
        copy = _Folder()
        for name, node in folder.durable.items():
            copy.now[name] = self._copied(node, random) if isinstance(node, _Folder) else self._found(node, random)
        copy.durable = dict(copy.now)
        return copy

    def _found(self, node: _Data, random: Random) -> _Data:
        data = _Data(self._next_inode(), node.found(random))
        data.mtime = node.mtime
        return data

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File | None:
        folder = self._folder(dirname(path))
        if folder is None:
            return None
        node = folder.now.get(basename(path))
        if node is None and create:
            node = self._create(folder, basename(path), _Data(self._next_inode()))
        return MemoryFile(self, path, node) if isinstance(node, _Data) else None

    def stat(self, path: str) -> Stat | None:
        node = self._node(path)
        if isinstance(node, _Folder):
            return Stat(0, 0, 0)
        return Stat(node.inode, len(node.now), node.mtime) if node else None

    def names(self, folder: str) -> list[str]:
        found = self._folder(folder)
        return sorted(found.now) if found else []

    def is_folder(self, path: str) -> bool:
        return self._folder(path) is not None

    def make_folder(self, path: str) -> bool:
        if self._folder(path) is not None:
            return False
        self.make_folder(dirname(path))
        above = self._folder(dirname(path))
        assert above is not None
        self._create(above, basename(path), _Folder())
        return True

    def _create(self, folder: _Folder, name: str, node: N) -> N:
        assert isinstance(node, _Data | _Folder)
        with _Step(self):
            folder.now[name] = node
            self._changes.append(_Change(node, None, (folder, name)))
        return node

    def replace(self, source: str, target: str) -> bool:
        old, new, node = self._folder(dirname(source)), self._folder(dirname(target)), self._node(source)
        if old is None or new is None or node is None:
            return False
        there = new.now.get(basename(target))
        if isinstance(there, _Folder) and there.now:
            raise StorageIOError(target, "the folder is not empty")
        with _Step(self):
            del old.now[basename(source)]
            new.now[basename(target)] = node
            self._changes.append(_Change(node, (old, basename(source)), (new, basename(target))))
        return True

    def remove(self, path: str) -> None:
        folder, node = self._folder(dirname(path)), self._node(path)
        if folder is None or node is None:
            return
        if isinstance(node, _Folder) and node.now:
            raise StorageIOError(path, "the folder is not empty")
        with _Step(self):
            del folder.now[basename(path)]
            self._changes.append(_Change(node, (folder, basename(path)), None))

    def touch(self, path: str, micros: int) -> None:
        node = self._node(path)
        if isinstance(node, _Data):
            node.mtime = micros

    def sync_folder(self, folder: str) -> None:
        found = self._folder(folder)
        if found is None:
            raise StorageUnavailableError(folder, "no such folder")
        with _Step(self):
            for change in self._changes:
                change.waits_for = [each for each in change.waits_for if each is not found]
                if not change.waits_for:
                    change.apply()
            self._changes = [change for change in self._changes if change.waits_for]

    def files(self, folder: str = "/") -> dict[str, bytes]:
        """Every file below a folder, as a reader sees it now."""
        found: dict[str, bytes] = {}
        for name in self.names(folder):
            path = f"{folder.rstrip('/')}/{name}"
            node = self._node(path)
            found |= self.files(path) if isinstance(node, _Folder) else {path: node.now if node else b""}
        return found

    def _folder(self, path: str) -> _Folder | None:
        node = self._node(path)
        return node if isinstance(node, _Folder) else None

    def _node(self, path: str) -> _Data | _Folder | None:
        node: _Data | _Folder | None = self._root
        for part in path.split("/"):
            if part and part != ".":
                node = node.now.get(part) if isinstance(node, _Folder) else None
        return node

    def _next_inode(self) -> int:
        self._inodes += 1
        return self._inodes


class _Step:
    """One operation that changes something; the power may go just before it or just after it."""

    def __init__(self, disk: PowerLossDisk) -> None:
        self._disk = disk

    def __enter__(self) -> None:
        self._disk.operations += 1
        if self._last() and not self._disk.fails_late:
            raise PowerLost

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._last():
            raise PowerLost

    def _last(self) -> bool:
        return self._disk.fails_after is not None and self._disk.operations > self._disk.fails_after


class MemoryFile:
    """An open file of the disk that forgets."""

    def __init__(self, disk: PowerLossDisk, path: str, data: _Data) -> None:
        self._disk = disk
        self._path = path
        self._data = data

    def stat(self) -> Stat:
        return Stat(self._data.inode, len(self._data.now), self._data.mtime)

    def read(self, offset: int, size: int) -> bytes:
        found = self._data.now[offset : offset + size]
        self._disk.bytes_read[self._path] = self._disk.bytes_read.get(self._path, 0) + len(found)
        return found

    def write(self, offset: int, data: bytes) -> None:
        now = self._data.now.ljust(offset, b"\0")
        with _Step(self._disk):
            self._data.change(now[:offset] + data + now[offset + len(data) :])

    def truncate(self, size: int) -> None:
        with _Step(self._disk):
            self._data.change(self._data.now[:size].ljust(size, b"\0"))

    def sync(self) -> None:
        with _Step(self._disk):
            self._data.sync()

    def lock(self, shared: bool, wait: bool = True) -> None:
        """Nobody else is here: a power loss ends every process at once."""

    def close(self) -> None: ...
