"""What is known of a log without reading its bodies, in memory and in `index.jsonl`.

The index is derived: never synced, checked line by line, made again from the log where it is missing or wrong. Its
lines are written after the log was synced, so a line in it is proof that the line in the log was committed. Now and
then a landmark stands between them: it has everything but the lines before it, so that a long log is opened by its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from perdure.core.errors import StorageError
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.storage.file import files
from perdure.storage.file.disk import Disk, File
from perdure.storage.file.lines import (
    NOBODY,
    CannotReadLine,
    Header,
    Indexed,
    Landmark,
    LandmarkLine,
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
_LANDMARK_LINE = msgspec.json.Decoder(LandmarkLine)
_LANDMARK = b'\n{"landmark":'
_STRIDE = 1 << 16  # bytes of the file between two landmarks
_PER_RECORD = 4096  # … and more for each record that they repeat
_TAIL = 1 << 17  # bytes in which the last landmark of a long file is looked for first


class Kept(NamedTuple):
    """A record, and the line it is."""

    head: RecordHead
    item: Indexed


Reload = Callable[[int], "Index"]


class Index:
    """One log without its bodies. What comes before its landmark is read when it is asked for."""

    def __init__(self, inode: int, edition: int = 0, identity: bytes = b"") -> None:
        self.inode = inode
        self.edition = edition
        self.identity = identity  # of the log; b"" before that is known
        self.row: ThreadRow = NOBODY  # as the log tells it; the lease file may know a newer lease
        self.lease = Lease()
        self.parent: str | None = None
        self.rewinds: list[Rewind] = []
        self.records: list[Kept] = []
        self.end = 0  # how many bytes of the log it covers
        self.saved = 0  # how many of its lines stand in the file
        self.saved_bytes = 0
        self.last: Indexed | None = None
        self.landmark: Landmark | None = None  # the newest, behind the line `landmark.lines`
        self.landmark_bytes = 0  # where the file goes on behind it
        self.base: Landmark | None = None  # the one behind which the lines in memory begin
        self.base_bytes = 0
        self.reload: Reload | None = None  # reads it from a version on, or all of it, while the log is held
        self._first = 0  # how many lines are not in memory
        self._start = 0  # the version before the first header in memory
        self._lines: list[Indexed] = []
        self._headers: list[Header] = []
        self._places: list[tuple[int, int]] = []  # of each header: line, position in it
        self._marks: list[Mark] = []
        self._keys: dict[str, int] = {}
        self._has_all_keys = True
        self._blobs: set[bytes] = set()

    @property
    def is_empty(self) -> bool:
        """Whether the log has no line yet."""
        return self.last is None

    @property
    def count(self) -> int:
        """How many lines the log has."""
        return self._first + len(self._lines)

    @property
    def weight(self) -> int:
        """How much memory it takes, in entries."""
        return 1 + max(len(self._lines), len(self._headers)) + len(self._keys) // 8

    def add(self, item: Indexed) -> None:
        """Go on with the next line; raise `CannotReadLine` when it does not follow."""
        self._check(item)
        if not self._lines and not self._first:
            self._start = row_after(NOBODY, item.line).parent_version
        for position, header in enumerate(item.line.entries):
            self._headers.append(header)
            self._places.append((len(self._lines), position))
            if header.key is not None:
                self._keys[header.key] = header.version
            if header.back_to is not None:
                self.rewinds.append(Rewind(header.version, header.back_to))
        self._lines.append(item)
        self.last, self.end = item, item.at + item.size
        self._follow(item.line)
        if item.line.record is not None:
            self.records.append(Kept(self._stands(item.line.record), item))

    def _check(self, item: Indexed) -> None:
        versions = [header.version for header in item.line.entries]
        start = self.row.head + 1
        if item.at != self.end or versions != list(range(start, start + len(versions))):
            raise CannotReadLine("does not follow from the line before")
        if not self.is_empty:
            return
        if not isinstance(item.line.changed.uid, str):
            raise CannotReadLine("does not say whose log this is")
        if item.line.identity != identity_of(item.line) or self.identity not in (b"", item.line.identity):
            raise CannotReadLine("does not carry the digest of whose log this is")
        self.identity = item.line.identity

    def _follow(self, line: Line) -> None:
        self.row = row_after(self.row, line)
        self.parent = line.parent or self.parent
        self.lease = line.lease or self.lease
        self._marks.extend((line.checkpoint,) if line.checkpoint else ())
        self._blobs.update(line.blobs)

    def _stands(self, head: RecordHead) -> RecordHead:
        """A base stands for everything since the log began, wherever it was written first."""
        return msgspec.structs.replace(head, low=self.row.parent_version) if head.whole else head

    # ── landmarks ──

    def begin_at(self, mark: Landmark, file_end: int) -> bool:
        """Begin behind a landmark of the file; False when it is not one of this log."""
        if mark.identity != self.identity or mark.last.edition != self.edition:
            return False
        self.row, self.lease, self.parent = mark.row, mark.lease, mark.parent
        self.rewinds = list(mark.rewinds)
        self.records = [Kept(self._stands(item.line.record), item) for item in mark.records if item.line.record]
        self.last, self.end = mark.last, mark.last.at + mark.last.size
        self.saved, self.saved_bytes = mark.lines, file_end
        self._cut_to(mark, file_end)
        self._has_all_keys = False
        return True

    def set_landmark(self, mark: Landmark, file_end: int) -> None:
        """Note where the file has one behind the lines that were read."""
        self.landmark, self.landmark_bytes = mark, file_end

    def make_landmark(self) -> Landmark | None:
        """One behind everything that is known."""
        if self.last is None:
            return None
        records = tuple(kept.item for kept in self.records)
        return Landmark(
            self.row, self.lease, self.identity, self.last, self.count, self.parent, tuple(self.rewinds), records
        )

    def trim(self) -> None:
        """Give back the memory of the lines before the landmark. Keys stay: each write asks for them."""
        if self.landmark is not None and self.landmark.lines > self._first:
            self._cut_to(self.landmark, self.landmark_bytes)

    def _cut_to(self, mark: Landmark, file_end: int) -> None:
        gone = mark.lines - self._first
        headers = max(mark.row.head - self._start, 0)
        self.set_landmark(mark, file_end)
        self._lines = self._lines[gone:]
        self._headers = self._headers[headers:]
        self._places = [(line - gone, position) for line, position in self._places[headers:]]
        self._marks = [each for each in self._marks if each.entry > mark.row.head]
        self._blobs = set().union(*(item.line.blobs for item in self._lines))
        self._first, self._start = mark.lines, mark.row.head
        self.base, self.base_bytes = mark, file_end

    def _load(self, low: int = 0) -> None:
        """Read what comes before the landmark, at least everything after version `low`."""
        if not self._first:
            return
        assert self.reload is not None  # noqa: S101  # set whenever the log is held
        longer = self.reload(low)
        if self._has_all_keys:
            longer._keys, longer._has_all_keys = self._keys, True
        for item in self._lines:
            longer.add(item)
        names = ("_first", "_start", "_lines", "_headers", "_places", "_marks", "_keys", "_blobs", "_has_all_keys")
        for name in (*names, "base", "base_bytes"):
            setattr(self, name, getattr(longer, name))

    # ── what is asked for ──

    @property
    def lines(self) -> list[Indexed]:
        """Every line."""
        self._load()
        return self._lines

    @property
    def headers(self) -> list[Header]:
        """The header of every entry."""
        self._load()
        return self._headers

    @property
    def marks(self) -> list[Mark]:
        """Every checkpoint, in the order of the log."""
        self._load()
        return self._marks

    @property
    def blobs(self) -> set[bytes]:
        """Every large value that an entry refers to."""
        self._load()
        return self._blobs

    @property
    def keys(self) -> dict[str, int]:
        """The version of every key."""
        if not self._has_all_keys:
            self._load()
        return self._keys

    def unsaved(self) -> list[Indexed]:
        """The lines that the file does not have."""
        if self.saved < self._first:
            self._load()
        return self._lines[self.saved - self._first :]

    def header(self, version: int) -> Header:
        """The header of a version of this log's own."""
        self._reach(version - 1)
        return self._headers[version - self._start - 1]

    def _reach(self, version: int) -> None:
        """Have everything after a version in memory."""
        if version < self._start:
            self._load(version)

    def under(self, prefix: str, span: Span) -> list[Header]:
        """The headers, in order, of those of the log's own versions in a span whose key begins with a prefix."""
        versions = sorted(version for key, version in self.keys.items() if key.startswith(prefix))
        return [self.header(version) for version in versions if span.low < version <= span.high]

    def between(self, low: int, high: int) -> list[Header]:
        """The headers of the log's own versions after `low` up to `high`."""
        if high <= low:
            return []
        self._reach(low)
        return self._headers[max(low - self._start, 0) : max(high - self._start, 0)]

    def place(self, version: int) -> tuple[Indexed, int]:
        """Where the body of a version stands: the line, and its position in it."""
        self._reach(version - 1)
        line, position = self._places[version - self._start - 1]
        return self._lines[line], position

    def written_at(self, write_id: bytes, after: int) -> int | None:
        """The first version of a write among those after `after`."""
        newer = self.between(after, self.row.head)
        return next((header.version for header in newer if header.write_id == write_id), None)

    def base_at(self, version: int) -> Kept | None:
        """The base of exactly this version."""
        return next((kept for kept in self.records if kept.head.whole and kept.head.version == version), None)

    def newest_mark(self) -> str | None:
        """The id of the newest checkpoint in memory."""
        return self._marks[-1].id if self._marks else None

    def mark_at(self, entry: int) -> Mark | None:
        """The checkpoint that rides on an entry."""
        self._reach(entry - 1)
        return next((mark for mark in reversed(self._marks) if mark.entry == entry), None)


