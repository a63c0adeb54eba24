"""The SQLite storage: opening, and the upgrade of its layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from perdure.core.errors import SchemaOutdatedError, StorageDamagedError, StorageError, StorageUnavailableError
from perdure.core.messages import Projected
from perdure.core.ports import Silence, Telemetry
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy, check
from perdure.core.writes import Appended, Write
from perdure.storage.contract import Migrate, Schema, Watch
from perdure.storage.permissions import PRIVATE
from perdure.storage.ports import PollingWatch
from perdure.storage.sql.messages import project
from perdure.storage.sql.rows import StoredThread
from perdure.storage.sql.schema import STEPS, SchemaStep, run_step
from perdure.storage.sql.setup import set_up
from perdure.storage.sql.store import SqlStorage
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.transfers import put_thread
from perdure.storage.sqlite.connection import Connection
from perdure.storage.sqlite.continuing import append
from perdure.storage.sqlite.dialect import DIALECT
from perdure.storage.sqlite.integrity import CHECKS
from perdure.storage.sqlite.ports import DirectPort, GroupPort
from perdure.storage.sqlite.words import HAS_FTS5

_MANY = 50  # lines that would hold up the event loop
Mode = Literal["sync", "async"]
Synchronous = Literal["FULL", "NORMAL", "EXTRA"]


class SqliteStorage(SqlStorage):
    """A file in WAL mode with `synchronous=FULL`: an acknowledged write survives a kill and a power loss."""

    packs_from = 1850  # of a page of 8 KB: four entries that are larger would take two
    packs_records_from = 1000
    _is_library_checked = False

    def __init__(
        self,
        path: str,
        *,
        mode: Mode,
        busy_timeout: float = 5.0,
        synchronous: Synchronous = "FULL",
        file_mode: int = PRIVATE,
        telemetry: Telemetry | None = None,
        steps: Sequence[SchemaStep] = STEPS,
    ) -> None:
        self.path = path
        self._steps = steps

        def connection() -> Connection:
            return Connection(path, busy_timeout=busy_timeout, synchronous=synchronous, file_mode=file_mode)

        port = DirectPort(connection) if mode == "sync" else GroupPort(connection, telemetry or Silence())
        self._write_long = port.write_long
        super().__init__(port, port)

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        _check_place(self.path, migrate)
        if not SqliteStorage._is_library_checked:
            await self._port.read(self._check_library)
            SqliteStorage._is_library_checked = True  # one library for the whole process
        return await set_up(self._port, self.path, migrate, self._steps)

    async def append(self, write: Write) -> Appended:
        known = self._known.get(write.key)
        appended, number = await self._port.write(lambda tx: append(tx, write, known))
        if write.key in self._known:
            self._known[write.key] = StoredThread(number, appended.row)
        else:
            self._remember(write.key, StoredThread(number, appended.row))
        return appended

    async def _check_library(self, tx: Transaction) -> None:
        if not await tx.rows(HAS_FTS5):
            raise StorageError(self.path, "messages are searched with FTS5, which this SQLite library does not have")

    async def project(self, made: Projected) -> bool:
        if len(made.rows) < _MANY:
            return await super().project(made)
        return await self._write_long(lambda tx: project(tx, made))

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        check(copy)
        return await self._write_long(lambda tx: put_thread(tx, copy))

    async def integrity(self) -> list[str]:
        found: list[str] = []
        for job in CHECKS:
            try:
                found += await self._write_long(job)
            except StorageDamagedError as exc:
                found.append(exc.reason)
        return found

    def migration(self) -> Sequence[str]:
        steps = [run_step(step, DIALECT) for step in self._steps]
        return [text for step in steps for text in ("BEGIN IMMEDIATE", *step, "COMMIT")]

    def compacting(self) -> str:
        return "writers wait while the file is written anew (VACUUM); it needs as much free disk as the file has"

    def watch(self, namespace: str) -> Watch:
        return PollingWatch(self._port.pause)


def files_of(path: str) -> list[str]:
    """The files of a database."""
    return [path, f"{path}-wal", f"{path}-shm"]


def _check_place(path: str, migrate: Migrate) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise StorageUnavailableError(path, f"there is no folder {folder}")
    if migrate == "check" and not os.path.exists(path):
        raise SchemaOutdatedError(path, "there is no database yet")
