"""How PostgreSQL is reached: through a pooler, over pools of the caller's, with passwords that change, over TLS."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import pytest

from perdure import Perdure, sync
from perdure.core.errors import InvalidInputError, StorageClosedError, StorageUnavailableError
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.postgres.wires import Lender, PsycopgWire
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import THREAD, Scribe
from perdure.testing.servers import PgBouncer, PostgresServer, require

ELSEWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"  # so that only the pool that was handed in can have been used
GENEROUS = 30.0
MANY = 400  # saves within which a pooler has mixed up prepared statements


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False, tls=True)) as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    with require(lambda: PgBouncer(server.port, settings={"default_pool_size": "3"})) as pooler:
        yield pooler


@pytest.fixture
def database(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty database."""
    name = re.sub(r"\W", "_", request.node.name)[:60]
    server.database(name)
    yield name
    server.drop(name)


@pytest.fixture
def url(server: PostgresServer, database: str) -> str:
    return server.address(database)


@pytest.fixture
async def storage(pooler: PgBouncer, database: str) -> AsyncIterator[PostgresStorage]:
    """A storage behind the pooler; closed also after a failure, or its pool would hold up the end of the tests."""
    storage = PostgresStorage(pooler.address(database), mode="async")
    await storage.setup()
    yield storage
    await storage.close()


def test_threads_work_through_a_pooler(pooler: PgBouncer, database: str) -> None:
    with sync.Perdure.open(pooler.address(database)) as store:

        def work(number: int) -> object:
            thread = store.thread(f"t{number % 5}")
            thread.append("numbers", number)
            fork = store.thread(f"t{number % 5}").fork(to=f"f{number}")
            return number in fork.load()["numbers"], fork.delete()

        with ThreadPoolExecutor(5) as pool:
            assert set(pool.map(work, range(50))) == {(True, True)}
        found = sorted(number for name in range(5) for number in store.thread(f"t{name}").load()["numbers"])
        assert found == list(range(50))


async def test_tasks_work_through_a_pooler(pooler: PgBouncer, database: str) -> None:
    async with Perdure.open(pooler.address(database)) as store:

        async def work(number: int) -> object:
            thread = store.thread(f"t{number}")
            for turn in range(10):
                await thread.save({"turn": turn})
            fork = await thread.fork("@5", to=f"f{number}")
            return await thread.load(), await fork.load(), await fork.delete()

        answers = await asyncio.gather(*(work(number) for number in range(5)))
        assert answers == [({"turn": 9}, {"turn": 4}, True)] * 5


async def test_a_pooler_that_mixes_up_prepared_statements_is_found_out(storage: PostgresStorage) -> None:
    scribe, made = Scribe(storage, ManualClock()), 0
    while storage._port._pool.prepare and made < MANY:
        answers = await asyncio.gather(*(scribe.append() for _ in range(10)))
        made += len(answers)
    assert not storage._port._pool.prepare
    assert [entry.version for entry in await storage.entries(THREAD)] == list(range(1, made + 1))


@pytest.mark.parametrize("ours", [False, True])
async def test_no_two_connections_have_a_statement_of_the_same_name(url: str, ours: bool) -> None:
    """Behind a pooler, another client's statement of the same name would be run with our values, without an error."""
    names: set[str] = set()
    for _ in range(3):
        with psycopg.connect(url, autocommit=True) as connection:
            wire = PsycopgWire(connection, True, Lender(None, ours))
            for _ in range(8):  # what was seen a few times is prepared
                await wire.rows("SELECT $1::int", (1,))
            found = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
            names |= {name for (name,) in found}
    assert len(names) == 3


async def test_a_watch_through_a_pooler_says_look_in_time(storage: PostgresStorage) -> None:
    scribe = Scribe(storage, ManualClock())
    await scribe.append()
    lease = await storage.claim(THREAD, "me", until=scribe.clock.now() + 1, now=scribe.clock.now())
    watch = storage.watch("")
    assert await watch.wait(GENEROUS)
    await storage.release(THREAD, lease.epoch, wake_at=1)
    assert await watch.wait(GENEROUS)
    await watch.close()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=3, open=False) as pool:
        yield pool


