"""The savers under test: LangGraph's own and ours, each with databases that can be opened again, here or elsewhere.

A saver is plugged in by two functions of an address, one to a `Database` and one for synchronous code, and a line in
`SAVERS`. The address is texts only, so that another process can be told of it.
"""

from __future__ import annotations

import copy
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from psycopg import sql
from psycopg.rows import dict_row
from redis import Redis

from perdure.storage.sql.schema import TABLES
from perdure.testing.langgraph import TYPES, Database
from perdure.testing.servers import require, shared_mariadb, shared_postgres, shared_redis
from tests.storage.mysql import connected

Address = tuple[str, ...]
_NUMBERS = itertools.count()
_HERE = "tests.adapters.langgraph.savers"
_FREE_POSTGRES, _FREE_MYSQL = list[str](), list[str]()
_FILLED = [each for each in TABLES if each != "meta"]
_NOT_THE_LAYOUT = "name NOT IN ('schema', 'min_reader', 'min_writer', 'user_id_type')"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of saver."""

    at: Callable[..., Database]
    sync: Callable[..., AbstractContextManager[Any]]
    fresh: Callable[[], Address]
    forget: Callable[..., None] = lambda *address: None
    ours: bool = False

    def make(self) -> Database:
        """An empty database."""
        address = self.fresh()
        again = None if self.fresh is nowhere else (f"{_HERE}:{self.at.__name__}", *address)
        return replace(self.at(*address), again=again, clear=lambda: self.forget(*address))

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A saver on an empty database, for synchronous code."""
        address = self.fresh()
        try:
            with self.sync(*address) as saver:
                yield saver
        finally:
            self.forget(*address)


# Places


def nowhere() -> Address:
    return ()


def a_file() -> Address:
    return (str(Path(tempfile.mkdtemp(prefix="savers-"), "agents.db")),)


def no_file(path: str) -> None:
    shutil.rmtree(Path(path).parent)


def a_postgres() -> Address:
    return (_FREE_POSTGRES.pop() if _FREE_POSTGRES else require(shared_postgres).database(_name()),)


def no_postgres(url: str, *_: str) -> None:
    """One with our layout alone is emptied for the next test: making one takes longer than most tests."""
    if _emptied(url):
        _FREE_POSTGRES.append(url)
    else:
        shared_postgres().drop(url.rpartition("/")[2].partition("?")[0])


def _emptied(url: str) -> bool:
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            if connection.execute(f"SELECT 1 {_TABLES} AND schemaname <> 'perdure'").fetchone():
                return False  # LangGraph's own
            connection.execute("SET lock_timeout = '2s'")  # of a process that was killed just now
            connection.execute(f"TRUNCATE {', '.join(f'perdure.{each}' for each in _FILLED)} RESTART IDENTITY")
            connection.execute(f"DELETE FROM perdure.meta WHERE {_NOT_THE_LAYOUT}")
    except psycopg.Error:
        return False
    return True


def a_mysql() -> Address:
    return (_FREE_MYSQL.pop() if _FREE_MYSQL else require(shared_mariadb).database(_name()),)


def no_mysql(url: str) -> None:
    try:
        with connected(url) as cursor:
            for each in _FILLED:
                cursor.execute(f"DELETE FROM perdure_{each}")
            cursor.execute(f"DELETE FROM perdure_meta WHERE {_NOT_THE_LAYOUT}")
        _FREE_MYSQL.append(url)
    except pymysql.Error:
        shared_mariadb().drop(url.rpartition("/")[2].partition("?")[0])


def a_hot_postgres() -> Address:
    return (*a_postgres(), require(shared_redis).url)


def _name() -> str:
    return f"savers_{os.getpid()}_{next(_NUMBERS)}"


# What is at rest


def files_of(path: str) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(Path(path).parent.iterdir()))


def pages_of(path: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        count, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return (count - free) * size


_TABLES = "FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"


def rows_of_postgres(url: str) -> bytes:
    with psycopg.connect(url, autocommit=True) as connection:
        names = connection.execute(f"SELECT schemaname, tablename {_TABLES}").fetchall()
        return b"".join(b"".join(_copied(connection, *name)) for name in names)


def _copied(connection: Any, schema: str, table: str) -> Iterator[bytes]:
    statement = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(schema, table))
    with connection.cursor().copy(statement) as rows:
        yield from (bytes(row) for row in rows)


def bytes_of_postgres(url: str) -> int:
    statement = f"SELECT sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)) {_TABLES}"
    with psycopg.connect(url, autocommit=True) as connection:
        return int(connection.execute(statement).fetchone()[0] or 0)


def rows_of_mysql(url: str) -> bytes:
    with connected(url) as cursor:
        cursor.execute("SHOW TABLES")
        found: list[bytes] = []
        for (table,) in cursor.fetchall():
            cursor.execute(f"SELECT * FROM `{table}`")
            found += [_as_bytes(value) for row in cursor.fetchall() for value in row]
    return b"\n".join(found)


def _as_bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode()


def keys_of_redis(url: str) -> bytes:
    with closing(Redis.from_url(url)) as redis:
        return b"\n".join(bytes(redis.dump(key) or b"") for key in redis.scan_iter())  # type: ignore[arg-type]


# LangGraph's own


def in_memory() -> Database:
    from langgraph.checkpoint.memory import InMemorySaver

    kept = InMemorySaver()

    @asynccontextmanager
    async def opened(serde: Any = None) -> AsyncIterator[Any]:
        kept.serde = serde or kept.serde
        yield kept

    return Database(open=opened)


@contextmanager
def in_memory_sync() -> Iterator[Any]:
    from langgraph.checkpoint.memory import InMemorySaver

    yield InMemorySaver()


