"""`directory.jsonl`: a row for each thread, so that lists, timers and ids are looked up without opening any log.

It is derived, never synced, and only appended to. How it stays right:

- A writer that holds a thread's lock appends a *mark* (the folder's name alone) before it changes anything, and the row
  after the change. A process that dies in between leaves a mark without a row: the next reader opens that log itself.
- A reader that finds a mark whose writer is still at work takes the row before it: that write was not acknowledged yet.
- A kill in the middle of an append tears one line. Lines begin with a line feed, so that the next one stays whole. A
  bad line can be ignored: a torn mark means that nothing was changed after it, a torn row leaves its mark.
- A power loss may take any of these lines, but not what they describe: logs are synced before their rows are written.
  The file names the boot it was begun in. After another boot every thread is read once.
- Folders that somebody else brought or took away, as from a backup, are found by comparing the names in `threads` with
  the rows, whenever that folder changed. A row carries the stamps (inode, size, time) of the log and the lease it was
  read from; before it is listed, they are compared with the files.

Whoever appends, or writes the file anew without its old lines, holds the lock of the file for that moment and waits for
nothing else meanwhile: it is the last lock that is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from posixpath import basename, join

import msgspec

from perdure.core.errors import PerdureError, StorageError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.storage.file import files, leases
from perdure.storage.file.disk import Disk, File, Stat
from perdure.storage.file.lines import CannotReadLine, checked, written
from perdure.storage.permissions import temporary_name

NAME, LOG = "directory.jsonl", "log.jsonl"
_SPARE_LINES = 100  # lines beyond twice the rows, before the file is written anew
_GROWN = 1 << 16  # bytes of the file from which on writers look whether it can be shorter
_BATCH = 1 << 20  # bytes that are read at a time

Stamp = tuple[Stat | None, Stat | None]  # of a log and of its lease


class DirectoryLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark (neither row nor gone), a row, or that a folder is gone; in the first line the boot instead."""

    folder: str
    row: ThreadRow | None = None
    stamp: Stamp = (None, None)
    gone: bool = False
    boot: str = ""


class Known(msgspec.Struct, frozen=True):
    """A row, and of which files it was read."""

    row: ThreadRow
    stamp: Stamp


class Unreadable(msgspec.Struct, frozen=True):
    """A folder that cannot be read: it is tried again when its files change."""

    stamp: Stamp
    error: PerdureError
    row: ThreadRow | None = None  # as it was last


_LINE = msgspec.json.Decoder(DirectoryLine)


