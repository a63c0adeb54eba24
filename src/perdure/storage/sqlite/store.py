"""The SQLite storage: opening, and the upgrade of its layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from perdure.core.errors import NotAStorageError, SchemaOutdatedError, SchemaTooNewError, StorageUnavailableError
from perdure.core.ports import Silence, Telemetry
from perdure.storage.contract import READS, SCHEMA, Migrate, Schema
from perdure.storage.sql import schema as layout
from perdure.storage.sql import statements as sql
from perdure.storage.sql.store import SqlStorage
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sqlite.connection import Connection
from perdure.storage.sqlite.ports import DirectPort, GroupPort

Mode = Literal["sync", "async"]
Synchronous = Literal["FULL", "NORMAL", "EXTRA"]


class SqliteStorage(SqlStorage):
    """A file in WAL mode with `synchronous=FULL`: an acknowledged write survives a kill and a power loss."""

    def __init__(
        self,
        path: str,
        *,
        mode: Mode,
        busy_timeout: float = 5.0,
        synchronous: Synchronous = "FULL",
        telemetry: Telemetry | None = None,
    ) -> None:
        self.path = path

        def connection() -> Connection:
            return Connection(path, busy_timeout=busy_timeout, synchronous=synchronous)

        port = DirectPort(connection) if mode == "sync" else GroupPort(connection, telemetry or Silence())
        super().__init__(port)

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        _check_place(self.path, migrate)
        found = await self._port.read(_schema)
        if found is not None and found.schema >= SCHEMA:
            return _checked(self.path, found)
        if migrate == "check":
            raise SchemaOutdatedError(self.path, f"schema {found.schema if found else 0}, this release writes {SCHEMA}")
        return _checked(self.path, await self._port.write(_upgrade))

    def migration(self) -> Sequence[str]:
        return layout.script()

    async def close(self) -> None:
        self._port.close()


def _check_place(path: str, migrate: Migrate) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise StorageUnavailableError(path, f"there is no folder {folder}")
    if migrate == "check" and not os.path.exists(path):
        raise SchemaOutdatedError(path, "there is no database yet")


async def _schema(tx: Transaction) -> Schema | None:
    if not await tx.rows(sql.HAS_META):
        return None
    values = {name: int(value) for name, value in await tx.rows(sql.META) if value.isdigit()}
    return Schema(schema=values["schema"], min_reader=values["min_reader"], min_writer=values["min_writer"])


async def _upgrade(tx: Transaction) -> Schema:
    """Run the missing steps. The write lock is held: of several processes one does it and the others find it done."""
    found = await _schema(tx)
    for step in layout.steps_after(found.schema if found else 0):
        for statement in layout.run_step(step):
            await tx.run(statement)
    upgraded = await _schema(tx)
    if upgraded is None:
        raise NotAStorageError("the database", "its layout could not be made")
    return upgraded


def _checked(path: str, schema: Schema) -> Schema:
    if schema.min_reader > SCHEMA or schema.min_writer > SCHEMA:
        needed = max(schema.min_reader, schema.min_writer)
        raise SchemaTooNewError(path, f"it needs a release that knows schema {needed}, this one knows {SCHEMA}")
    if schema.schema < READS:
        raise SchemaTooNewError(path, f"schema {schema.schema} is older than this release can read")
    return schema
