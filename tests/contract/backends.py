"""The storages under test: how each is opened, and how its layout is bent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perdure.storage.contract import Schema, Storage
from perdure.storage.file.layout import MARKER
from perdure.storage.file.store import FileStorage
from perdure.storage.memory import MemoryStorage
from perdure.storage.ports import InPlace, Worker
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.contract import Mode


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One kind of storage, in one mode, at one place."""

    open: Callable[[], Storage]
    set_schema: Callable[[Schema], None]
    forgets: bool = False


def memory(mode: Mode, folder: Path) -> Backend:
    storage = MemoryStorage()
    return Backend(open=lambda: storage, set_schema=_no_layout, forgets=True)


def sqlite(mode: Mode, folder: Path) -> Backend:
    path = str(folder / "agents.db")
    return Backend(open=lambda: SqliteStorage(path, mode=mode), set_schema=lambda schema: _bend_sqlite(path, schema))


def file(mode: Mode, folder: Path) -> Backend:
    path = str(folder / "place")
    port = InPlace if mode == "sync" else Worker
    return Backend(open=lambda: FileStorage(path, port=port(path)), set_schema=lambda schema: _bend_file(path, schema))


BACKENDS: dict[str, Callable[[Mode, Path], Backend]] = {"memory": memory, "file": file, "sqlite": sqlite}
MODES: tuple[Mode, ...] = ("sync", "async")


def _no_layout(schema: Schema) -> None:
    raise AssertionError(f"nothing here could be at schema {schema.schema}")


def _bend_sqlite(path: str, schema: Schema) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("schema", "min_reader", "min_writer"):
            connection.execute("UPDATE perdure_meta SET value = ? WHERE name = ?", (str(getattr(schema, name)), name))


def _bend_file(path: str, schema: Schema) -> None:
    numbers = {name: getattr(schema, name) for name in ("schema", "min_reader", "min_writer")}
    Path(path, MARKER).write_text(json.dumps(numbers))
