"""A thread, or it and its forks, into one file: there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import msgspec

from perdure.app.clock import SystemClock
from perdure.app.export_keys import own_key
from perdure.app.servers import Mode
from perdure.checkpoints.restoring import Restorer
from perdure.core import transfer
from perdure.core.digest import GENESIS
from perdure.core.errors import InvalidInputError, NotFoundError, StorageUnavailableError
from perdure.core.export_keys import key_id
from perdure.core.forks import parents_first
from perdure.core.identity import ThreadKey
from perdure.core.portable import MAGIC, MAX_LINE, Contents, Listed, Packer, first_line
from perdure.core.portable_threads import LISTS, counts_of, records_of
from perdure.core.ports import Silence
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime
from perdure.core.transfer import ThreadCopy
from perdure.storage.baton import all_laid_down
from perdure.storage.contract import Storage
from perdure.storage.file.disk import File, RealDisk, translated
from perdure.storage.listing import all_threads
from perdure.storage.permissions import PRIVATE, temporary_name
from perdure.storage.ports import InPlace, Port, Worker
from perdure.storage.transfer import take

_MANY = 10**12  # a count that no thread has: the first line leaves room for it


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """An export that was written."""

    path: str
    threads: list[Listed]  # the first one is the thread that was asked for
    bytes: int  # of the file
    key: str | None = None  # the id of the key that signed it

    @property
    def entries(self) -> int:
        """How many entries are in the file."""
        return sum(each.counts.get("entries", 0) for each in self.threads)


Told = Callable[[int, int, Listed], None]  # how many threads are written, of how many, and the newest of them


async def export_thread(
    storage: Storage,
    key: ThreadKey,
    path: str | os.PathLike[str],
    *,
    forks: bool = False,
    sign: bool = True,
    mode: Mode = "sync",
    file_mode: int = PRIVATE,
    progress: Told | None = None,
) -> Exported:
    """Write a thread, with `forks` all that descend from it too, into one file.

    The file is there whole or not at all; an export that was there is replaced, any other file is left alone. Unless
    `sign` is false it is signed with the key of the store. Raises
    `NotFoundError`, `DamagedError` for a thread that fails its digests, `InvalidInputError` and `StorageError`.
    """
    rows = await _family(storage, key) if forks else [await _line(storage, key)]
    key_of_store = await own_key(storage) if sign else None
    port = port_for(path, mode)
    try:
        out = await port.run(lambda: _Out(os.path.abspath(path), rows, file_mode, key_of_store))
        try:
            for row in rows:
                await _add(storage, row, out, port)
                if progress is not None:
                    progress(len(out.listed), len(rows), out.listed[-1])
            size = await port.run(out.end)
        finally:
            port.close()  # waits for work that was cancelled: its file must not be closed under it
            out.abandon()
    finally:
        port.close()
    signed_by = None if key_of_store is None else key_id(key_of_store)
    return Exported(path=os.fspath(path), threads=out.listed, bytes=size, key=signed_by)


async def _line(storage: Storage, key: ThreadKey) -> ThreadRow:
    row = await storage.thread(key)
    if row is None:
        raise NotFoundError(f"thread {key.id!r}")
    return row


async def _family(storage: Storage, key: ThreadKey) -> list[ThreadRow]:
    """A thread and the threads of its owner that descend from it, parents first.

    One whose parent was deleted is known by its log: it has the first entry that is the thread's own.
    """
    root = await _line(storage, key)
    owned = parents_first(await all_threads(storage, key.namespace, key.user))
    visible, first = {row.uid for row in owned}, root.parent_version + 1
    mark = await _chain(storage, key, first)
    found = {root.uid: root}
    for row in owned:
        orphan = row.parent_uid is not None and row.parent_uid not in visible
        if row.parent_uid in found or (orphan and mark and await _chain(storage, row.key, first) == mark):
            found.setdefault(row.uid, row)
    return list(found.values())


async def _chain(storage: Storage, key: ThreadKey, version: int) -> bytes | None:
    found = await storage.headers(key, at=version)
    return found[0].chain if found and found[0].version == version else None


async def _add(storage: Storage, row: ThreadRow, out: _Out, port: Port) -> None:
    """Add a thread to an export; a fork that was deleted meanwhile is left out."""
    try:
        copy = await _taken(storage, row, shares=out.has(row.parent_uid))
        # A large value that is gone is found out.
        await Restorer(storage, Silence()).restore(copy.row.key, copy.row.head, uid=copy.row.uid)
    except NotFoundError:
        if not out.listed:
            raise
        return
    await port.run(lambda: out.add(copy))


async def _taken(storage: Storage, row: ThreadRow, *, shares: bool) -> ThreadCopy:
    """A thread as it stands; what it shares with a parent that is in the file already is not taken again."""
    after = row.parent_version if shares else 0
    chain = await _chain(storage, row.key, after) if after else GENESIS
    copy = await take(storage, row.key, after=after, chain=chain or GENESIS)
    if copy.row.uid != row.uid:
        raise NotFoundError(f"thread {row.key.id!r}", "it was deleted meanwhile")
    return msgspec.structs.replace(copy, row=msgspec.structs.replace(copy.row, lease_owner=None, lease_until=0))


def port_for(path: str | os.PathLike[str], mode: Mode) -> Port:
    """Where a file is read and written: in place, or beside the event loop."""
    return InPlace(str(path)) if mode == "sync" else Worker(str(path))


def listed(copy: ThreadCopy, parents: Mapping[str, str]) -> Listed:
    """The thread as the first line names it; `parents` are the ids of those in the file before it, by uid."""
    key = copy.row.key
    parent = parents.get(copy.row.parent_uid or "") if copy.after else None
    return Listed(
        id=key.id, user=key.user, namespace=key.namespace, version=copy.row.head, forked_from=parent,
        counts=counts_of(copy),
    )  # fmt: skip


class _Out:
    """An export that is being written, under another name until it is whole."""

    def __init__(self, path: str, rows: list[ThreadRow], file_mode: int, key: bytes | None) -> None:
        _check_target(path)
        self._key = key
        self.listed: list[Listed] = []
        self._ids: dict[str, str] = {}  # of the threads in the file, by uid
        self._path = path
        self._disk = RealDisk(file_mode)
        self._packer = Packer()
        self._made = to_datetime(SystemClock().now()).isoformat(timespec="seconds")
        self._width = self._at = len(first_line(self._contents([_widest(row, rows) for row in rows])))
        if self._width > MAX_LINE:
            raise InvalidInputError(f"{len(rows):,} threads are too many for one export; leave the forks out")
        # A name of its own: two exports to the same place must not write into each other.
        self._part = temporary_name(path)
        file = self._disk.open(self._part, write=True, create=True)
        if file is None:
            raise StorageUnavailableError(os.path.dirname(path), "there is no such folder")
        self._file: File | None = file

    def has(self, uid: str | None) -> bool:
        """Whether a thread is in the file."""
        return uid in self._ids

    def add(self, copy: ThreadCopy) -> None:
        """Write a thread; raise `DamagedError` for one that fails its digests."""
        with all_laid_down():
            transfer.check(copy)
            for record in records_of(copy):
                self._write(self._packer.add(record))
        self.listed.append(listed(copy, self._ids))
        self._ids[copy.row.uid] = copy.row.key.id

    def end(self) -> int:
        """Put the file in its place, and return its size."""
        line = first_line(self._contents(self.listed), self._width)
        self._write(self._packer.end(line, self._key))
        file = self._opened()
        file.write(0, line)
        file.sync()
        file.close()
        self._file = None
        self._disk.replace(self._part, self._path)
        self._disk.sync_folder(os.path.dirname(self._path))
        return self._at

    def abandon(self) -> None:
        """Leave nothing behind of an export that did not come to its end."""
        if self._file is not None:
            self._file.close()
            self._disk.remove(self._part)

    def _write(self, blocks: Iterable[bytes]) -> None:
        file = self._opened()
        for block in blocks:
            file.write(self._at, block)
            self._at += len(block)

    def _opened(self) -> File:
        assert self._file is not None  # noqa: S101  # until its end
        return self._file

    def _contents(self, threads: list[Listed]) -> Contents:
        from importlib.metadata import version

        key = "" if self._key is None else key_id(self._key)
        return Contents(release=version("perdure"), created=self._made, key=key, threads=threads)


def _widest(row: ThreadRow, rows: list[ThreadRow]) -> Listed:
    """A line that leaves room for whatever will be counted."""
    parent = next((each.key.id for each in rows if each.uid == row.parent_uid), None)
    key, counts = row.key, dict.fromkeys(LISTS, _MANY)
    return Listed(
        id=key.id, user=key.user, namespace=key.namespace, version=_MANY, forked_from=parent, counts=counts
    )  # fmt: skip


def _check_target(path: str) -> None:
    """A database that was named by mistake must not be replaced."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path):
        raise InvalidInputError(f"{path} is a symbolic link, which is not followed; name the file itself")
    if not os.path.isfile(path):
        raise InvalidInputError(f"{path} is no file; name one to export to")
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except OSError as exc:
        raise translated(exc, path) from exc
    if start not in (b"", MAGIC):
        raise InvalidInputError(f"{path} is there already and is no export; choose another name, or remove it")
