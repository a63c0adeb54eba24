"""One connection to a SQLite file, its transactions, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from perdure.core.errors import (
    DamagedError,
    NotAStorageError,
    StorageBusyError,
    StorageDamagedError,
    StorageError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from perdure.storage.drive import drive
from perdure.storage.sql.rows import Row
from perdure.storage.sql.transactions import Job, T

_ERRORS: dict[int, type[StorageError | DamagedError]] = {
    sqlite3.SQLITE_BUSY: StorageBusyError,
    sqlite3.SQLITE_LOCKED: StorageBusyError,
    sqlite3.SQLITE_FULL: StorageFullError,
    sqlite3.SQLITE_READONLY: StorageReadOnlyError,
    sqlite3.SQLITE_PERM: StorageReadOnlyError,
    sqlite3.SQLITE_IOERR: StorageIOError,
    sqlite3.SQLITE_CANTOPEN: StorageUnavailableError,
    sqlite3.SQLITE_NOTADB: NotAStorageError,
    sqlite3.SQLITE_CORRUPT: StorageDamagedError,
    sqlite3.SQLITE_NOMEM: StorageIOError,
    sqlite3.SQLITE_TOOBIG: StorageFullError,
}
_FATAL = (StorageIOError, StorageFullError)


class Connection:
    """Opens lazily, and again after an input or output error: a failed sync is never retried on the same file."""

    def __init__(self, path: str, *, busy_timeout: float, synchronous: str) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._raw: sqlite3.Connection | None = None

    def raw(self) -> sqlite3.Connection:
        """The driver's connection."""
        if self._raw is None:
            self._raw = self._connect()
        return self._raw

    def _connect(self) -> sqlite3.Connection:
        raw = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            raw.execute("PRAGMA journal_mode = WAL").fetchone()
            raw.execute(f"PRAGMA synchronous = {self._synchronous}")
        except BaseException:
            raw.close()
            raise
        return raw

    def transact(self, job: Job[T], begin: str) -> T:
        """Run one job in a transaction of its own."""
        return self.commit(lambda raw: drive(job(SqliteTransaction(raw))), begin)

    def commit(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        """Run work in a transaction, and turn the driver's errors into ours."""
        try:
            raw = self.raw()
            raw.execute(begin)
            try:
                answer = work(raw)
                raw.execute("COMMIT")
            except BaseException:
                roll_back(raw)
                raise
            return answer
        except sqlite3.Error as exc:
            error = self._translation(exc)
            if isinstance(error, _FATAL):
                self.close()
            raise error from exc

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
        self._raw = None


def _is_denied(path: str) -> bool:
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.isdir(folder) and not os.access(path if os.path.exists(path) else folder, os.W_OK)


def roll_back(raw: sqlite3.Connection) -> None:
    """Undo; an error here adds nothing to the one that is being raised."""
    with suppress(sqlite3.Error):
        if raw.in_transaction:
            raw.execute("ROLLBACK")


class SqliteTransaction:
    """An open transaction. Its coroutines never wait."""

    __slots__ = ("_execute",)

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._execute = raw.execute

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        return self._execute(sql, values).fetchall()

    async def run(self, sql: str, values: Row = ()) -> int:
        return self._execute(sql, values).rowcount
