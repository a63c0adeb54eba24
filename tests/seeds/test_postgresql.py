"""PostgreSQL under many processes, as Agentflow's checkpointer promises it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool
from redis import Redis

import perdure
from perdure.core.errors import InvalidIdError, VersionConflictError
from perdure.sync import Perdure
from perdure.testing.servers import PostgresServer, require
from tests.seeds.places import IMPATIENT, eventually, locked, rows, started

WRITES_AND_IS_KILLED = """
import os, signal, sys
from perdure.sync import Perdure
thread = Perdure.open(sys.argv[1]).thread("t")
for number in range(5):
    thread.append("numbers", number)
os.kill(os.getpid(), signal.SIGKILL)
"""
WRITES = """
import sys
from perdure.sync import Perdure
with Perdure.open(sys.argv[1]) as store:
    for number in range(10):
        store.thread("t").append("numbers", f"{sys.argv[2]}.{number}")
"""
TABLES = (
    "SELECT table_schema FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL that syncs every commit and may be crashed."""
    with require(PostgresServer) as server:
        yield server


def test_a_background_write_is_answered_before_postgresql_has_it(postgres: str) -> None:
    """S2.8: the background sync path."""
    address = f"{postgres}?{IMPATIENT}"
    with Perdure.open(address, durability="background") as store, Perdure.open(postgres) as other:
        thread = store.thread("t")
        thread.append("numbers", 1)
        with locked(postgres, "perdure.thread", "EXCLUSIVE"):
            assert thread.append("numbers", 2) == 2
            assert other.thread("t").load() == {"numbers": [1]}
        store.flush()
        assert other.thread("t").load() == {"numbers": [1, 2]}


def test_an_answered_write_outlives_a_kill_of_its_process(postgres: str) -> None:
    """S2.9: the immediate path."""
    assert started(WRITES_AND_IS_KILLED, postgres).wait() == -9
    with Perdure.open(postgres) as store:
        assert store.thread("t").load() == {"numbers": [0, 1, 2, 3, 4]}


def test_a_refused_write_leaves_nothing_and_every_state_can_be_rebuilt(postgres: str) -> None:
    """S2.10: transactional integrity and reliable reconstruction."""
    with Perdure.open(postgres) as store:
        thread = store.thread("t")
        for number in range(100):
            thread.save({"number": number, "text": "x" * 500 * (number % 7)})
        with pytest.raises(VersionConflictError):
            thread.update(set={"number": -1}, append={"list": [1]}, delete=["text"], expected=50)
        assert [entry.version for entry in thread.entries()] == list(range(1, 101))
    with psycopg.connect(postgres) as database:
        assert database.execute("DELETE FROM perdure.snapshot WHERE base = 0").rowcount > 0
    with Perdure.open(postgres) as store:
        found = [store.thread("t").load(f"@{version}") for version in range(1, 101)]
    assert found == [{"number": number, "text": "x" * 500 * (number % 7)} for number in range(100)]


def test_postgresql_is_named_by_its_address(server: PostgresServer) -> None:
    """S2.11: `postgres_dsn`, with user, password and libpq's own parameters."""
    server.database("dsn")
    address = server.role("writer", "p@ss", database="dsn")
    server.sql('GRANT CREATE ON DATABASE dsn TO "writer"')
    with Perdure.open(f"{address}?application_name=my-agents") as store:
        store.thread("t").append("numbers", 1)
        asked = "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name = 'my-agents'"
        assert server.sql(asked) == "writer"


@pytest.mark.parametrize(
    ("kind", "column", "user", "wrong"),
    [
        ("string", "text", "alice", 7),
        ("int", "integer", 2**31 - 1, 2**31),
        ("bigint", "bigint", 2**63 - 1, "alice"),
    ],
)
def test_the_type_of_user_ids_is_that_of_their_column(
    postgres: str, kind: Any, column: str, user: Any, wrong: Any
) -> None:
    """S2.15: `user_id_type`."""
    with Perdure.open(postgres, user_id_type=kind) as store:
        store.thread("t", user=user).append("numbers", 1)
        assert store.thread("t", user=user).info().user == store.thread("t", user=perdure.ANY_USER).info().user == user
        with pytest.raises(InvalidIdError):
            store.thread("t", user=wrong)
    asked = "SELECT data_type FROM information_schema.columns WHERE table_schema = 'perdure' AND table_name = 'thread'"
    assert rows(postgres, f"{asked} AND column_name = 'user_id'") == [(column,)]
    assert rows(postgres, "SELECT user_id FROM perdure.thread") == [(user,)]