def load(disk: Disk, path: str, index: Index) -> int:
    """Read the lines that the file has beyond the index; return how many bytes of the log it knows as committed.

    Of a long file that is new to this process, only what comes behind its last landmark is read.
    """
    found = disk.stat(path)
    size = found.size if found else 0
    if size < index.saved_bytes:
        index.saved, index.saved_bytes = 0, 0  # somebody removed it: it is written again from memory
    file = disk.open(path) if size > index.saved_bytes else None
    if file is None:
        return index.end
    try:
        if index.is_empty and index.identity:
            _begin_late(file, size, index)
        return _take(file.read(index.saved_bytes, size - index.saved_bytes), index)
    finally:
        file.close()


def _begin_late(file: File, size: int, index: Index, low: int | None = None) -> None:
    """Begin at the last landmark of a file, or at the last one that has no version after `low` behind it."""
    reach = _TAIL
    while reach < size:
        data, start = file.read(size - reach, reach), size - reach
        at = data.rfind(_LANDMARK)
        while at >= 0:
            end = data.find(b"\n", at + 1) + 1
            if end and _begins(data[at + 1 : end], start + end, index, low):
                return
            at = data.rfind(_LANDMARK, 0, at)
        reach *= 4


def _begins(text: bytes, end: int, index: Index, low: int | None) -> bool:
    try:
        mark = checked(text, _LANDMARK_LINE).landmark
    except CannotReadLine:
        return False
    return (low is None or mark.row.head <= low) and index.begin_at(mark, end)