@contextmanager
def sqlite_sync(path: str, serde: Any = None) -> Iterator[Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=serde)


def sqlite_only_sync(path: str) -> Database:
    return Database(open=_later(sqlite_sync, path), stored=lambda: files_of(path), size=lambda: pages_of(path))


def sqlite_async(path: str) -> Database:
    @asynccontextmanager
    async def opened(serde: Any = None) -> AsyncIterator[Any]:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with aiosqlite.connect(path) as connection:
            yield AsyncSqliteSaver(connection, serde=serde)

    return Database(open=opened, stored=lambda: files_of(path), size=lambda: pages_of(path))


@contextmanager
def postgres_sync(url: str, serde: Any = None) -> Iterator[Any]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row) as connection:
        saver = PostgresSaver(connection, serde=serde)  # type: ignore[arg-type]
        saver.setup()
        yield saver


def postgres_only_sync(url: str) -> Database:
    return Database(
        open=_later(postgres_sync, url), stored=lambda: rows_of_postgres(url), size=lambda: bytes_of_postgres(url)
    )


def postgres_async(url: str) -> Database:
    @asynccontextmanager
    async def opened(serde: Any = None) -> AsyncIterator[Any]:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        async with await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=0, row_factory=dict_row
        ) as connection:
            saver = AsyncPostgresSaver(connection, serde=serde)  # type: ignore[arg-type]
            await saver.setup()
            yield saver

    return Database(open=opened, stored=lambda: rows_of_postgres(url), size=lambda: bytes_of_postgres(url))


def _later(opened: Callable[..., AbstractContextManager[Any]], address: str) -> Any:
    @asynccontextmanager
    async def opens(serde: Any = None) -> AsyncIterator[Any]:
        with opened(address, serde) as saver:
            yield saver

    return opens


# Ours


def _open(url: str, serde: Any = None, **options: Any) -> Any:
    from perdure.adapters.langgraph import PerdureSaver

    given = {} if serde is None else {"serde": serde}
    return PerdureSaver.open(url, types=TYPES, **given, **options)


def perdure_in_memory() -> Database:
    """What is in memory is gone with its saver: the first one stays open, and the others share its store."""
    stack, kept = AsyncExitStack(), list[Any]()

    @asynccontextmanager
    async def opened(serde: Any = None) -> AsyncIterator[Any]:
        if not kept:
            kept.append(await stack.enter_async_context(_open("memory://", serde)))
        saver = copy.copy(kept[0])
        saver.serde = serde or saver.serde
        yield saver

    return Database(open=opened)


def perdure_in_memory_sync() -> Any:
    return _open("memory://")


def perdure_sqlite(path: str) -> Database:
    return Database(
        open=lambda serde=None: _open(f"sqlite:///{path}", serde),
        stored=lambda: files_of(path),
        size=lambda: pages_of(path),
    )


def perdure_sqlite_sync(path: str) -> Any:
    return _open(f"sqlite:///{path}")


def perdure_postgres(url: str) -> Database:
    return Database(
        open=lambda serde=None: _open(url, serde),
        stored=lambda: rows_of_postgres(url),
        size=lambda: bytes_of_postgres(url),
    )


def perdure_mysql(url: str) -> Database:
    return Database(
        open=lambda serde=None: _open(url, serde),
        stored=lambda: rows_of_mysql(url),
        size=lambda: len(rows_of_mysql(url)),
    )


def perdure_hot_postgres(url: str, redis: str) -> Database:
    return Database(
        open=lambda serde=None: _open(url, serde, hot=redis),
        stored=lambda: rows_of_postgres(url) + keys_of_redis(redis),
        size=lambda: bytes_of_postgres(url),
    )


def perdure_hot_postgres_sync(url: str, redis: str) -> Any:
    return _open(url, hot=redis)


THEIRS = {
    "InMemorySaver": Kind(at=in_memory, sync=in_memory_sync, fresh=nowhere),
    "SqliteSaver": Kind(at=sqlite_only_sync, sync=sqlite_sync, fresh=a_file, forget=no_file),
    "AsyncSqliteSaver": Kind(at=sqlite_async, sync=sqlite_sync, fresh=a_file, forget=no_file),
    "PostgresSaver": Kind(at=postgres_only_sync, sync=postgres_sync, fresh=a_postgres, forget=no_postgres),
    "AsyncPostgresSaver": Kind(at=postgres_async, sync=postgres_sync, fresh=a_postgres, forget=no_postgres),
}
OURS = {
    "perdure-memory": Kind(at=perdure_in_memory, sync=perdure_in_memory_sync, fresh=nowhere, ours=True),
    "perdure-sqlite": Kind(at=perdure_sqlite, sync=perdure_sqlite_sync, fresh=a_file, forget=no_file, ours=True),
    "perdure-postgresql": Kind(at=perdure_postgres, sync=_open, fresh=a_postgres, forget=no_postgres, ours=True),
    "perdure-mysql": Kind(at=perdure_mysql, sync=_open, fresh=a_mysql, forget=no_mysql, ours=True),
    "perdure-hot+postgresql": Kind(
        at=perdure_hot_postgres, sync=perdure_hot_postgres_sync, fresh=a_hot_postgres, forget=no_postgres, ours=True
    ),
}
SAVERS: dict[str, Kind] = THEIRS | OURS

# `make savers` looks at LangGraph's own with every check, and kills graphs on every kind of database.
EXAMINES_ALL = os.environ.get("PERDURE_EXAMINE") == "all"
EXAMINED = list(THEIRS) if EXAMINES_ALL else ["InMemorySaver"]
# Redis before PostgreSQL passes LangGraph's own suite and the contract of storages each time, all our checks there.
CHECKED = [name for name in OURS if EXAMINES_ALL or name != "perdure-hot+postgresql"]
