"""Small values of the storage itself, such as the secret of its hot layer: one file each, written once."""

from __future__ import annotations

from posixpath import join

import msgspec

from perdure.core.errors import StorageDamagedError, StorageReadOnlyError
from perdure.storage.file import files
from perdure.storage.file.disk import Disk
from perdure.storage.file.layout import held
from perdure.storage.file.lines import CannotReadLine, checked, written
from perdure.storage.file.logs import KEPT, name_of


class KeptFile(msgspec.Struct, frozen=True):
    """A value as it is written."""

    name: str
    value: bytes


_FILE = msgspec.json.Decoder(KeptFile)


def keep(disk: Disk, root: str, name: str, value: bytes) -> bytes:
    """The keep of the contract."""
    try:
        return _keep(disk, root, name, value)
    except StorageReadOnlyError:
        known = _read(disk, _path(root, name))
        if known is None:
            raise
        return known


def _keep(disk: Disk, root: str, name: str, value: bytes) -> bytes:
    with held(disk, root):
        known = _read(disk, _path(root, name))
        if known is None:
            files.make_folder(disk, join(root, KEPT))
            files.put(disk, _path(root, name), written(KeptFile(name, value)))
            return value
        disk.sync_folder(join(root, KEPT))  # its writer may have died before this: a power loss could take it back
        return known


def kept(disk: Disk, root: str, prefix: str) -> dict[str, bytes]:
    """The kept of the contract."""
    folder = join(root, KEPT)
    names = [name for name in disk.names(folder) if name.endswith(".json")]
    found = [each for name in names if (each := _file(disk, join(folder, name))) is not None]
    return {each.name: each.value for each in sorted(found, key=lambda each: each.name) if each.name.startswith(prefix)}


def discard(disk: Disk, root: str, name: str) -> bool:
    """The discard of the contract."""
    with held(disk, root):
        path = _path(root, name)
        if _file(disk, path) is None:
            return False
        disk.remove(path)
        disk.sync_folder(join(root, KEPT))
        return True


def _read(disk: Disk, path: str) -> bytes | None:
    found = _file(disk, path)
    return None if found is None else found.value


def _file(disk: Disk, path: str) -> KeptFile | None:
    data = files.get(disk, path)
    try:
        return None if data is None else checked(data, _FILE)
    except CannotReadLine as exc:
        raise StorageDamagedError(path, str(exc)) from exc


def _path(root: str, name: str) -> str:
    return join(root, KEPT, name_of(name) + ".json")
