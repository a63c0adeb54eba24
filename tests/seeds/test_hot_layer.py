"""Redis in front of PostgreSQL, as Agentflow's two layers promise it."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis import Redis

from perdure.checkpointer import AgentState, PgCheckpointer
from perdure.sync import Perdure
from perdure.testing.proxy import FaultProxy
from perdure.testing.servers import RedisServer
from tests.seeds.places import IMPATIENT, PATIENT, locked, threads_in
from tests.storage.hot import HIT, MISS, Heard

STATE = {"messages": [{"role": "user", "content": "hi"}], "city": "Paris"}


def saved(postgres: str, hot: str | None = None, **options: float) -> None:
    with Perdure.open(postgres, hot=hot, **options) as store:  # type: ignore[arg-type]
        store.thread("t").save(STATE)


def test_a_state_is_read_from_redis_while_the_log_of_postgresql_cannot_be_read(postgres: str, hot: str) -> None:
    """S2.6, S2.31: Redis is the hot layer, and a state is read from it."""
    saved(postgres, hot)
    heard = Heard()
    with (
        Perdure.open(f"{postgres}?{IMPATIENT}", hot=hot, telemetry=heard) as store,
        locked(postgres, "perdure.entry, perdure.snapshot", "ACCESS EXCLUSIVE"),
    ):
        assert store.thread("t").load() == STATE
    assert heard.counts == {HIT: 1}


def test_everything_is_in_postgresql_when_redis_is_lost(postgres: str, hot: str, redis_server: RedisServer) -> None:
    """S2.7: PostgreSQL is the cold layer."""
    saved(postgres, hot)
    redis_server.crash()
    with Perdure.open(postgres) as store:
        thread = store.thread("t")
        assert (thread.load(), len(thread.history()), thread.messages()) == (STATE, 1, STATE["messages"])


def test_a_miss_falls_to_postgresql_and_fills_redis(postgres: str, hot: str, redis: Redis) -> None:
    """S2.32."""
    saved(postgres)
    heard = Heard()
    for _ in range(2):
        with Perdure.open(postgres, hot=hot, telemetry=heard) as store:
            assert store.thread("t").load() == STATE
    assert heard.counts == {MISS: 1, HIT: 1}
    assert threads_in(redis) == {"t"}


@pytest.mark.parametrize("comes_back", ["from a halt", "from a dump"])
def test_content_that_was_taken_back_while_redis_was_away_is_never_served_again(
    postgres: str, hot: str, redis: Redis, redis_server: RedisServer, comes_back: str
) -> None:
    """S2.33: a deleted message is gone from the log, whatever Redis still holds."""
    with Perdure.open(postgres, hot=hot) as writer:
        thread = writer.thread("t")
        for number in range(6):
            thread.add_messages({"role": "user", "content": f"secret {number}", "id": f"m{number}"})
        held = {name: redis.dump(name) for name in redis.keys("*")}
        if comes_back == "from a halt":
            redis_server.freeze()
        assert thread.delete_message("m1")
        if comes_back == "from a halt":
            redis_server.thaw()
    for name, value in held.items():
        if comes_back == "from a dump":
            redis.restore(name, 0, value, replace=True)
    with Perdure.open(postgres, hot=hot) as reader, Perdure.open(postgres) as plain:
        for after in (3, 5, 0, 3, 0):
            read = [store.thread("t").entries(after) for store in (reader, plain)]
            assert read[0] == read[1]
            assert b"secret 1" not in b"".join(entry.payload or b"" for entry in read[0])


def test_a_save_is_in_redis_at_once_and_in_postgresql_for_good(postgres: str, hot: str, redis: Redis) -> None:
    """S2.33: write-through, with a time to live."""
    heard = Heard()
    with Perdure.open(postgres, hot=hot) as writer, Perdure.open(postgres, hot=hot, telemetry=heard) as reader:
        writer.thread("t").save(STATE)
        assert reader.thread("t").load() == STATE
        assert heard.counts == {HIT: 1}
        assert all(redis.ttl(name) > 0 for name in redis.scan_iter())
        redis.flushall()
        with Perdure.open(postgres) as cold:
            assert cold.thread("t").load() == STATE


async def test_active_conversations_stay_hot_and_idle_ones_expire(postgres: str, hot: str, redis: Redis) -> None:
    """S2.34: reading is use too, also where the process remembers the state and asks Redis for nothing."""
    checkpointer = PgCheckpointer(postgres, hot, cache_ttl=2)
    configs = [{"thread_id": name, "user_id": "alice"} for name in ("active", "cached", "idle")]
    for config in configs:
        await checkpointer.aput_state(config, AgentState(context_summary=config["thread_id"]))
    ended = time.monotonic() + 3
    while time.monotonic() < ended:
        active, cached = await checkpointer.aget_state(configs[0]), await checkpointer.aget_state_cache(configs[1])
        assert active is not None
        assert cached is not None
        assert (active.summary, cached.summary) == ("active", "cached")
        await asyncio.sleep(0.05)
    assert threads_in(redis) == {"active", "cached"}
    await checkpointer.arelease()


async def test_more_connections_save_more_states_a_second(postgres: str) -> None:
    """S2.59: over a link of 20 ms, eight connections save at least three times as many states as one does."""
    server, seconds = urlsplit(postgres), dict[int, float]()
    with FaultProxy(server.port or 5432, server.hostname or "") as proxy:
        address = server._replace(netloc=f"{server.username}@127.0.0.1:{proxy.port}").geturl()
        for connections in (1, 8):
            proxy.heal()
            checkpointer = PgCheckpointer(address, pool_min=connections, pool_max=connections)
            configs = [{"thread_id": f"{connections} {number}", "user_id": "u"} for number in range(8)]
            states = [AgentState() for _ in configs]

            async def turn(checkpointer: PgCheckpointer = checkpointer, configs: Any = configs) -> None:
                await asyncio.gather(*map(checkpointer.aput_state, configs, states))  # noqa: B023

            await turn()
            proxy.delay(0.01)
            begun = time.perf_counter()
            for _ in range(6):
                await turn()
            seconds[connections] = time.perf_counter() - begun
            await checkpointer.arelease()
    assert seconds[1] / seconds[8] >= 3, seconds


def test_an_idle_thread_expires_while_one_that_is_written_stays_hot(postgres: str, hot: str, redis: Redis) -> None:
    with Perdure.open(postgres, hot=hot, cache_ttl=1) as store:
        store.thread("idle").save(STATE)
        active = store.thread("active")
        active.save(STATE)
        while "idle" in threads_in(redis):
            active.append("messages", "still here")
        assert threads_in(redis) == {"active"}
        assert store.thread("idle").load() == STATE


@pytest.mark.parametrize(("options", "seconds"), [({}, 86400), ({"cache_ttl": 3600}, 3600)])
def test_cached_threads_live_as_long_as_was_asked(
    postgres: str, hot: str, redis: Redis, options: dict[str, float], seconds: int
) -> None:
    """S2.13: `cache_ttl`, a day unless another is given."""
    saved(postgres, hot, **options)
    assert len(redis.keys()) == 4
    assert all(seconds - 600 < redis.ttl(name) <= seconds for name in redis.scan_iter())


def test_the_least_recently_used_thread_leaves_redis_first(postgres: str, hot: str, redis: Redis) -> None:
    """S2.14: `max_cached_threads` is read, and evicts by use."""
    with Perdure.open(postgres, hot=hot, max_cached_threads=2) as store:
        for name in ("first", "second", "first", "third"):
            store.thread(name).append("n", name)
        assert threads_in(redis) == {"first", "third"}
        assert store.thread("second").load() == {"n": ["second"]}


def test_redis_is_named_by_an_address_with_user_and_password(
    postgres: str, hot: str, redis: Redis, redis_server: RedisServer
) -> None:
    """S2.12: `redis_url`."""
    redis.acl_setuser("agent", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all"])
    place, heard = f"@{redis_server.host}:{redis_server.port}?{PATIENT}", {"secret": Heard(), "wrong": Heard()}
    saved(postgres, f"redis://agent:secret{place}")
    for password, counts in heard.items():
        with Perdure.open(postgres, hot=f"redis://agent:{password}{place}", telemetry=counts) as store:
            assert store.thread("t").load() == STATE
    assert (heard["secret"].counts[HIT], heard["wrong"].counts[HIT]) == (1, 0)


def test_a_store_has_a_database_of_redis_to_itself_or_shares_one(
    postgres: str, redis: Redis, redis_server: RedisServer
) -> None:
    """S2.42: `/1` is a database of its own; in a shared one, two stores stay apart."""
    own = f"{redis_server.address(1)}?{PATIENT}"
    with (
        Perdure.open(postgres, hot=own, schema="one") as one,
        Perdure.open(postgres, hot=own, schema="two") as two,
    ):
        one.thread("t").save({"in": "one"})
        two.thread("t").save({"in": "two"})
        assert redis.keys() == []
    heard = Heard()
    for schema in ("one", "two"):
        with Perdure.open(postgres, hot=own, schema=schema, telemetry=heard) as store:
            assert store.thread("t").load() == {"in": schema}
    assert heard.counts == {HIT: 2}


def test_a_caller_goes_from_cache_to_database_to_a_fresh_state(postgres: str, redis_server: RedisServer) -> None:
    """S2.52: Redis away is a warning, PostgreSQL away a `ConnectionError`."""
    heard, server = Heard(), urlsplit(postgres)
    with FaultProxy(server.port or 5432, server.hostname or "") as proxy:
        address = server._replace(netloc=f"{server.username}@127.0.0.1:{proxy.port}").geturl()
        with Perdure.open(address, hot=redis_server.url, telemetry=heard, retry_seconds=0) as store:

            def state() -> object:
                try:
                    return store.thread("t").load(default={})
                except ConnectionError:
                    return "fresh"

            assert state() == {}
            store.thread("t").save(STATE)
            redis_server.crash()
            with Perdure.open(address, hot=redis_server.url, telemetry=heard, retry_seconds=0) as other:
                assert other.thread("t").load() == STATE
            assert ("warning", "the hot layer is left alone") in heard.lines
            proxy.refuse()
            proxy.cut()
            assert state() == "fresh"
