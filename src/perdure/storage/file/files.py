"""Small whole files: written under another name, synced, then put in place, so that nobody ever sees half of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import dirname, join

from perdure.core.errors import StorageError, StorageUnavailableError
from perdure.storage.file.disk import Disk, File
from perdure.storage.permissions import is_temporary, temporary_name

_SIZE = re.compile(rb'\{"size":(\d+),')
_GLANCE = 32


def put(disk: Disk, path: str, data: bytes) -> None:
    """Write a file durably; after an error the old one is still there, or the new one is, whole."""
    other = temporary_name(path)
    file = opened(disk, other)
    try:
        file.write(0, data)
        file.sync()
    except StorageError:
        disk.remove(other)
        raise
    finally:
        file.close()
    disk.replace(other, path)
    disk.sync_folder(dirname(path))


def get(disk: Disk, path: str) -> bytes | None:
    """A whole file; None when it is not there."""
    file = disk.open(path)
    if file is None:
        return None
    try:
        return file.read(0, file.stat().size)
    finally:
        file.close()


def told_size(disk: Disk, path: str) -> int:
    """The size that a file of ours tells of its payload, from its first bytes."""
    file = disk.open(path)
    if file is None:
        return 0
    try:
        found = _SIZE.match(file.read(0, _GLANCE))
        return int(found.group(1)) if found else 0
    finally:
        file.close()


def opened(disk: Disk, path: str) -> File:
    """Open a file for writing, made when absent, in a folder that is there."""
    file = disk.open(path, write=True, create=True)
    if file is None:
        raise StorageUnavailableError(dirname(path), "the folder is gone")
    return file


def make_folder(disk: Disk, path: str) -> None:
    """Make a folder whose name survives a power loss, and those above it."""
    if not path or disk.is_folder(path):
        return
    above = dirname(path)
    make_folder(disk, above)
    disk.make_folder(path)
    disk.sync_folder(above or ".")


def remove_tree(disk: Disk, folder: str) -> None:
    """Remove a folder with everything in it."""
    for name in disk.names(folder):
        path = join(folder, name)
        if disk.is_folder(path):
            remove_tree(disk, path)
        else:
            disk.remove(path)
    disk.remove(folder)


def remove_leftovers(disk: Disk, folder: str) -> int:
    """Remove what writers that died have left in a folder whose lock is held, and return how many bytes that was."""
    paths = [join(folder, name) for name in disk.names(folder) if is_temporary(name)]
    freed = sum(found.size for path in paths if (found := disk.stat(path)))
    for path in paths:
        disk.remove(path)
    return freed


def tree_sizes(disk: Disk, folder: str) -> Iterator[int]:
    """The size of every file in a folder and below."""
    for name in disk.names(folder):
        path = join(folder, name)
        if disk.is_folder(path):
            yield from tree_sizes(disk, path)
        elif found := disk.stat(path):
            yield found.size