def read_back(disk: Disk, path: str, index: Index, low: int) -> Index | None:
    """The part of an index before what it has in memory, from the file, with every version after `low`.

    None when the file does not lead there.
    """
    mark, end = index.base, index.base_bytes
    file = disk.open(path) if mark else None
    if file is None or mark is None:
        return None
    try:
        found = Index(index.inode, index.edition, index.identity)
        _begin_late(file, end, found, low)
        _take(file.read(found.saved_bytes, end - found.saved_bytes), found)
        return found if leads_to(found, mark) else None
    finally:
        file.close()


def leads_to(found: Index, mark: Landmark) -> bool:
    """Whether an index ends where a landmark stands."""
    return (found.count, found.last, found.row) == (mark.lines, mark.last, mark.row)


def _take(data: bytes, index: Index) -> int:
    committed, intact = index.end, index.saved == index.count
    for text, item in _readable(data, index.edition):
        if index.is_empty and _is_foreign(item, index.identity):
            return index.end
        if isinstance(item, Landmark):
            if intact and leads_to(index, item):
                index.saved_bytes += len(text)
                index.set_landmark(item, index.saved_bytes)
            else:
                intact = False
            continue
        committed = max(committed, item.at + item.size if item else 0)
        intact = intact and item is not None and _added(index, item)
        if intact:
            index.saved += 1
            index.saved_bytes += len(text)
    return committed


def _readable(data: bytes, edition: int) -> Iterator[tuple[bytes, Indexed | Landmark | None]]:
    for text in data.splitlines(keepends=True):
        try:
            if text.startswith(_LANDMARK[1:]):
                yield text, checked(text, _LANDMARK_LINE).landmark
                continue
            item = checked(text, _INDEXED)
        except CannotReadLine:
            item = None
        yield text, item if item and item.edition == edition else None


def _is_foreign(item: Indexed | Landmark | None, identity: bytes) -> bool:
    """Whether this is the first line of the index of another log."""
    return isinstance(item, Indexed) and identity != b"" and item.line.identity not in (b"", identity)


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
    if index.saved == index.count:
        return
    try:
        _save(disk, path, index)
    except StorageError:
        index.saved, index.saved_bytes = 0, 0


def _save(disk: Disk, path: str, index: Index) -> None:
    lines = index.unsaved()
    file = disk.open(path, write=True, create=True)
    if file is None:
        return
    try:
        data = b"".join(written(line) for line in lines)
        end = index.saved_bytes + len(data)
        mark = _landmark(index, end)
        if mark is not None:
            text = written(LandmarkLine(mark))
            data, end = data + text, end + len(text)
        file.write(index.saved_bytes, data)
        index.saved, index.saved_bytes = index.count, end
        if mark is not None:
            index.set_landmark(mark, end)
        if file.stat().size > index.saved_bytes:
            file.truncate(index.saved_bytes)  # what a torn write left behind
    finally:
        file.close()


def _landmark(index: Index, end: int) -> Landmark | None:
    """A landmark, where enough was written since the one before: records make it longer, and then it comes later."""
    before = index.landmark_bytes if index.landmark and index.landmark.lines <= index.saved else 0
    far = end - before > _STRIDE + _PER_RECORD * (len(index.records) + len(index.rewinds))
    return index.make_landmark() if far else None


def tidy(disk: Disk, path: str, index: Index) -> int:
    """Cut off what the file has beyond the index, and return how many bytes that was."""
    file = disk.open(path, write=True) if index.saved == index.count else None
    if file is None:
        return 0
    try:
        excess = max(file.stat().size - index.saved_bytes, 0)
        if excess:
            file.truncate(index.saved_bytes)
        return excess
    finally:
        file.close()
