"""Threads out of an export: all of it is read and checked before anything is written anywhere."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import BinaryIO, NamedTuple

import msgspec

from perdure.app.clock import SystemClock
from perdure.app.copying import Copied, Progress, copy_threads
from perdure.app.export_keys import all_keys
from perdure.app.exporting import listed, port_for
from perdure.app.servers import Mode
from perdure.checkpoints import snapshotting
from perdure.checkpoints.restoring import Head, Restorer
from perdure.core import blobs
from perdure.core.digest import digest_of, snapshot_digest
from perdure.core.envelope import seal_packed
from perdure.core.errors import (
    ExportDamagedError,
    ExportUnsignedError,
    NotFoundError,
    PerdureError,
    SchemaTooNewError,
    ValueTooLargeError,
)
from perdure.core.fold import change_of
from perdure.core.identity import FROM_FILE, FromFile, ThreadKey, check_id, check_namespace, check_user
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ops import moves_items
from perdure.core.payload import WholeState, encode_body
from perdure.core.portable import FormatTooNew, Listed, NotAnExport, Unpacker
from perdure.core.portable_threads import copies
from perdure.core.ports import Clock, Silence
from perdure.core.pruning import content_of, is_blank
from perdure.core.quarantine import Arrival
from perdure.core.seams import within
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy
from perdure.core.writes import Snapshot
from perdure.storage.baton import all_laid_down
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.file.disk import translated
from perdure.storage.memory import MemoryStorage

_BUFFER = 1 << 20
_STEP = 2 << 20  # bytes of a log


async def import_file(
    storage: Storage,
    path: str | os.PathLike[str],
    *,
    user: str | FromFile,
    namespace: str | None = None,
    to: str | None = None,
    trust: bool = False,
    overwrite: bool = False,
    mode: Mode = "sync",
    clock: Clock | None = None,
    progress: Progress | None = None,
    limits: DecodeLimits = DEFAULT_LIMITS,
) -> list[Copied]:
    """Put the threads of an export into a storage, and return what became of each.

    The whole file is read and checked first; if anything is wrong, `ExportDamagedError` names the place and nothing is
    imported. Each thread is then put in one transaction and read back. `to`, `user` and `namespace` give it another id,
    owner or namespace; forks are then called `to/fork`.

    Threads arrive quarantined. With `trust`, those of a file that a key of this storage signed keep the standing that
    they had; any other file raises `ExportUnsignedError`. A signed file that has grown brings the thread that is here
    up to it; another one never changes a thread. With `overwrite`, a thread in its place is deleted first.
    """
    rename = _Rename(
        None if namespace is None else check_namespace(namespace),
        None if user is FROM_FILE else check_user(user),
        None if to is None else check_id(to, "the thread id"),
    )
    keys = await all_keys(storage)
    port = port_for(path, mode)
    try:
        found = await port.run(lambda: _read(os.fspath(path), rename, keys, limits))
    finally:
        port.close()
    if trust and not found.signed:
        raise ExportUnsignedError(os.fspath(path), found.key)
    now = (clock or SystemClock()).now()
    arrival = Arrival(origin=found.digest, signed=found.signed, trusted=trust, now=now)
    return await copy_threads(found.threads, storage, overwrite=overwrite, arrival=arrival, progress=progress)


class _Rename(NamedTuple):
    """How threads are called where they go; None is as in the file."""

    namespace: str | None
    user: str | None
    to: str | None

    def __call__(self, key: ThreadKey, *, is_first: bool) -> ThreadKey:
        name = key.id if self.to is None else self.to if is_first else f"{self.to}/{key.id}"
        namespace = key.namespace if self.namespace is None else self.namespace
        return ThreadKey(namespace, key.user if self.user is None else self.user, check_id(name, "the thread id"))


class _Found(NamedTuple):
    """A file that was read and checked."""

    threads: MemoryStorage
    digest: str  # SHA-256 of all its bytes, in hex
    key: str  # the id of the key that it says it was signed with
    signed: bool  # with a key of ours


def _read(path: str, rename: _Rename, keys: Mapping[str, bytes], limits: DecodeLimits) -> _Found:
    """The threads of an export, every digest checked and every state folded."""
    with all_laid_down(), _opened(path) as file:
        try:
            hashed = _Hashed(file)
            source = Unpacker(hashed)
            threads = _Loader(rename, limits).load(source)
            return _Found(threads, hashed.digest(), source.contents.key, source.is_signed(keys))
        except FormatTooNew as exc:
            raise SchemaTooNewError(path, str(exc)) from exc
        except NotAnExport as exc:
            raise ExportDamagedError(path, exc.place, exc.reason) from exc


class _Hashed:
    """A file whose digest is that of exactly the bytes that were read of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = sha256()

    def read(self, size: int, /) -> bytes:
        return self._noted(self._file.read(size))

    def readline(self, size: int, /) -> bytes:
        return self._noted(self._file.readline(size))

    def digest(self) -> str:
        """SHA-256 of what was read, in hex."""
        return self._hash.hexdigest()

    def _noted(self, data: bytes) -> bytes:
        self._hash.update(data)
        return data


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """The origin that threads of a file have, in hex."""
    with _opened(os.fspath(path)) as file:
        hashed = _Hashed(file)
        while hashed.read(_BUFFER):
            pass
        return hashed.digest()


def check_readable(path: str) -> None:
    """Raise what importing a file would, before a storage is made for it."""
    with _opened(path):
        pass


