"""Large values: one file per user and digest, readable like everything else."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from posixpath import join

import msgspec

from perdure.core.digest import digest_of
from perdure.core.envelope import EnvelopeError, unseal
from perdure.core.errors import BlobDamagedError, DamagedError, StorageIOError
from perdure.core.identity import ThreadKey
from perdure.core.render import CannotRead
from perdure.core.writes import Blob
from perdure.storage.file import files
from perdure.storage.file.bodies import payload_of, shown
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import CannotReadLine, checked, written

_LOCK, _END = "lock", ".json"


class BlobFile(msgspec.Struct, frozen=True):
    """A large value as it is written."""

    size: int  # of the sealed payload; first, so that it can be told from the first bytes of the file
    payload: msgspec.Raw


_FILE = msgspec.json.Decoder(BlobFile)


class Blobs:
    """The large values of all users. A file's time of change is when a write last referred to it."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root

    def scope(self, key: ThreadKey) -> str:
        """The folder's name for the user of a thread."""
        return ThreadKey(key.namespace, key.user, "").digest()

    @contextmanager
    def held(self, scope: str) -> Generator[None]:
        """Keep sweepers and other writers out while a write puts its values and commits.

        Taken before any thread's lock, by everybody: in the other order two of them could wait for each other.
        """
        folder = join(self._root, scope)
        files.make_folder(self._disk, folder)
        file = files.opened(self._disk, join(folder, _LOCK))
        try:
            file.lock(shared=False)
            yield
        finally:
            file.close()

    def put(self, key: ThreadKey, blobs: Sequence[Blob], micros: int) -> None:
        """Make values durable, or touch those that are there."""
        folder = join(self._root, self.scope(key))
        for blob in blobs:
            path = join(folder, blob.digest.hex() + _END)
            if self._intact(path):
                self._touch(path, micros)
            else:
                text = shown(blob.payload)
                files.put(self._disk, path, written(BlobFile(len(payload_of(text)), text)))
                self._disk.touch(path, micros)
        self._disk.sync_folder(folder)  # a value found here may be one whose writer died before this

    def _intact(self, path: str) -> bool:
        try:
            checked(files.get(self._disk, path) or b"", _FILE)
        except CannotReadLine:
            return False
        return True

    def _touch(self, path: str, micros: int) -> None:
        found = self._disk.stat(path)
        self._disk.touch(path, max(micros, found.mtime if found else 0))

    def get(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """The sealed values that are there; raise `BlobDamagedError` for one that is not as it was written."""
        folder = join(self._root, self.scope(key))
        found = {digest: files.get(self._disk, join(folder, digest.hex() + _END)) for digest in digests}
        return {digest: _payload(digest, data) for digest, data in found.items() if data is not None}

    def sweep(self, until: int, used: Callable[[], dict[str, set[str]]]) -> int:
        """Remove what nothing has referred to since `until`; `used` tells the digests in use, by scope."""
        return sum(self._sweep(scope, until, used) for scope in self._disk.names(self._root) if self._old(scope, until))

    def _sweep(self, scope: str, until: int, used: Callable[[], dict[str, set[str]]]) -> int:
        with self.held(scope):
            try:
                in_use = used().get(scope, set())
            except (DamagedError, StorageIOError):
                return 0  # what cannot be read may need any of them
            gone = [name for name in self._old(scope, until) if name.removesuffix(_END) not in in_use]
            for name in gone:
                self._disk.remove(join(self._root, scope, name))
            self._disk.sync_folder(join(self._root, scope))
            return len(gone)

    def clear(self, scope: str, used: Callable[[], set[str]]) -> int:
        """Remove the values of one user that nothing refers to, however new they are, and return how many."""
        if not self._disk.is_folder(join(self._root, scope)):
            return 0
        with self.held(scope):  # no write is about to refer to one of them
            in_use = used()
            names = [name for name in self._disk.names(join(self._root, scope)) if name.endswith(_END)]
            gone = [name for name in names if name.removesuffix(_END) not in in_use]
            for name in gone:
                self._disk.remove(join(self._root, scope, name))
            files.remove_leftovers(self._disk, join(self._root, scope))
            self._disk.sync_folder(join(self._root, scope))
            return len(gone)

    def _old(self, scope: str, until: int) -> list[str]:
        folder = join(self._root, scope)
        names = [name for name in self._disk.names(folder) if name.endswith(_END)]
        found = [(name, self._disk.stat(join(folder, name))) for name in names]
        return [name for name, stat in found if stat and stat.mtime <= until]

    def tidy(self) -> int:
        """Remove what writers that died have left, and return how many bytes that was."""
        return sum(self._tidied(scope) for scope in self._disk.names(self._root))

    def _tidied(self, scope: str) -> int:
        with self.held(scope):
            return files.remove_leftovers(self._disk, join(self._root, scope))

    def sizes(self) -> list[int]:
        """How many bytes each value takes, sealed."""
        folders = [join(self._root, scope) for scope in self._disk.names(self._root)]
        paths = [join(folder, name) for folder in folders for name in self._disk.names(folder) if name.endswith(_END)]
        return [files.told_size(self._disk, path) for path in paths]


def _payload(digest: bytes, data: bytes) -> bytes:
    try:
        payload = payload_of(checked(data, _FILE).payload)
    except (CannotReadLine, CannotRead) as exc:
        raise BlobDamagedError(digest.hex(), str(exc)) from exc
    try:
        if digest_of(unseal(payload)) != digest:
            raise BlobDamagedError(digest.hex(), "fails its digest")
    except EnvelopeError:
        return payload  # encrypted, or newer than this release: only its reader can tell
    return payload
