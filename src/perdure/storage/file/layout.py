"""The folder as a whole: what says that it is ours, and which releases may use it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from posixpath import dirname, join

import msgspec

from perdure.core.errors import NotAStorageError, SchemaOutdatedError, SchemaTooNewError
from perdure.storage.contract import READS, SCHEMA, Migrate, Schema
from perdure.storage.file import files
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import CannotReadLine, checked, written
from perdure.storage.file.logs import BLOBS, HIDDEN, KEPT, THREADS, TRASH
from perdure.storage.permissions import is_temporary

MARKER, LOCK, IGNORE = "perdure.json", "perdure.lock", ".gitignore"
STEPS = (
    "make the folder",
    f"write {IGNORE} with the line *",
    f"make the folders {THREADS}, {HIDDEN}, {TRASH} and {BLOBS}",
    f"write {MARKER} with schema, min_reader, min_writer and a checksum",
)
_SCHEMA = msgspec.json.Decoder(Schema)
_OURS = frozenset({MARKER, LOCK, IGNORE, THREADS, HIDDEN, TRASH, BLOBS})


def files_of(root: str) -> list[str]:
    """What says by its modes who may read the files of a folder: the marker, and the folders that hold the others."""
    return [join(root, name) for name in (MARKER, THREADS, HIDDEN, TRASH, BLOBS, KEPT)]


def prepare(disk: Disk, root: str, migrate: Migrate) -> Schema:
    """Make the layout, or check the one that is there."""
    found = read(disk, root)
    if found is None:
        _check_empty(disk, root)
        if migrate == "check":
            raise SchemaOutdatedError(root, "there is no storage here yet")
        found = _make(disk, root)
    if found.schema < SCHEMA:
        if migrate == "check":
            raise SchemaOutdatedError(root, f"schema {found.schema}, this release writes {SCHEMA}")
        found = _upgrade(disk, root)
    if migrate == "auto":
        _make_folders(disk, root)  # a copy made by git or by an archiver has lost the empty ones
    return found


def read(disk: Disk, root: str) -> Schema | None:
    """The schema of the folder, which this release may use; None when it has none."""
    data = files.get(disk, join(root, MARKER))
    if data is None:
        return None
    try:
        return _usable(root, checked(data, _SCHEMA) if b'"crc"' in data else _SCHEMA.decode(data))
    except (CannotReadLine, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise NotAStorageError(root, f"its {MARKER} {exc}") from exc


def _usable(root: str, found: Schema) -> Schema:
    if max(found.min_reader, found.min_writer) > SCHEMA:
        needs = max(found.min_reader, found.min_writer)
        raise SchemaTooNewError(root, f"it needs a release that knows schema {needs}, this one knows {SCHEMA}")
    if found.schema < READS:
        raise SchemaOutdatedError(root, f"it has schema {found.schema}")
    return found


def _check_empty(disk: Disk, root: str) -> None:
    # A marker that is listed was written after we looked for it, by another opener: it is read again under the lock.
    foreign = [name for name in disk.names(root) if not _is_ours(name)]
    if foreign:
        raise NotAStorageError(root, f"there is no {MARKER}, but {foreign[0]!r} is in the folder")
    if disk.stat(root) is not None and not disk.is_folder(root):
        raise NotAStorageError(root, "it is a file")


def _is_ours(name: str) -> bool:
    return name in _OURS or is_temporary(name, MARKER) or is_temporary(name, IGNORE)


def _make(disk: Disk, root: str) -> Schema:
    files.make_folder(disk, root)
    with held(disk, root):
        return read(disk, root) or _fill(disk, root)


def _upgrade(disk: Disk, root: str) -> Schema:
    """Only the marker changes: what schema 2 adds to a line is absent in those of schema 1."""
    with held(disk, root):
        found = read(disk, root)
        return found if found and found.schema >= SCHEMA else _mark(disk, root)


@contextmanager
def held(disk: Disk, root: str) -> Generator[None]:
    """Hold the lock of the folder as a whole."""
    lock = files.opened(disk, join(root, LOCK))
    try:
        lock.lock(shared=False)
        yield
    finally:
        lock.close()


def _make_folders(disk: Disk, root: str) -> None:
    for name in (THREADS, HIDDEN, TRASH, BLOBS):
        if not disk.is_folder(join(root, name)):
            files.make_folder(disk, join(root, name))


def _fill(disk: Disk, root: str) -> Schema:
    files.put(disk, join(root, IGNORE), b"*\n")
    _make_folders(disk, root)
    disk.sync_folder(dirname(root) or ".")
    return _mark(disk, root)  # last: with it, everything else is there


def _mark(disk: Disk, root: str) -> Schema:
    made = Schema(schema=SCHEMA, min_reader=SCHEMA, min_writer=SCHEMA)
    files.put(disk, join(root, MARKER), written(made))
    return made