@contextmanager
def _opened(path: str) -> Generator[BinaryIO]:
    try:
        with open(path, "rb", buffering=_BUFFER) as file:
            yield file
    except FileNotFoundError as exc:
        raise NotFoundError(f"file {path!r}") from exc
    except OSError as exc:
        raise translated(exc, path) from exc


class _Loader:
    """Puts the threads of an export into memory, where they are a storage like any other."""

    def __init__(self, rename: _Rename, limits: DecodeLimits) -> None:
        self._rename = rename
        self._limits = limits
        self._memory = MemoryStorage()
        self._keys: dict[str, ThreadKey] = {}  # by uid as in the file
        self._taken: set[ThreadKey] = set()
        self._moves = 0
        self._parents = set[str]()  # uids of the parents that threads so far name
        self._ids: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def load(self, source: Unpacker) -> MemoryStorage:
        """Everything that is in the export; raise `NotAnExport`."""
        found: list[Listed] = []
        for copy in copies(source.records(), self._limits, lambda: source.most_items):
            found.append(listed(copy, self._ids))
            if len(found) > len(source.contents.threads):  # the first line is not packed: it bounds how many there are
                raise NotAnExport("the first line", "names other threads than the file has")
            self._ids[copy.row.uid] = copy.row.key.id
            key = self._rename(copy.row.key, is_first=not self._keys)
            with _named(copy.row.key):
                self._moves += _moves(copy)
                if self._moves > source.most_moves:
                    raise NotAnExport(f"thread {copy.row.key.id!r}", "moves list items more often than such a file may")
                self._put(copy, key)
        if found != source.contents.threads or not found:
            raise NotAnExport("the first line", "names other threads than the file has")
        for key in self._keys.values():
            with _named(key):
                self._fold(key)
        return self._memory

    def _put(self, copy: ThreadCopy, key: ThreadKey) -> None:
        row = copy.row
        parent = self._keys.get(row.parent_uid or "")
        is_late = row.uid in self._parents  # parents come first; otherwise two threads could be each other's
        if row.uid in self._keys or key in self._taken or (copy.after and parent is None) or is_late:
            raise NotAnExport(f"thread {row.key.id!r}", "stands where it does not belong")
        self._keys[row.uid], self._uids[row.uid] = key, _uid(row, key)
        self._taken.add(key)
        if row.parent_uid is not None:
            self._parents.add(row.parent_uid)
        line = msgspec.structs.replace(
            row, key=key, uid=self._uids[row.uid], parent_uid=self._uids.get(row.parent_uid or "", row.parent_uid)
        )
        if copy.after and parent is not None:
            drive(self._memory.fork(parent, copy.after, _unborn(line)))
        drive(self._memory.put_thread(msgspec.structs.replace(copy, row=line, spare_uid=None)))

    def _fold(self, key: ThreadKey) -> None:
        """Fold a state, and keep it where folding it again would take long.

        A long log is folded in steps: in one go, its changes would be in memory several times.
        """
        newest = 0
        for version in self._stops(key):
            head = drive(Restorer(self._memory, Silence(), self._limits).restore(key, version))
            if snapshotting.is_snapshot_due(head.since, head.document.size):
                drive(self._memory.put_snapshot(key, head.uid or "", _snapshot(head)))
                drive(self._memory.drop_snapshot(key, newest))
                newest = version

    def _stops(self, key: ThreadKey) -> Iterator[int]:
        """Versions of a log about as many bytes apart as may be folded at once, its head at the end."""
        gone, weight, version = drive(self._memory.seams(key)).gone, 0, 0
        for entry in drive(self._memory.entries(key)):
            weight, version = weight + len(entry.payload or b""), entry.version
            if weight > _STEP and not within(gone, version):
                yield version
                weight = 0
        if weight:
            yield version


def _moves(copy: ThreadCopy) -> int:
    """How many of its changes move the items of a list."""
    name, count = copy.row.key.id, 0
    for entry in copy.entries:  # one after the other: a long log would not fit into memory decoded
        if entry.changes_state and not is_blank(entry):
            count += sum(map(moves_items, change_of(name, entry).ops))
    for record in copy.records:
        if not record.whole:
            count += sum(map(moves_items, content_of(name, record).ops))
    return count


def _uid(row: ThreadRow, key: ThreadKey) -> str:
    """The uid of a thread where it goes: another one for another key, the same one each time."""
    return row.uid if key == row.key else digest_of(f"{row.uid} {key.digest()}".encode()).hex()[:26]


def _unborn(row: ThreadRow) -> ThreadRow:
    """The line of a fork without entries of its own."""
    return ThreadRow(
        key=row.key, uid=row.uid, name=row.name, agent=row.agent, tags=row.tags, metadata=row.metadata,
        created=row.created,
    )  # fmt: skip


def _snapshot(head: Head) -> Snapshot:
    state, large = blobs.extract(head.document.encoded())
    payload = seal_packed(encode_body(WholeState(msgspec.Raw(state), [blob.digest for blob in large])))
    digest = snapshot_digest(head.chain, payload)
    return Snapshot(version=head.last, chain=head.chain, digest=digest, payload=payload)


@contextmanager
def _named(key: ThreadKey) -> Generator[None]:
    """What a storage says of a thread that is not as it was written, with the place."""
    try:
        yield
    except ValueTooLargeError:
        raise  # it is as it was written: who knows the file may raise the limit
    except (PerdureError, ArithmeticError, LookupError, TypeError, ValueError) as exc:
        raise NotAnExport(f"thread {key.id!r}", f"is not as it was written ({exc})") from exc