async def test_closing_lets_go_of_every_connection(postgres: str, hot: str, redis: Redis) -> None:
    """S2.16, S2.20: `release_resources`, `arelease()`; a second call does nothing."""
    named = "SELECT pid FROM pg_stat_activity WHERE application_name = 'released'"
    store = perdure.Perdure.open(f"{postgres}?application_name=released", hot=hot)
    await asyncio.gather(*(store.thread(f"t{number}").append("numbers", 1) for number in range(4)))
    assert rows(postgres, named) != []
    assert len(redis.client_list()) > 1
    await store.close()
    await store.close()
    assert eventually(lambda: rows(postgres, named) == [])
    assert eventually(lambda: len(redis.client_list()) == 1)


def test_tables_are_in_the_schema_that_was_named(postgres: str) -> None:
    """S2.17: `schema="agent"`."""
    with Perdure.open(postgres, schema="agent") as store:
        store.thread("t").append("numbers", 1)
    assert set(rows(postgres, TABLES)) == {("agent",)}
    assert rows(postgres, "SELECT id FROM agent.thread") == [("t",)]


async def test_a_pool_of_the_application_is_enough(postgres: str) -> None:
    """S2.18: `pg_pool` alone, without an address; it stays open."""
    async with AsyncConnectionPool(postgres, min_size=1, max_size=2, open=False) as pool:
        async with perdure.Perdure.open("postgresql://", pool=pool) as store:
            await store.thread("t").append("numbers", 1)
        async with pool.connection() as connection:
            found = await (await connection.execute("SELECT id FROM perdure.thread")).fetchall()
    assert found == [("t",)]


async def test_opening_makes_the_schema_once(postgres: str) -> None:
    """S2.19: `asetup()`."""
    assert rows(postgres, TABLES) == []
    for number in range(2):
        async with perdure.Perdure.open(postgres) as store:
            made = rows(postgres, TABLES)
            assert await store.thread("t").append("numbers", number) == number + 1
    assert set(made) == {("perdure",)}
    assert rows(postgres, TABLES) == made


def test_a_thread_goes_on_after_program_and_server_were_restarted(server: PostgresServer) -> None:
    """S2.39."""
    url = server.database("restarts")
    assert started(WRITES_AND_IS_KILLED, url).wait() == -9
    server.stop()
    server.start()
    with Perdure.open(url) as store:
        assert store.thread("t").append("numbers", 5) == 6
        assert store.thread("t").load() == {"numbers": [0, 1, 2, 3, 4, 5]}


def test_writes_are_whole_isolated_and_outlive_a_crash_of_the_server(server: PostgresServer) -> None:
    """S2.40: ACID."""
    url = server.database("acid")
    with Perdure.open(url) as one, Perdure.open(url) as other:
        mine, theirs = one.thread("t"), other.thread("t")
        mine.save({"from": 100, "to": 0})
        assert theirs.load() == {"from": 100, "to": 0}
        mine.update(set={"from": 70, "to": 30})
        with pytest.raises(VersionConflictError):
            theirs.update(set={"from": 50, "to": 50})
        server.crash()
        server.start()
        assert theirs.load() == {"from": 70, "to": 30}
        assert [entry.version for entry in theirs.entries()] == [1, 2]


def test_processes_share_a_thread_and_lose_nothing(postgres: str) -> None:
    """S2.41: many processes, one database."""
    writers = [started(WRITES, postgres, str(number)) for number in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    with Perdure.open(postgres) as store:
        found = store.thread("t").load()["numbers"]
        assert [entry.version for entry in store.thread("t").entries()] == list(range(1, 41))
    assert sorted(found) == sorted(f"{writer}.{number}" for writer in range(4) for number in range(10))


def test_an_agent_with_few_rights_and_a_password_that_changes_works_over_tls() -> None:
    """S2.57: `sslmode=require`, rotation, least privilege."""
    with require(lambda: PostgresServer(durable=False, tls=True)) as server:
        with Perdure.open(server.database("agents")):
            pass
        server.role("agent", "first", database="agents")
        server.sql("GRANT USAGE ON SCHEMA perdure TO agent", "agents")
        server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA perdure TO agent", "agents")
        password = ["first"]
        address = f"{server.address('agents', user='agent')}?sslmode=require"
        with Perdure.open(address, migrate="check", password=lambda: password[0]) as store:
            store.thread("t").append("numbers", 1)
            password[0] = "second"
            server.sql("ALTER ROLE agent PASSWORD 'second'")
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'agent'")
            assert store.thread("t").append("numbers", 2) == 2
            encrypted = (
                "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'agent'"
            )
            assert server.sql(encrypted) == "t"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(server.address("agents", user="agent", password="second"), "DROP TABLE perdure.entry")