@asynccontextmanager
async def of_asyncpg(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1, max_size=3) as pool:
        yield pool


@pytest.mark.parametrize("make", [psycopg_async, of_asyncpg])
async def test_a_pool_that_is_handed_in_is_used_and_stays_open(url: str, make: Callable[[str], Any]) -> None:
    async with make(url) as pool:
        async with Perdure.open(ELSEWHERE, pool=pool) as store:
            await asyncio.gather(*(store.thread(f"t{number}").append("a", number) for number in range(8)))
            await store.thread("t0").save({"a": [1], "large": "x" * 100_000})
            assert (await store.thread("t0").load())["a"] == [1]
            assert await (await store.thread("t0").fork(to="f")).delete()
        assert await answers(pool) == 1


@pytest.mark.parametrize("make", [psycopg_async, of_asyncpg])
async def test_a_pool_is_closed_with_the_store_if_asked(url: str, make: Callable[[str], Any]) -> None:
    async with make(url) as pool:
        async with Perdure.open(ELSEWHERE, pool=pool, close_pool=True) as store:
            await store.thread("t").append("a", 1)
        with pytest.raises((psycopg_pool.PoolClosed, asyncpg.InterfaceError)):
            await answers(pool)


async def test_saves_beside_a_close_end_at_once_and_no_connection_is_left(url: str) -> None:
    store = Perdure.open(url, pool_max=2)
    threads = [store.thread(f"t{n}") for n in range(6)]
    for thread in threads:
        await thread.save({"items": []})
    writers = [asyncio.create_task(_appending(thread)) for thread in threads]
    await asyncio.sleep(0.05)
    await store.close()
    async with asyncio.timeout(GENEROUS / 2):  # not as long as a server may take to answer
        assert set(await asyncio.gather(*writers)) == {StorageClosedError}
    assert await _connections(url) == 0


async def _appending(thread: Any) -> type[Exception]:
    while True:
        try:
            await thread.append("items", 1)
        except Exception as exc:
            return type(exc)


async def _connections(url: str) -> int:
    """How many others are connected to this database, once those that were closed are gone."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for _ in range(100):
            row = await (await connection.execute(query)).fetchone()
            if row == (0,):
                break
            await asyncio.sleep(0.05)
    return row[0] if row else -1


@pytest.mark.parametrize("close_pool", [True, False])
def test_a_synchronous_pool_that_is_handed_in_is_used(url: str, close_pool: bool) -> None:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=3, open=True) as pool:
        with sync.Perdure.open(ELSEWHERE, pool=pool, close_pool=close_pool) as store:
            with ThreadPoolExecutor(5) as threads:
                assert sorted(threads.map(lambda n: store.thread("t").append("a", n), range(10))) == list(range(1, 11))
            assert sorted(store.thread("t").load()["a"]) == list(range(10))
        assert pool.closed == close_pool


async def answers(pool: Any) -> object:
    """What the server says through a pool."""
    if isinstance(pool, psycopg_pool.AsyncConnectionPool):
        async with pool.connection() as connection:
            return (await (await connection.execute("SELECT 1")).fetchone() or (None,))[0]
    return await pool.fetchval("SELECT 1")


async def test_a_synchronous_store_refuses_pools_of_event_loops_and_names_another_way(url: str) -> None:
    async with of_asyncpg(url) as pool:
        with pytest.raises(InvalidInputError, match="postgresql://"):
            sync.Perdure.open(ELSEWHERE, pool=pool)
    async with psycopg_async(url) as pool:
        with pytest.raises(InvalidInputError, match="ConnectionPool"):
            sync.Perdure.open(ELSEWHERE, pool=pool)


def test_a_pool_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="psycopg or asyncpg pool"):
        Perdure.open(ELSEWHERE, pool=object())


class Passwords:
    """A role whose password and limit change, and a function that knows the password."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self._server, self._role = server, f"role_{secrets.token_hex(4)}"
        server.role(self._role, "first", database=database)
        server.sql(f'GRANT CREATE ON DATABASE "{database}" TO "{self._role}"')
        self.url = server.address(database, user=self._role)
        self.asked, self._newest = 0, "first"

    def rotate(self) -> None:
        """Another password; who is connected is sent away."""
        self._newest += "+"
        self._change(f"PASSWORD '{self._newest}'")

    def fill(self) -> None:
        """No more connections for the role; who is connected is sent away."""
        self._change("CONNECTION LIMIT 0")

    def _change(self, what: str) -> None:
        self._server.sql(f'ALTER ROLE "{self._role}" {what}')
        self._server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self._role}'")

    def __call__(self) -> str:
        self.asked += 1
        return self._newest

    async def later(self) -> str:
        return self()


