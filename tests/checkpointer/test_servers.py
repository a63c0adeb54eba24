"""What only servers can show: pools of one's own, types of user ids, and Redis, which comes and goes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg_pool
import pytest
from redis import Redis

from perdure.checkpointer import AgentState, MySQLCheckpointer, PgCheckpointer
from perdure.errors import InvalidIdError, InvalidInputError
from perdure.storage.hot import breaker
from perdure.testing.servers import RedisServer, require, shared_mariadb, shared_postgres
from tests.checkpointer.places import ALICE, PATIENT, said, texts


async def test_a_pool_of_asyncpg_serves_asynchronous_calls_and_stays_open(postgres: str) -> None:
    """S2.18."""
    pool = await asyncpg.create_pool(postgres, min_size=1, max_size=2)
    alone = PgCheckpointer(pg_pool=pool, namespace="pool")
    await alone.aput_checkpoint(ALICE, AgentState(), said("hello"))
    assert texts(await alone.alist_messages(ALICE, search="hello")) == ["hello"]
    for call in (lambda: alone.get_state(ALICE), lambda: alone.put_messages_soon(ALICE, said("never"))):
        with pytest.raises(InvalidInputError, match="postgres_dsn"):
            call()
    await alone.arelease()
    both = PgCheckpointer(postgres, pg_pool=pool, namespace="pool")  # what the pool cannot serve goes to the address
    assert both.get_state(ALICE) == await both.aget_state(ALICE) == AgentState()
    both.put_messages_soon(ALICE, said("soon"))
    await both.arelease()
    assert await pool.fetchval("SELECT 1") == 1
    last = PgCheckpointer(pg_pool=pool, namespace="pool", release_resources=True)
    assert texts(await last.alist_messages(ALICE)) == ["hello", "soon"]
    await last.arelease()
    with pytest.raises(asyncpg.InterfaceError, match="closed"):
        await pool.fetchval("SELECT 1")


async def test_a_pool_of_psycopg_serves_synchronous_calls(postgres: str) -> None:
    """S2.18."""
    with psycopg_pool.ConnectionPool(postgres, min_size=1, max_size=2, open=True) as pool:
        both = PgCheckpointer(postgres, pg_pool=pool, namespace="psycopg")
        both.put_state(ALICE, AgentState())
        assert await both.aget_state(ALICE) == AgentState()
        await both.arelease()
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize(("ids", "user", "wrong"), [("int", 7, 1 << 31), ("bigint", 1 << 40, "7")])
async def test_user_ids_are_of_the_type_that_was_chosen(kind: str, ids: Any, user: int, wrong: Any) -> None:
    """S2.15."""
    server, name = require(shared_postgres if kind == "postgres" else shared_mariadb), f"ids_{os.getpid()}_{ids}"
    cls: Any = PgCheckpointer if kind == "postgres" else MySQLCheckpointer
    async with cls(server.database(name), user_id_type=ids) as checkpointer:
        config = {"thread_id": 12, "user_id": user}
        await checkpointer.aput_checkpoint(config, AgentState(), said("hello"))
        await checkpointer.aput_state({"thread_id": "nobody's"}, AgentState())
        await checkpointer.aput_tool_result(config, "c", 1)
        (found,) = await checkpointer.alist_threads({"user_id": user})
        assert (found.thread_id, found.user_id) == ("12", user)
        assert [each.user for each in await checkpointer.asearch({"user_id": user}, "hello")] == [user]
        assert len(await checkpointer.alist_threads()) == 2
        assert await checkpointer.aget_tool_result({"thread_id": 12}, "c") == 1
        assert await checkpointer.alist_threads({"user_id": user + 1}) == []
        with pytest.raises(InvalidIdError):
            await checkpointer.aget_state({**config, "user_id": wrong})
    server.drop(name)


@pytest.fixture
def own_redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A Redis that may die, and is tried again soon after it did. It is not started yet."""
    monkeypatch.setattr(breaker, "FIRST", 0.001)
    monkeypatch.setattr(breaker, "LONGEST", 0.002)
    server = require(lambda: RedisServer(durable=False))
    yield server
    server.close()


