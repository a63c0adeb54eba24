"""The storages under test: how each is opened, and how its layout is bent."""

from __future__ import annotations

import functools
import itertools
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from perdure.storage.contract import Schema, Storage
from perdure.storage.file.layout import MARKER
from perdure.storage.file.lines import written
from perdure.storage.file.store import FileStorage
from perdure.storage.memory import MemoryStorage
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.ports import InPlace, Worker
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.contract import Mode
from perdure.testing.servers import require, shared_mariadb, shared_postgres
from tests.storage.hot import Heard, hot
from tests.storage.mysql import run_mysql


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One kind of storage, in one mode, at one place."""

    open: Callable[[], Storage]
    set_schema: Callable[[Schema], None]
    forgets: bool = False
    clear: Callable[[], None] = lambda: None  # once everything is closed


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


def postgres(mode: Mode, folder: Path, schema: str = "") -> Backend:
    url, schema = require(postgres_url), schema or f"s{next(_NUMBERS)}"
    options = Options(schema=schema, server_time=False)
    return Backend(
        open=lambda: PostgresStorage(url, options, mode=mode),
        set_schema=lambda numbers: _bend_postgres(url, schema, numbers),
        clear=lambda: _run_postgres(url, f"DROP SCHEMA IF EXISTS {schema} CASCADE"),
    )


def mysql(mode: Mode, folder: Path, url: str = "") -> Backend:
    server, name = require(shared_mariadb), f"contract_{os.getpid()}_{next(_NUMBERS)}"
    url = url or server.database(name)
    return Backend(
        open=lambda: MysqlStorage(url, mode=mode, server_time=False),
        set_schema=lambda schema: _bend_mysql(url, schema),
        clear=lambda: server.drop(name),
    )


def _bend_mysql(url: str, schema: Schema) -> None:
    for name in ("schema", "min_reader", "min_writer"):
        run_mysql(url, f"UPDATE perdure_meta SET value = '{getattr(schema, name)}' WHERE name = '{name}'")


def behind_redis(inner: Backend, mode: Mode) -> Backend:
    return replace(inner, open=lambda: hot(inner.open(), mode, Heard()))


_NUMBERS = itertools.count()


@functools.cache
def postgres_url() -> str:
    return shared_postgres().database(f"contract_{os.getpid()}")


def _bend_postgres(url: str, place: str, schema: Schema) -> None:
    for name in ("schema", "min_reader", "min_writer"):
        _run_postgres(url, f"UPDATE {place}.meta SET value = '{getattr(schema, name)}' WHERE name = '{name}'")


def _run_postgres(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


BACKENDS: dict[str, Callable[[Mode, Path], Backend]] = {
    "memory": memory,
    "file": file,
    "sqlite": sqlite,
    "postgres": postgres,
    "mysql": mysql,
    "hot_sqlite": lambda mode, folder: behind_redis(sqlite(mode, folder), mode),
    "hot_postgres": lambda mode, folder: behind_redis(postgres(mode, folder), mode),
}
MODES: tuple[Mode, ...] = ("sync", "async")


def _no_layout(schema: Schema) -> None:
    raise AssertionError(f"nothing here could be at schema {schema.schema}")


def _bend_sqlite(path: str, schema: Schema) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("schema", "min_reader", "min_writer"):
            connection.execute("UPDATE perdure_meta SET value = ? WHERE name = ?", (str(getattr(schema, name)), name))


def _bend_file(path: str, schema: Schema) -> None:
    Path(path, MARKER).write_bytes(written(schema))