def test_the_password_is_asked_for_every_new_connection(server: PostgresServer, database: str) -> None:
    passwords = Passwords(server, database)
    with sync.Perdure.open(passwords.url, password=passwords) as store:
        store.thread("t").append("a", 1)
        asked = passwords.asked
        passwords.rotate()
        assert store.thread("t").append("a", 2) == 2
        assert passwords.asked > asked


@pytest.mark.parametrize("kind", ["plain", "awaited"])
async def test_a_task_is_asked_for_the_password_too(server: PostgresServer, database: str, kind: str) -> None:
    passwords = Passwords(server, database)
    asking: Callable[[], str] | Callable[[], Awaitable[str]] = passwords if kind == "plain" else passwords.later
    async with Perdure.open(passwords.url, password=asking) as store:
        await store.thread("t").append("a", 1)
        passwords.rotate()
        assert await store.thread("t").append("a", 2) == 2


def test_a_wrong_password_is_told_without_the_password(server: PostgresServer, database: str) -> None:
    passwords = Passwords(server, database)
    with pytest.raises(StorageUnavailableError) as caught, sync.Perdure.open(passwords.url, password=lambda: "wrong!"):
        pass
    assert "wrong!" not in str(caught.value)


def test_a_server_that_lets_nobody_in_any_more_is_told_in_its_own_words(server: PostgresServer, database: str) -> None:
    passwords = Passwords(server, database)
    with sync.Perdure.open(passwords.url, password=passwords, retry_seconds=1) as store:
        store.thread("t").append("a", 1)
        passwords.fill()
        with pytest.raises(StorageUnavailableError, match="too many connections for role"):
            store.thread("t").append("a", 2)


async def test_a_task_is_told_the_words_of_the_server_too(server: PostgresServer, database: str) -> None:
    passwords = Passwords(server, database)
    async with Perdure.open(passwords.url, password=passwords, retry_seconds=1) as store:
        await store.thread("t").append("a", 1)
        passwords.fill()
        with pytest.raises(StorageUnavailableError, match="too many connections for role"):
            await store.thread("t").append("a", 2)


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_a_connection_can_be_made_to_use_tls(server: PostgresServer, url: str, mode: str) -> None:
    with sync.Perdure.open(f"{url}?sslmode={mode}&sslrootcert={server.certificate}") as store:
        store.thread("t").append("a", 1)
        encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = '{}'"
        assert server.sql(encrypted.format(url.rpartition("/")[2])) == "t"


def test_a_server_that_is_not_who_it_should_be_is_refused(server: PostgresServer, url: str) -> None:
    other = url.replace("127.0.0.1", "localhost")
    with (
        pytest.raises(StorageUnavailableError),
        sync.Perdure.open(f"{other}?sslmode=verify-full&sslrootcert={server.certificate}"),
    ):
        pass
