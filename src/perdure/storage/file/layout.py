"""The folder as a whole: what says that it is ours, and which releases may use it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from posixpath import dirname, join

import msgspec

from perdure.core.errors import NotAStorageError
from perdure.storage.contract import Migrate, Schema
from perdure.storage.file import files
from perdure.storage.file.directory import NAME as DIRECTORY
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import CannotReadLine, checked, written
from perdure.storage.file.logs import BLOBS, HIDDEN, KEPT, THREADS, TRASH
from perdure.storage.permissions import is_temporary
from perdure.storage.steps import Step, complete, steps_after, usable

MARKER, LOCK, IGNORE = "perdure.json", "perdure.lock", ".gitignore"
_SCHEMA = msgspec.json.Decoder(Schema)
_OURS = frozenset({MARKER, LOCK, IGNORE, THREADS, HIDDEN, TRASH, BLOBS, DIRECTORY})


def files_of(root: str) -> list[str]:
    """What says by its modes who may read the files of a folder: the marker, and the folders that hold the others."""
    return [join(root, name) for name in (MARKER, THREADS, HIDDEN, TRASH, BLOBS, KEPT)]


class FolderStep(Step, frozen=True, kw_only=True):
    """One change of the folder. If its maker is killed it is done again: it must not matter how far it came before."""

    words: tuple[str, ...]  # what it does, for people
    change: Callable[[Disk, str], None]


def prepare(disk: Disk, root: str, migrate: Migrate, steps: Sequence[FolderStep]) -> Schema:
    """Make or upgrade the layout, or check the one that is there."""
    found = _read(disk, root)
    if found is None:
        _check_empty(disk, root)
    ready = complete(root, found, steps, migrate) or usable(root, _upgrade(disk, root, steps), steps)
    if migrate == "auto":
        _make_folders(disk, root)  # a copy made by git or by an archiver has lost the empty ones
    return ready


def words(steps: Sequence[FolderStep]) -> list[str]:
    """What would be done to an empty place."""
    mark = f"write {MARKER} with schema, min_reader, min_writer and a checksum"
    return [text for step in steps for text in (*step.words, mark)]


def _read(disk: Disk, root: str) -> Schema | None:
    """The schema of the folder; None when it has none."""
    data = files.get(disk, join(root, MARKER))
    try:
        return None if data is None else checked(data, _SCHEMA)
    except CannotReadLine as exc:
        raise NotAStorageError(root, f"its {MARKER} {exc}") from exc


def _check_empty(disk: Disk, root: str) -> None:
    # A marker that is listed was written after we looked for it, by another opener: it is read again under the lock.
    foreign = [name for name in disk.names(root) if not _is_ours(name)]
    if foreign:
        raise NotAStorageError(root, f"there is no {MARKER}, but {foreign[0]!r} is in the folder")
    if disk.stat(root) is not None and not disk.is_folder(root):
        raise NotAStorageError(root, "it is a file")


def _is_ours(name: str) -> bool:
    return name in _OURS or is_temporary(name, MARKER) or is_temporary(name, IGNORE)


def _upgrade(disk: Disk, root: str, steps: Sequence[FolderStep]) -> Schema:
    """Do the missing steps. Of several processes one does it, the others find it done."""
    files.make_folder(disk, root)
    with held(disk, root):
        found = _read(disk, root)
        for step in steps_after(steps, found):
            step.change(disk, root)
            found = step.schema
            files.put(disk, join(root, MARKER), written(found))  # last: with it, everything else is there
        return found or steps[-1].schema


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


def _fill(disk: Disk, root: str) -> None:
    files.put(disk, join(root, IGNORE), b"*\n")
    _make_folders(disk, root)
    disk.sync_folder(dirname(root) or ".")


STEPS: tuple[FolderStep, ...] = (
    FolderStep(
        number=1,
        why="the first layout",
        words=(
            "make the folder",
            f"write {IGNORE} with the line *",
            f"make the folders {THREADS}, {HIDDEN}, {TRASH} and {BLOBS}",
        ),
        change=_fill,
        min_reader=1,
        min_writer=1,
    ),
)
