"""What is known of a log without reading its bodies, in memory and in `index.jsonl`.

The index is derived: never synced, checked line by line, made again from the log where it is missing or wrong. Its
lines are written after the log was synced, so a line in it is proof that the line in the log was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from perdure.core.errors import StorageError
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.storage.file import files
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import (
    NOBODY,
    CannotReadLine,
    Header,
    Indexed,
    Lease,
    Line,
    Mark,
    RecordHead,
    checked,
    identity_of,
    row_after,
    written,
)
from perdure.storage.lineage import Span

_INDEXED = msgspec.json.Decoder(Indexed)


class Kept(NamedTuple):
    """A record, and the line it is."""

    head: RecordHead
    item: Indexed


class Index:
    """One log without its bodies."""

    def __init__(self, inode: int, edition: int = 0) -> None:
        self.inode = inode
        self.edition = edition
        self.row: ThreadRow = NOBODY  # as the log tells it; the lease file may know a newer lease
        self.lease = Lease()
        self.parent: str | None = None
        self.identity = b""
        self.lines: list[Indexed] = []
        self.headers: list[Header] = []
        self.marks: list[Mark] = []
        self.rewinds: list[Rewind] = []
        self.records: list[Kept] = []
        self.keys: dict[str, int] = {}
        self.blobs: set[bytes] = set()
        self.end = 0  # how many bytes of the log it covers
        self.saved = 0  # how many of its lines stand in the file
        self.saved_bytes = 0
        self._places: list[tuple[int, int]] = []  # of each header: line, position in it

    def add(self, item: Indexed) -> None:
        """Go on with the next line; raise `CannotReadLine` when it does not follow."""
        self._check(item)
        for position, header in enumerate(item.line.entries):
            self.headers.append(header)
            self._places.append((len(self.lines), position))
            if header.key is not None:
                self.keys[header.key] = header.version
            if header.back_to is not None:
                self.rewinds.append(Rewind(header.version, header.back_to))
        self.lines.append(item)
        self.end = item.at + item.size
        self._follow(item.line)
        if item.line.record is not None:
            self.records.append(Kept(self._stands(item.line.record), item))

    def _check(self, item: Indexed) -> None:
        versions = [header.version for header in item.line.entries]
        start = self.row.head + 1
        if item.at != self.end or versions != list(range(start, start + len(versions))):
            raise CannotReadLine("does not follow from the line before")
        if self.lines:
            return
        if not isinstance(item.line.changed.uid, str):
            raise CannotReadLine("does not say whose log this is")
        if item.line.identity != identity_of(item.line):
            raise CannotReadLine("does not carry the digest of whose log this is")
        self.identity = item.line.identity

    def _follow(self, line: Line) -> None:
        self.row = row_after(self.row, line)
        self.parent = line.parent or self.parent
        self.lease = line.lease or self.lease
        self.marks.extend((line.checkpoint,) if line.checkpoint else ())
        self.blobs.update(line.blobs)

    def _stands(self, head: RecordHead) -> RecordHead:
        """A base stands for everything since the log began, wherever it was written first."""
        return msgspec.structs.replace(head, low=self.row.parent_version) if head.whole else head

    def header(self, version: int) -> Header:
        """The header of a version of this log's own."""
        return self.headers[version - self.row.parent_version - 1]

    def under(self, prefix: str, span: Span) -> list[Header]:
        """The headers, in order, of those of the log's own versions in a span whose key begins with a prefix."""
        versions = sorted(version for key, version in self.keys.items() if key.startswith(prefix))
        return [self.header(version) for version in versions if span.low < version <= span.high]

    def between(self, low: int, high: int) -> list[Header]:
        """The headers of the log's own versions after `low` up to `high`."""
        start = self.row.parent_version
        return self.headers[max(low - start, 0) : max(high - start, 0)]

    def place(self, version: int) -> tuple[Indexed, int]:
        """Where the body of a version stands: the line, and its position in it."""
        line, position = self._places[version - self.row.parent_version - 1]
        return self.lines[line], position

    def written_at(self, write_id: bytes, after: int) -> int | None:
        """The first version of a write among those after `after`."""
        newer = self.between(after, self.row.head)
        return next((header.version for header in newer if header.write_id == write_id), None)

    def base_at(self, version: int) -> Kept | None:
        """The base of exactly this version."""
        return next((kept for kept in self.records if kept.head.whole and kept.head.version == version), None)

    def mark_at(self, entry: int) -> Mark | None:
        """The checkpoint that rides on an entry."""
        return next((mark for mark in reversed(self.marks) if mark.entry == entry), None)


def load(disk: Disk, path: str, index: Index) -> int:
    """Read the lines that the file has beyond the index; return how many bytes of the log it knows as committed."""
    file = disk.open(path)
    size = file.stat().size if file else 0
    if size < index.saved_bytes:
        index.saved, index.saved_bytes = 0, 0  # somebody removed it: it is written again from memory
    if file is None:
        return index.end
    try:
        return _take(file.read(index.saved_bytes, size - index.saved_bytes), index)
    finally:
        file.close()


def _take(data: bytes, index: Index) -> int:
    committed, intact = index.end, index.saved == len(index.lines)
    for text, item in _readable(data, index.edition):
        committed = max(committed, item.at + item.size if item else 0)
        intact = intact and item is not None and _added(index, item)
        if intact:
            index.saved += 1
            index.saved_bytes += len(text)
    return committed


def _readable(data: bytes, edition: int) -> Iterator[tuple[bytes, Indexed | None]]:
    for text in data.splitlines(keepends=True):
        try:
            item = checked(text, _INDEXED)
        except CannotReadLine:
            item = None
        yield text, item if item and item.edition == edition else None


def _added(index: Index, item: Indexed) -> bool:
    try:
        index.add(item)
    except CannotReadLine:
        return False
    return True


def known(disk: Disk, path: str) -> int:
    """How many entries an index file tells of, whatever became of their log."""
    versions: set[int] = set()
    for text in (files.get(disk, path) or b"").splitlines(keepends=True):
        with suppress(CannotReadLine):
            versions.update(header.version for header in checked(text, _INDEXED).line.entries)
    return len(versions)


def save(disk: Disk, path: str, index: Index) -> None:
    """Bring the file up to the index, under the thread's exclusive lock; a failure costs time later, nothing else."""
    if index.saved == len(index.lines):
        return
    try:
        _save(disk, path, index)
    except StorageError:
        index.saved, index.saved_bytes = 0, 0


def _save(disk: Disk, path: str, index: Index) -> None:
    file = disk.open(path, write=True, create=True)
    if file is None:
        return
    try:
        data = b"".join(written(line) for line in index.lines[index.saved :])
        file.write(index.saved_bytes, data)
        index.saved, index.saved_bytes = len(index.lines), index.saved_bytes + len(data)
        if file.stat().size > index.saved_bytes:
            file.truncate(index.saved_bytes)  # what a torn write left behind
    finally:
        file.close()


def tidy(disk: Disk, path: str, index: Index) -> int:
    """Cut off what the file has beyond the index, and return how many bytes that was."""
    file = disk.open(path, write=True) if index.saved == len(index.lines) else None
    if file is None:
        return 0
    try:
        excess = max(file.stat().size - index.saved_bytes, 0)
        if excess:
            file.truncate(index.saved_bytes)
        return excess
    finally:
        file.close()
