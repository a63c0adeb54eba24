"""One thread's log, held under its lock: one line is one write, and its sync is the commit.

What a line in the log means after a crash:

    the index knows it              it was committed; if it is bad or gone, the log is damaged
    last line, not whole            a write that died half-way; it is cut off
    last line, whole, not indexed   a write that died before it was acknowledged; it is made durable, then believed
    bad anywhere else               the log is damaged

A log that is written anew is another edition: its first line says which, and what an index knows of an earlier one
proves nothing.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from posixpath import basename, dirname, join
from weakref import ref

import msgspec

from perdure.core.errors import EntryDamagedError, StorageError, StorageUnavailableError
from perdure.core.ports import Telemetry
from perdure.core.threads import ThreadRow
from perdure.storage.file import files
from perdure.storage.file import index as indexes
from perdure.storage.file.contents import Contents
from perdure.storage.file.directory import LOG
from perdure.storage.file.disk import Disk, File
from perdure.storage.file.index import Index
from perdure.storage.file.leases import LeaseFile
from perdure.storage.file.lines import (
    CannotReadLine,
    Indexed,
    Lease,
    Line,
    checked,
    checksum,
    identified,
    lean,
    with_lease,
    written,
)
from perdure.storage.file.rewriting import Change, Piece, piece_of, write_anew
from perdure.storage.permissions import temporary_name

INDEX = "index.jsonl"
_LINE = msgspec.json.Decoder(Line)
_TAIL = len(b'00000000"}\n')
_BEGINNING = re.compile(rb'\{(?:"edition":(\d{1,10}),)?"identity":"([A-Za-z0-9+/]{43}=)",')
_GLANCE = 80


def shown(folder: str) -> str:
    """A folder in the words of an error, where nothing tells whose it is."""
    return f"{basename(dirname(folder))}/{basename(folder)}"


def _alive(held: Callable[[], Log | None]) -> Log:
    log = held()
    assert log is not None  # noqa: S101  # an index is asked while its log is held
    return log


class NeedsCare(Exception):
    """The log has something to mend, for which a shared lock is not enough."""


class Log:
    """A thread's log between taking its lock and giving it back."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        file: File,
        telemetry: Telemetry,
        writable: bool,
        marker: Callable[[], None] | None = None,
    ) -> None:
        self.folder = folder
        self.index = Index(0)
        self.kept = LeaseFile()
        self.lease = Lease()
        self.damage: EntryDamagedError | None = None  # behind the part that is intact, which is all there is to see
        self.is_marked = self.is_gone = False
        self._marker = marker
        self._disk = disk
        self._file = file
        self._telemetry = telemetry
        self._writable = writable

    @property
    def row(self) -> ThreadRow:
        """The directory line, with the newest lease."""
        return with_lease(self.index.row, self.lease)

    @property
    def contents(self) -> Contents:
        """The bodies."""
        return Contents(self._file, self.index)

    def mark(self) -> None:
        """Say in the directory, before anything is changed, that this thread is about to change."""
        if not self.is_marked and self._marker is not None:
            self._marker()
            self.is_marked = True

    def settle(self, kept: LeaseFile) -> None:
        """Take the lease from the log or from its own file, whichever is newer."""
        self.kept = kept
        self.lease = max(self.index.lease, kept.lease, key=lambda lease: lease.turn)

    def refresh(self, known: Index | None, believe: bool = False) -> None:
        """Bring the index up to the file; raise `NeedsCare` when that takes an exclusive lock.

        With `believe` nothing is mended: for a folder that nobody here may write.
        """
        found, (edition, identity) = self._file.stat(), self._beginning()
        # The number of an inode is used again: without the edition, one of two editions ago could pass for this one.
        same = known is not None and (known.inode, known.edition) == (found.inode, edition) and known.end <= found.size
        fits = known is not None and same and known.identity == identity and self._ends_as(known)
        self.index = known if known is not None and fits else Index(found.inode, edition, identity)
        # No cycle: an interrupted log has to be freed at once, since that is what gives its lock back.
        held: Callable[[], Log | None] = ref(self)
        self.index.reload = lambda low: _alive(held)._longer_index(low)
        committed = indexes.load(self._disk, self._path(INDEX), self.index)
        if max(self.index.end, committed) > found.size or not self._ends_as(self.index):
            raise self._lost(found.size)
        self._catch_up(found.size, committed, believe)
        if not self.index.is_empty and found.size and self.index.identity != identity:
            raise self._damaged("does not begin as the log of this thread did")

    def _beginning(self) -> tuple[int, bytes]:
        """The edition of the log and the digest of whose it is, from its first bytes."""
        found = _BEGINNING.match(self._file.read(0, _GLANCE))
        return (int(found.group(1) or 0), a2b_base64(found.group(2) or b"")) if found else (0, b"")

    def keep_intact(self, error: EntryDamagedError) -> None:
        """Of a damaged log, keep what comes before the damage in mind, and nothing else."""
        index = Index(self._file.stat().inode, self._beginning()[0])
        data, at = self._file.read(0, self._file.stat().size), 0
        for text in data.splitlines(keepends=True):
            item = self._line(at, text)
            try:
                if item is None or item.line.edition not in (0, index.edition):
                    break
                index.add(item)
            except CannotReadLine:
                break
            at += len(text)
        self.index, intact = index, index.row.head
        name = index.row.key.id or error.thread_id
        version = error.version if error.version <= intact else intact + 1
        self.damage = EntryDamagedError(name, version, error.reason, intact=intact or None)

    def _ends_as(self, index: Index) -> bool:
        """Whether the log still ends, where the index does, with the line that the index knows."""
        if index.last is None:
            return True
        return self._file.read(index.end - _TAIL, _TAIL) == index.last.sum.encode() + b'"}\n'

    def _longer_index(self, low: int) -> Index:
        """The index up to what it has in memory, with every version after `low`: from its file, else from the log."""
        found, mark = indexes.read_back(self._disk, self._path(INDEX), self.index, low), self.index.base
        if found is not None or mark is None:
            return found or Index(self.index.inode, self.index.edition, self.index.identity)
        self.index.saved, self.index.saved_bytes = 0, 0  # it is written again by who may
        found = Index(self.index.inode, self.index.edition, self.index.identity)
        good, torn = self._lines(self._file.read(0, mark.last.at + mark.last.size), 0, found)
        for item in good:
            self._add(item, found)
        if torn or not indexes.leads_to(found, mark):
            raise self._damaged("does not follow from the lines before")
        return found

    def _catch_up(self, size: int, committed: int, believe: bool) -> None:
        if size > self.index.end:
            self._read_on(size, committed, believe)
        if not believe and self.index.saved != self.index.count:
            self._needs_care()
            indexes.save(self._disk, self._path(INDEX), self.index)

    def _needs_care(self) -> None:
        if not self._writable:
            raise NeedsCare

    def _read_on(self, size: int, committed: int, believe: bool) -> None:
        """Take in the lines that the index does not know."""
        if not believe:
            self._needs_care()
        data = self._file.read(self.index.end, size - self.index.end)
        good, torn = self._lines(data, committed, self.index)
        if torn and not believe:
            self._cut(size - torn, torn)
        if good and not believe:
            self._make_durable(good[-1])
        for item in good:
            self._add(item, self.index)

    def _lines(self, data: bytes, committed: int, index: Index) -> tuple[list[Indexed], int]:
        """Split what follows on an index into whole lines and the number of bytes of a torn one at the end."""
        good: list[Indexed] = []
        at = index.end
        *texts, rest = data.split(b"\n")
        for number, text in enumerate(texts):
            item = self._line(at, text + b"\n")
            if item is None and number == len(texts) - 1 and not rest and b"\0" in text and at >= committed:
                return good, len(text) + 1  # lost sectors of a write that was never acknowledged
            if item is None:
                raise self._damaged("fails its checksum", ahead=sum(len(each.line.entries) for each in good))
            good.append(item)
            at += item.size
        if rest and at < committed:
            raise self._damaged("is cut short, although it had been committed")
        return good, len(rest)

    def _line(self, at: int, data: bytes) -> Indexed | None:
        try:
            line = checked(data, _LINE)
        except CannotReadLine:
            return None
        return Indexed(at, len(data), checksum(data), lean(line), self.index.edition)

    def _add(self, item: Indexed, index: Index) -> None:
        try:
            index.add(item)
        except CannotReadLine as exc:
            raise self._damaged(str(exc)) from exc

    def _cut(self, size: int, torn: int) -> None:
        self._file.truncate(size)
        self._file.sync()
        self._telemetry.count("perdure.file.torn_tails")
        self._telemetry.log("warning", "cut a write that had died half-way", folder=self.folder, bytes=torn)

    def _make_durable(self, last: Indexed) -> None:
        # Written again before it is synced: after a failed sync the system takes its copy for clean, and a second
        # sync alone would report success for bytes that never reached the disk.
        self._file.write(last.at, self._file.read(last.at, last.size))
        self._file.sync()
        self._sync_folders()

    def _sync_folders(self) -> None:
        self._disk.sync_folder(self.folder)
        self._disk.sync_folder(dirname(self.folder))

    def append(self, line: Line) -> None:
        """Commit one write; raise a `StorageError` when it is not known to be durable."""
        at = self.index.end
        line = line if at else identified(line)
        data = written(line)
        self.mark()
        try:
            self._file.write(at, data)
            self._file.sync()
            if at == 0:
                self._sync_folders()
        except StorageError:
            self._undo(at)
            raise
        self.index.add(Indexed(at, len(data), checksum(data), lean(line), self.index.edition))
        self.lease = line.lease or self.lease
        indexes.save(self._disk, self._path(INDEX), self.index)

    def rewrite(self, pieces: Iterable[Piece], edition: int, before: Callable[[], None] = lambda: None) -> None:
        """Commit many lines at once: the log is written anew beside itself, and then put in its own place.

        Appended one after the other, those before a crash would be believed without the rest. `before` is done just
        before the commit, and may have been in vain.
        """
        self.mark()
        beside = temporary_name(self._path(LOG))
        file = files.opened(self._disk, beside)
        try:
            file.lock(shared=False)  # the lock of the log from the moment it is one
            index = write_anew(file, pieces, edition)
            file.sync()
            before()
            self.index = Index(0)  # that of a file which is about to go
            if not self._disk.replace(beside, self._path(LOG)):
                raise StorageUnavailableError(self.folder, f"{beside} is gone")
        except BaseException:
            self._disk.remove(beside)
            file.close()
            raise
        self._file.close()
        self._file = file
        self._sync_folders()
        self.index = index
        self.settle(self.kept)
        indexes.save(self._disk, self._path(INDEX), self.index)

    def pieces(self, change: Change = lambda line: line) -> Iterator[Piece]:
        """Its lines as a change leaves them; those that stay as they are are copied to the byte."""
        for item in self.index.lines:
            changed = change(item.line)
            if changed == item.line:
                yield Piece(self._file.read(item.at, item.size), item.line)
            elif changed is not None and (whole := change(self.contents.line(item))):
                yield piece_of(whole)

    def cut_after(self, version: int) -> None:
        """Shorten the log to the line of `version`, once the index that knows more is gone."""
        first, *rest = self.index.lines  # the first one stays: it says whose log this is
        last = [first, *(item for item in rest if item.line.begins_at <= version)][-1]
        self._file.truncate(last.at + last.size)
        self._file.sync()
        self.index = Index(0)

    def _undo(self, size: int) -> None:
        """Take an unacknowledged line away, through another handle; if that fails too, the next one here decides."""
        self.index = Index(0)  # no longer the file's: it is read again at the next use
        with suppress(StorageError):
            file = self._disk.open(self._path(LOG), write=True)
            if file is not None:
                try:
                    file.truncate(size)
                    file.sync()
                finally:
                    file.close()

    def _lost(self, size: int) -> EntryDamagedError:
        """What to say when the log lost something that the index knows."""
        row = self.index.row
        kept = [line for line in self.index.lines[:-1] if line.at + line.size <= size]
        intact = max((header.version for line in kept for header in line.line.entries), default=0)
        name, reason = row.key.id or shown(self.folder), "was committed and is not whole any more"
        return EntryDamagedError(name, intact + 1, reason, intact=intact or None)

    def _damaged(self, reason: str, ahead: int = 0) -> EntryDamagedError:
        row = self.index.row
        intact = row.head + ahead
        return EntryDamagedError(row.key.id or shown(self.folder), intact + 1, reason, intact=intact or None)

    def close(self) -> None:
        """Give the lock back."""
        self._file.close()

    def _path(self, name: str) -> str:
        return join(self.folder, name)
