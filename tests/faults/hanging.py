"""Servers that hang, and every way in which a storage speaks to them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg_pool
import pytest

from perdure.core.ports import Silence
from perdure.storage.drive import drive
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.contract.running import Run
from perdure.testing.scribe import Scribe
from perdure.testing.servers import MariadbServer, PostgresServer, require

SHORT = 0.3  # seconds that an answer may take here
BOUND = 60.0  # these machines are shared: what is promised ends within a second or six
WAYS = ["psycopg", "psycopg-async", "given", "given-async", "asyncpg", "pymysql", "asyncmy"]
Hanging = PostgresServer | MariadbServer


class Heard(Silence):
    """Counts, and keeps what was logged."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.logged: list[tuple[str, str]] = []

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        self.counts[name] += value

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.logged.append((level, message))


class Scene:
    """A storage that was set up over one of the ways, and somebody who writes to it."""

    def __init__(self, storage: Any, run: Run, heard: Heard) -> None:
        self.storage, self.run, self.heard = storage, run, heard
        self.scribe = Scribe(storage, ManualClock())


@contextmanager
def opened(way: str, url: str, **options: Any) -> Iterator[Scene]:
    """Open a storage at `url`; a pool that is handed in is made and closed here."""
    heard, given = Heard(), {"call_timeout": SHORT, "retry_seconds": 0.5} | options
    with running(way) as run:
        pool, end = run(handed_in(way, url))
        if way in ("pymysql", "asyncmy"):
            storage: Any = MysqlStorage(url, mode=mode_of(way), telemetry=heard, connect_timeout=0.5, **given)
        else:
            storage = PostgresStorage(url, Options(pool=pool, **given), mode=mode_of(way), telemetry=heard)
        run(storage.setup())
        yield Scene(storage, run, heard)
        run(storage.close())
        run(end())


def mode_of(way: str) -> Mode:
    return "sync" if way in ("psycopg", "given", "pymysql") else "async"


@contextmanager
def running(way: str) -> Iterator[Run]:
    if mode_of(way) == "sync":
        yield drive
    else:
        with asyncio.Runner() as runner:
            yield runner.run


async def handed_in(way: str, url: str) -> tuple[Any, Callable[[], Any]]:
    """The caller's own pool, where the way is that, and what closes it."""
    if way == "given":
        pool: Any = psycopg_pool.ConnectionPool(url, min_size=2, max_size=3, open=True)
        return pool, lambda: _in_place(pool.close)
    if way == "given-async":
        pool = psycopg_pool.AsyncConnectionPool(url, min_size=2, max_size=3, open=False)
        await pool.open()
        return pool, pool.close
    if way == "asyncpg":
        pool = await asyncpg.create_pool(url, min_size=2, max_size=3)
        return pool, pool.close
    return None, _nothing


async def _in_place(call: Callable[[], object]) -> None:
    call()


async def _nothing() -> None: ...


@contextmanager
def frozen(server: Hanging) -> Iterator[None]:
    """The server hangs meanwhile; connections stay open, and the kernel acknowledges."""
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False)) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    with require(lambda: MariadbServer(durable=False)) as server:
        yield server


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def server(way: str, request: pytest.FixtureRequest) -> Hanging:
    return request.getfixturevalue("mariadb" if way in ("pymysql", "asyncmy") else "postgres")


@pytest.fixture
def url(server: Hanging, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W", "_", request.node.name)[:60]
    yield server.database(name)
    server.drop(name)