async def test_every_key_in_redis_expires_and_names_its_thread(postgres: str, own_redis: RedisServer) -> None:
    """S2.13, S2.33."""
    url = f"{own_redis.start().url}?{PATIENT}"
    with Redis.from_url(own_redis.url) as raw:
        async with PgCheckpointer(postgres, url, cache_ttl=500, namespace="keys", state_history_limit=3) as one:
            for number in range(20):  # with snapshots, prunes, deletions, forks and values beside the threads
                state = AgentState(context=said(*(f"{number} {each} " + "x" * 500 for each in range(number))))
                await one.aput_checkpoint({**ALICE, "thread_id": f"conv_{number % 3}"}, state, said(str(number)))
                await one.alist_messages({**ALICE, "thread_id": f"conv_{number % 3}"}, search=str(number))
            await one.afork({**ALICE, "thread_id": "conv_0"}, "conv_fork")
            await one.aput_state({**ALICE, "thread_id": "conv_fork"}, AgentState(context=said("of the fork")))
            await one.aget_state({**ALICE, "thread_id": "conv_fork"})
            await one.aput_tool_result({**ALICE, "thread_id": "conv_0"}, "c", 1)
            await one.aput_cache_value("conv_cache", "k", 1)
            await one.adelete_message({**ALICE, "thread_id": "conv_0"}, "0")
            await one.aclean_thread({**ALICE, "thread_id": "conv_1"})
            one.get_state({**ALICE, "thread_id": "conv_2"})
        found: Any = {name.decode(): raw.pttl(name) for name in raw.scan_iter()}
        deleted: Any = {name: raw.get(name) for name in found if name.endswith(":conv_1")}
    # A deletion leaves tombstones alone: of the thread, and of what is kept beside it.
    assert all(":gone:" in name and len(value) < 100 for name, value in deleted.items()), deleted
    (index,) = [name for name in found if name.endswith(":used")]  # which threads were used when: of all of them
    threads = {name.rpartition(":")[2] for name in found if name != index and name not in deleted}
    assert {"conv_0", "conv_2", "conv_fork"} <= threads <= {"conv_0", "conv_2", "conv_fork", "conv_cache"}
    assert all(0 < life <= 500_000 for life in found.values()), found


async def test_redis_dies_and_comes_back_and_nobody_notices(
    postgres: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    """S2.32, S2.52: no error, and nothing old is read; also with what an old dump brings back."""
    url = f"redis://127.0.0.1:{own_redis.port}?{PATIENT}"
    turns = 0

    async def turn(writer: PgCheckpointer) -> None:
        nonlocal turns
        turns += 1
        state = await writer.aget_state(ALICE) or AgentState()
        assert state.execution_meta.step == turns - 1
        state.execution_meta.step = turns
        await writer.aput_checkpoint(ALICE, state, said(f"turn {turns}"))
        for _ in range(2):
            async with PgCheckpointer(postgres, url, namespace="redis") as reader:
                found = await reader.aget_state(ALICE)  # a cached read may be of before a write past Redis
                assert found is not None
                assert found.execution_meta.step == turns
                assert texts(await reader.alist_messages(ALICE, limit=1)) == [f"turn {turns}"]

    async with (
        PgCheckpointer(postgres, url, namespace="redis") as hot,
        PgCheckpointer(postgres, namespace="redis") as cold,
    ):
        await turn(hot)  # dead at the start
        own_redis.start()
        await turn(hot)
        await turn(hot)
        with Redis.from_url(own_redis.url) as raw:
            assert raw.keys("*:t") != []
            raw.save()
        old = tmp_path / "old.rdb"
        shutil.copy(own_redis.folder / "dump.rdb", old)
        await turn(cold)  # past Redis
        await turn(hot)
        own_redis.crash()
        await turn(hot)
        await turn(cold)
        shutil.copyfile(old, own_redis.folder / "dump.rdb")
        own_redis.start()
        await turn(hot)
        await turn(cold)
    assert turns == 9
