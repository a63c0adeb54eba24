"""One connection to a SQLite file, its transactions, and its errors in our words."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

import msgspec

from perdure.core.errors import (
    DamagedError,
    NotAStorageError,
    PerdureError,
    StorageBusyError,
    StorageDamagedError,
    StorageError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from perdure.storage.drive import drive, suspended
from perdure.storage.permissions import PRIVATE, make_database
from perdure.storage.ports import outcome
from perdure.storage.sql.rows import Row
from perdure.storage.sql.transactions import Job, T
from perdure.storage.sqlite.dialect import STATEMENTS
from perdure.storage.sqlite.words import OPTIMIZE


class FileBusyError(StorageBusyError):
    """Another process writes to the file for too long."""

    advice = "try again, or wait longer: ?busy_timeout=20 at the end of the address (seconds)"


_ERRORS: dict[int, type[StorageError | DamagedError]] = {
    sqlite3.SQLITE_BUSY: FileBusyError,
    sqlite3.SQLITE_LOCKED: FileBusyError,
    sqlite3.SQLITE_FULL: StorageFullError,
    sqlite3.SQLITE_READONLY: StorageReadOnlyError,
    sqlite3.SQLITE_PERM: StorageReadOnlyError,
    sqlite3.SQLITE_IOERR: StorageIOError,
    sqlite3.SQLITE_CANTOPEN: StorageUnavailableError,
    sqlite3.SQLITE_NOTADB: NotAStorageError,
    sqlite3.SQLITE_CORRUPT: StorageDamagedError,
    sqlite3.SQLITE_NOMEM: StorageIOError,
    sqlite3.SQLITE_TOOBIG: StorageFullError,
    sqlite3.SQLITE_CONSTRAINT: StorageDamagedError,
}
_FATAL = (StorageIOError, StorageFullError)
# What reading a row raises when its columns hold something else than they should.
UNREADABLE = (KeyError, AttributeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError)
BEGIN_WRITE = "BEGIN IMMEDIATE"
BEGIN_READ = "BEGIN"
PAGE = 8192  # bytes; five packed results of 1.5 KB fit into one, of 4 KB two
_AGAIN = 0.005  # seconds
_INHERITED: list[sqlite3.Connection] = []
Outcome = tuple[Any, BaseException | None]


def _use_wal(raw: sqlite3.Connection, patience: float) -> None:
    """Several that open a new file at one moment all want to change its mode, and SQLite does not let them wait."""
    end = monotonic() + patience
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= end:
                raise
        sleep(_AGAIN)


class Connection:
    """Opens lazily, and again after an input or output error: a failed sync is never retried on the same file."""

    def __init__(self, path: str, *, busy_timeout: float, synchronous: str, file_mode: int = PRIVATE) -> None:
        self.path = path
        self._file_mode = file_mode
        self.patience = busy_timeout
        self._never_waits = False
        self._synchronous = synchronous
        self._raw: sqlite3.Connection | None = None
        self._transaction: Any = None  # on it
        self._file: tuple[int, int] | None = None  # device and inode of the file, once it was opened
        self._waits = True  # for other processes, as a new connection does
        self._leaves_wal = False
        self._folder_is_synced = False  # with the files that opening made, or others before

    @property
    def is_open(self) -> bool:
        """Whether using it takes no opening first."""
        return self._raw is not None

    def raw(self) -> sqlite3.Connection:
        """The driver's connection."""
        if self._raw is None:
            self._raw = self._connect()
        return self._raw

    def _connect(self) -> sqlite3.Connection:
        # A file that was there is never made anew: an empty one would look like a store without threads.
        if self._file is None:
            self._make_file()
        host = "//" if self.path.startswith("/") else ""  # none; two slashes of the path itself would name one
        raw = sqlite3.connect(
            f"file:{host}{quote(self.path)}?mode=rw",
            uri=True,
            timeout=self.patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            raw.execute(f"PRAGMA page_size = {PAGE}")  # of a new file; one that is there keeps its own
            _use_wal(raw, self.patience)
            raw.execute(f"PRAGMA synchronous = {self._synchronous}")
            if self._leaves_wal:
                raw.execute("PRAGMA wal_autocheckpoint = 0")
            self._file = self._file or _identity(self.path)
            self._folder_is_synced, self._transaction = False, SqliteTransaction(raw)
            if self._never_waits:
                raw.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            raw.close()
            raise
        self._waits = True
        return raw

    def _make_file(self) -> None:
        # SQLite would make it readable for everybody. The -wal and the -shm get the mode that the database has.
        try:
            make_database(self.path, self._file_mode)
        except OSError as exc:
            if exc.errno == errno.ELOOP:
                raise StorageUnavailableError(self.path, exc.strerror or str(exc)) from exc
            # Anything else SQLite is about to say too, in its own words.

    def transact(self, job: Job[T], begin: str) -> T:
        """Run one job in a transaction of its own."""
        try:
            raw = self._raw or self.raw()
            self._check_file()
            if raw.in_transaction:
                self._roll_back()  # what a Ctrl-C left, that came while another one was handled
            raw.execute(begin)
            if not self._folder_is_synced and begin is BEGIN_WRITE:
                self._sync_folder()
            work = job(self._transaction)
            try:
                work.send(None)  # a job never waits
            except StopIteration as done:
                raw.execute("COMMIT")
                return done.value
            raise suspended(work)
        except BaseException as exc:
            raise self._undone(exc) from exc.__cause__

    def stage(self, jobs: Sequence[Job[Any]]) -> list[Outcome] | None:
        """Run several jobs in one transaction and leave it open for `commit`.

        None when that cannot be: another process writes now, or a job was refused after it had written something. Then
        nothing is open, and each job needs a transaction of its own.
        """
        try:
            raw = self.raw()
            if _identity(self.path) != self._file:
                return None
            self._roll_back()
            if self._waits:
                raw.execute("PRAGMA busy_timeout = 0")
                self._waits = False
            raw.execute(BEGIN_WRITE)
            if not self._folder_is_synced:
                self._sync_folder()
            outcomes = [_apart(raw, job) for job in jobs]
        except (sqlite3.Error, _WroteBeforeRefusal):
            self._roll_back()
            return None
        except BaseException:  # a Ctrl-C: nobody else could write while it is open
            self._roll_back()
            raise
        return outcomes

    def commit(self) -> None:
        """Make a staged transaction durable."""
        try:
            self.raw().execute("COMMIT")
        except BaseException as exc:
            raise self._undone(exc) from exc.__cause__

    def leave_wal(self) -> None:
        """Commits do not copy the WAL into the database any more: somebody else calls `copy_wal`."""
        self._leaves_wal = True

    def never_wait(self) -> None:
        """Once it is open, a transaction does not wait for other processes: it raises `StorageBusyError`."""
        self._never_waits = True

    def copy_wal(self) -> None:
        """Copy as much of the WAL as nobody reads into the database, so that its room is used again."""
        try:
            self.raw().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except BaseException as exc:
            raise self._undone(exc) from exc.__cause__

    def compact(self) -> None:
        """Write the file anew without its free pages. A kill leaves the old one or the new one."""
        try:
            raw = self.raw()
            self._check_file()
            raw.execute(OPTIMIZE)
            raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except BaseException as exc:
            raise self._undone(exc) from exc.__cause__

    def _check_file(self) -> None:
        """A file that was removed or replaced under an open store still takes writes, which nobody would ever find."""
        try:
            found = os.stat(self.path)
            is_there = (found.st_dev, found.st_ino) == self._file
        except OSError:
            is_there = _identity(self.path) == self._file  # says why it cannot be looked at
        if not is_there:
            self.close()
            raise StorageUnavailableError(self.path, "the database file was removed or replaced")

    def _sync_folder(self) -> None:
        """Make new files durable before the first commit. SQLite syncs the folder too, but goes on when that fails."""
        try:
            folder = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            raise StorageIOError(self.path, f"its folder cannot be synced ({exc})") from exc
        self._folder_is_synced = True

    def wait_for_others(self) -> None:
        """From here on a transaction waits while another process writes."""
        try:
            self.raw().execute(f"PRAGMA busy_timeout = {int(self.patience * 1000)}")
        except BaseException as exc:
            raise self._undone(exc) from exc.__cause__
        self._waits = True

    def _undone(self, exc: BaseException) -> BaseException:
        """Roll back, and return the error in our words. After an input or output error the file is opened anew."""
        self._roll_back()
        if isinstance(exc, UNREADABLE) and not isinstance(exc, PerdureError):
            return StorageDamagedError(self.path, f"a row cannot be read ({exc!r})")
        if not isinstance(exc, sqlite3.Error):
            return exc
        error = self._translation(exc)
        if isinstance(error, _FATAL):
            self.close()
        error.__cause__ = exc
        return error

    def _roll_back(self) -> None:
        """Undo what is open. A second Ctrl-C must not leave it: nobody else could write, and no transaction begin."""
        while self._raw is not None and self._raw.in_transaction:
            try:
                self._raw.execute("ROLLBACK")
            except KeyboardInterrupt:
                continue  # the first one is on its way to the caller
            except sqlite3.Error:
                return

    def _translation(self, exc: sqlite3.Error) -> Exception:
        code = getattr(exc, "sqlite_errorcode", None)
        known = _ERRORS.get(code & 0xFF) if code is not None else None
        reason = f"{exc} ({getattr(exc, 'sqlite_errorname', type(exc).__name__)})"
        if known is StorageUnavailableError and _is_denied(self.path):
            known = StorageReadOnlyError
        return (known or StorageIOError)(self.path, reason)

    def close(self) -> None:
        """Close the driver's connection; the next use opens a new one."""
        raw, self._raw = self._raw, None
        if raw is not None:
            with suppress(sqlite3.Error):
                raw.close()

    def forget(self) -> None:
        """Let go without closing: after os.fork the file belongs to the parent, and closing would drop its locks."""
        if self._raw is not None:
            _INHERITED.append(self._raw)  # dropping the last reference would close it
        self._raw = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StorageIOError(path, f"it cannot be looked at ({exc})") from exc
    return found.st_dev, found.st_ino


def _is_denied(path: str) -> bool:
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.isdir(folder) and not os.access(path if os.path.exists(path) else folder, os.W_OK)


class _WroteBeforeRefusal(Exception):
    """A job of a group has to be undone alone, which a shared transaction cannot."""


def _apart(raw: sqlite3.Connection, job: Job[Any]) -> Outcome:
    """Run one job of a group: its refusal is its own, a fault of the database is everybody's."""
    before = raw.total_changes
    value, error = outcome(lambda: drive(job(SqliteTransaction(raw))))
    if isinstance(error, (sqlite3.Error, *UNREADABLE)) and not isinstance(error, PerdureError):
        raise _WroteBeforeRefusal from error  # alone, its error is put into our words
    if error is not None and raw.total_changes != before:
        raise _WroteBeforeRefusal
    return value, error


class SqliteTransaction:
    """An open transaction. Its coroutines never wait."""

    __slots__ = ("_raw", "execute")
    sql = STATEMENTS

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.execute = raw.execute

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        return self.execute(sql, values).fetchall()

    async def run(self, sql: str, values: Row = ()) -> int:
        return self.execute(sql, values).rowcount

    async def fill(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        self._raw.executemany(self.sql.dialect.insert(table, columns), rows)

    async def moment(self, given: int) -> int:
        return given