class Directory:
    """The rows of all threads, kept in memory and followed in the file."""

    def __init__(self, disk: Disk, root: str, place: str) -> None:
        self._disk = disk
        self._path = join(root, NAME)
        self._place = place
        self._grown = _GROWN
        self.unreadable: dict[str, Unreadable] = {}
        self._begin(0)

    def _begin(self, inode: int) -> None:
        self._inode = inode
        self._offset = self._lines = 0
        self._names_at: int | None = None  # when the names of the folders were compared last
        self._is_trusted = False
        self._rows: dict[str, Known] = {}
        self._order: list[tuple[int, str, str]] = []  # empty: to be made again
        self._timers: dict[str, int] = {}
        self._ids: dict[tuple[str, str], set[str]] = {}
        self._uids: dict[str, str] = {}
        self._empty: set[str] = set()  # folders without a thread
        self.marked: set[str] = set()  # folders whose rows are in doubt

    # ── what writers do ──

    def mark(self, folder: str) -> None:
        """Before a thread is changed, under its lock. Raises a `StorageError`: then nothing may be changed."""
        if self._append(DirectoryLine(basename(folder))) > self._grown:
            self._look_at_size()

    def put(self, folder: str, row: ThreadRow) -> None:
        """After a change, under the lock of the thread. What fails here is found by the mark."""
        name, stamp = basename(folder), self.stamp(basename(folder))
        self._appended(DirectoryLine(name, row, stamp))
        self._take_row(name, Known(row, stamp))

    def drop(self, folder: str) -> None:
        """After a thread is gone."""
        name = basename(folder)
        self._appended(DirectoryLine(name, gone=True))
        self._take_gone(name)
        if self._disk.is_folder(folder):
            self._empty.add(name)

    def _look_at_size(self) -> None:
        """A process that only writes never reads the file: now and then it does, to write it anew."""
        with suppress(StorageError):
            self.refresh()
            self.tidy()
            found = self._disk.stat(self._path)
            self._grown = max(_GROWN, 2 * found.size if found else 0)

    def stamp(self, name: str) -> Stamp:
        """How the files of a thread are now."""
        folder = join(self._place, name)
        return self._disk.stat(join(folder, LOG)), self._disk.stat(join(folder, leases.NAME))

    def _appended(self, line: DirectoryLine) -> None:
        with suppress(StorageError):
            self._append(line)

    def _append(self, line: DirectoryLine) -> int:
        """Append a line, and return how long the file was."""
        while True:
            file = files.opened(self._disk, self._path)
            try:
                file.lock(shared=False)
                found, now = file.stat(), self._disk.stat(self._path)
                if now is None or now.inode != found.inode:
                    continue  # it was written anew while we waited
                head = b"" if found.size else self._header()
                file.write(found.size, head + b"\n" + written(line))
                return found.size
            finally:
                file.close()

    def _header(self) -> bytes:
        return b"\n" + written(DirectoryLine("", boot=self._disk.boot()))

    # ── what readers do ──

    def refresh(self) -> None:
        """Take in what was appended, and doubt what no longer fits the folders."""
        file = self._disk.open(self._path)
        if file is None:
            self._begin(0)
            return self._compare_names()
        try:
            found = file.stat()
            if found.inode != self._inode or found.size < self._offset:
                self._begin(found.inode)
            self._read_on(file, found.size)
        finally:
            file.close()
        self._doubt_after_boot()
        self._compare_names()

    def _read_on(self, file: File, size: int) -> None:
        while self._offset < size:
            data = file.read(self._offset, min(_BATCH, size - self._offset))
            end = data.rfind(b"\n") + 1
            if not end:
                return  # one that is being written
            for text in data[:end].split(b"\n"):
                if text:
                    self._take(text + b"\n")
            self._offset += end

    def _take(self, text: bytes) -> None:
        try:
            line = checked(text, _LINE)
        except CannotReadLine:
            return
        self._lines += 1
        if line.boot:
            self._is_trusted = self._lines == 1 and line.boot == self._disk.boot()
        elif line.row is not None:
            self._take_row(line.folder, Known(line.row, line.stamp))
        elif line.gone:
            self._take_gone(line.folder)
        else:
            self.marked.add(line.folder)

    def _take_row(self, name: str, known: Known) -> None:
        self._forget(name)
        row, at = known.row, leases.due_at(known.row)
        self._rows[name] = known
        self._ids.setdefault((row.key.namespace, row.key.id), set()).add(name)
        self._uids[row.uid] = name
        if at is not None:
            self._timers[name] = at
        self._empty.discard(name)
        self.marked.discard(name)
        self.unreadable.pop(name, None)

    def _take_gone(self, name: str) -> None:
        self._forget(name)
        self.marked.discard(name)
        self.unreadable.pop(name, None)

    def _forget(self, name: str) -> None:
        known, self._order = self._rows.pop(name, None), []
        self._timers.pop(name, None)
        if known is not None:
            key = known.row.key
            names = self._ids.get((key.namespace, key.id), set())
            names.discard(name)
            if not names:
                self._ids.pop((key.namespace, key.id), None)
            self._uids.pop(known.row.uid, None)

    def _doubt_after_boot(self) -> None:
        if not self._is_trusted:
            self._is_trusted = True
            self.marked.update(self._rows)
            self._empty.clear()

    def _compare_names(self) -> None:
        found = self._disk.stat(self._place)
        if found is None or found.mtime == self._names_at:
            return
        names = set(self._disk.names(self._place))
        self._names_at = found.mtime
        self._empty &= names
        self.marked.update(names - self._rows.keys() - self._empty)
        self.marked.update(self._rows.keys() - names)

    def is_as_it_was(self, name: str) -> bool:
        """Whether the files of a thread are those that its row, or its failure, was read from."""
        known = self._rows.get(name) or self.unreadable.get(name)
        if known is None:
            return False
        folder, (log, lease) = f"{self._place}/{name}", known.stamp
        # A lease is made by a writer, who leaves a mark: only one that is there can be changed without.
        return self._disk.stat(f"{folder}/{LOG}") == log and (
            lease is None or self._disk.stat(f"{folder}/{leases.NAME}") == lease
        )

    def set_unreadable(self, name: str, error: PerdureError) -> bool:
        """A thread cannot be read: no list has it. False when that was known already."""
        known, stamp = self._rows.get(name), self.stamp(name)
        before = self.unreadable.get(name)
        row = known.row if known else before.row if before else None
        self._forget(name)
        self.marked.discard(name)
        self._empty.discard(name)
        self.unreadable[name] = Unreadable(stamp, error, row)
        return before is None or before.stamp != stamp

    # ── what is known ──

    def newest_first(self) -> Iterator[tuple[str, ThreadRow]]:
        """Every row, with the name of its folder, in the order of lists."""
        if not self._order:
            moments = ((known.row.updated, known.row.uid, name) for name, known in self._rows.items())
            self._order = sorted(moments, reverse=True)
        return ((name, self._rows[name].row) for _, _, name in self._order)

    def row(self, name: str) -> ThreadRow | None:
        """The row of a folder."""
        known = self._rows.get(name)
        return known.row if known else None

    def due(self, until: int) -> list[str]:
        """The folders of threads whose lease or timer runs out until then."""
        return [name for name, at in self._timers.items() if at <= until]

    def by_id(self, namespace: str, thread_id: str) -> list[str]:
        """The folders of the threads of an id, whoever owns them."""
        return sorted(self._ids.get((namespace, thread_id), ()))

    def by_uid(self, uid: str) -> str | None:
        """The folder of a thread."""
        return self._uids.get(uid)

    def thread_keys(self) -> Iterable[ThreadKey]:
        """Whose threads there are."""
        return (known.row.key for known in self._rows.values())

    def tidy(self) -> None:
        """Write the file anew where most of its lines are old; a failure costs time later, nothing else."""
        if self._lines > 2 * len(self._rows) + _SPARE_LINES:
            with suppress(StorageError):
                self._write_anew()

    def rewrite(self) -> int:
        """Write the file anew without its old lines, and return how many bytes that gave back."""
        self.refresh()
        before = self._disk.stat(self._path)
        with suppress(StorageError):
            self._write_anew()
        after = self._disk.stat(self._path)
        return max(before.size - after.size, 0) if before and after else 0

    def _write_anew(self) -> None:
        file = self._disk.open(self._path, write=True)
        if file is None:
            return
        beside = temporary_name(self._path)
        try:
            file.lock(shared=False)
            found, now = file.stat(), self._disk.stat(self._path)
            if now is None or now.inode != found.inode or found.inode != self._inode:
                return
            self._read_on(file, found.size)
            new = files.opened(self._disk, beside)
            try:
                new.write(0, b"".join(self._anew()))
            finally:
                new.close()
            self._disk.replace(beside, self._path)
        except BaseException:
            self._disk.remove(beside)
            raise
        finally:
            file.close()

    def _anew(self) -> Iterator[bytes]:
        lines = (DirectoryLine(name, known.row, known.stamp) for name, known in self._rows.items())
        yield self._header()
        for line in chain(lines, map(DirectoryLine, (*self.marked, *self.unreadable))):
            yield b"\n" + written(line)
