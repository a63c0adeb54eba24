"""Reads that Redis answers alone: how old they may be, what they never serve, and what is written from them."""

from __future__ import annotations

import asyncio
import copy
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from redis import Redis

import perdure
from perdure.app.handle import LastRead
from perdure.checkpointer import AgentState, SQLiteCheckpointer
from perdure.core.errors import InvalidInputError, NotFoundError, VersionConflictError
from perdure.storage.hot import cache
from perdure.sync import Perdure, Thread
from perdure.testing.clock import ManualClock
from perdure.testing.proxy import FaultProxy
from perdure.testing.servers import RedisServer
from tests.seeds.places import IMPATIENT, PATIENT, locked, started

Open = Callable[..., Perdure]


@pytest.fixture
def opened(url: str, hot: str) -> Iterator[Open]:
    """Stores on one database and one Redis; each knows nothing of what the others did."""
    stores: list[Perdure] = []

    def make(**options: Any) -> Perdure:
        stores.append(Perdure.open(url, **{"hot": hot, **options}))
        return stores[-1]

    yield make
    for each in stores:
        each.close()


def cached(thread: Thread, **options: Any) -> Any:
    return thread.load(default=None, fresh="cache", **options)


def dumped(redis: Redis) -> dict[bytes, Any]:
    names: Any = redis.keys("perdure:*")
    return {name: redis.dump(name) for name in names}


def put_back(redis: Redis, values: dict[bytes, Any]) -> None:
    for name, value in values.items():
        redis.restore(name, 0, value, replace=True)


# What is served, and how old it is.


def test_a_state_and_messages_are_read_from_redis_while_the_database_is_locked(postgres: str, hot: str) -> None:
    with Perdure.open(postgres, hot=hot) as writer:
        thread = writer.thread("t", user="alice")
        for number in range(30):
            thread.append("messages", {"role": "user", "content": str(number)})
    with Perdure.open(f"{postgres}?{IMPATIENT}", hot=hot) as reader:
        reader.thread("other").load(default=None)  # it is connected, and knows which keys in Redis are its own
        with locked(postgres, "perdure.thread, perdure.entry, perdure.snapshot", "ACCESS EXCLUSIVE"):
            read = reader.thread("t", user="alice")
            assert [each["content"] for each in cached(read)["messages"]] == [str(number) for number in range(30)]
            assert read.last_read == LastRead(source="cache", age=read.last_read.age, version=30)
            assert [each["content"] for each in read.messages(limit=2, fresh="cache")] == ["28", "29"]
            assert read.last_read is not None
            assert read.last_read.source == "cache"


def test_the_age_is_told_and_bounded(opened: Open, redis: Redis) -> None:
    clock = ManualClock()
    writer, reader = opened(clock=clock), opened(clock=clock)
    writer.thread("t").save({"n": 1})
    clock.advance(timedelta(seconds=50))
    thread = reader.thread("t")
    assert cached(thread, max_age=60) == {"n": 1}
    assert thread.last_read == LastRead(source="cache", age=50.0, version=1)
    clock.advance(timedelta(seconds=11))
    assert cached(thread, max_age=60) == {"n": 1}
    assert thread.last_read == LastRead(source="storage", age=0.0, version=1)
    assert cached(thread, max_age=60) == {"n": 1}  # … which was told to Redis
    assert thread.last_read == LastRead(source="cache", age=0.0, version=1)


def test_a_missed_push_is_missed_until_max_age_and_no_longer(opened: Open, redis: Redis) -> None:
    clock = ManualClock()
    writer, elsewhere, reader = opened(clock=clock), opened(clock=clock, hot=None), opened(clock=clock)
    writer.thread("t").save({"n": 1})
    elsewhere.thread("t").save({"n": 2})  # a writer without Redis: as if its push had failed
    assert cached(reader.thread("t")) == {"n": 1}
    clock.advance(timedelta(seconds=61))
    assert cached(reader.thread("t")) == {"n": 2}
    assert reader.thread("t").load() == {"n": 2}


def test_nobody_reads_less_than_what_they_wrote_or_saw(opened: Open, redis: Redis) -> None:
    writer, elsewhere = opened(), opened(hot=None)
    thread = writer.thread("t")
    thread.save({"n": 1})
    values = dumped(redis)
    thread.save({"n": 2})
    put_back(redis, values)  # the second push is lost
    assert cached(writer.thread("t")) == {"n": 2}
    elsewhere.thread("t").save({"n": 3})
    assert writer.thread("t").load() == {"n": 3}
    assert cached(writer.thread("t")) == {"n": 3}


def test_pushes_that_arrive_in_another_order_leave_the_newest(opened: Open, redis: Redis) -> None:
    thread = opened().thread("t")
    for number in range(4):
        thread.save({"n": number})
    (name,) = redis.keys("*:head:*")  # type: ignore[misc]
    marks: Any = redis.lrange(name, 0, -1)
    redis.delete(name)
    redis.rpush(name, *(marks[at] for at in (3, 0, 2, 1)))
    reader = opened().thread("t")
    assert cached(reader) == {"n": 3}
    assert reader.last_read is not None
    assert reader.last_read.source == "cache"


def test_a_stale_state_that_is_saved_conflicts(opened: Open) -> None:
    writer, elsewhere, reader = opened(), opened(hot=None), opened()
    writer.thread("t").save({"n": 1})
    stale = reader.thread("t")
    elsewhere.thread("t").save({"n": 2})
    assert cached(stale) == {"n": 1}
    with pytest.raises(VersionConflictError):
        stale.save({"n": 3})
    with pytest.raises(VersionConflictError):
        stale.update(set={"n": 3})
    assert elsewhere.thread("t").load() == {"n": 2}


def test_asynchronous_callers_read_the_same(url: str, hot: str, redis: Redis) -> None:
    async def play() -> None:
        async with perdure.Perdure.open(url, hot=hot) as writer:
            for number in range(3):
                await writer.thread("t").append("messages", {"role": "user", "content": str(number)})
            await writer.thread("t").load()
        async with perdure.Perdure.open(url, hot=hot) as reader:
            thread = reader.thread("t")
            state = await thread.load(fresh="cache", max_age=30)
            assert [each["content"] for each in state["messages"]] == ["0", "1", "2"]
            assert thread.last_read is not None
            assert thread.last_read.source == "cache"
            assert len(await thread.messages(fresh="cache")) == 3
            async with perdure.Perdure.open(url, hot=hot) as other:
                await other.thread("t").delete()
            assert await thread.load(default="gone", fresh="cache") == "gone"

    asyncio.run(play())


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_stale_state_of_a_checkpointer_is_told_and_conflicts(url: str, hot: str) -> None:
    config = {"thread_id": "t", "user_id": "alice"}
    writer, elsewhere, reader = (SQLiteCheckpointer(url, redis_url=each) for each in (hot, None, hot))
    await writer.aput_state(config, AgentState(context_summary="1"))
    await elsewhere.aput_state(config, AgentState(context_summary="2"))
    stale = await reader.aget_state_cache(config, max_age=30)
    assert stale is not None
    assert stale.last_read is not None
    assert (stale.summary, stale.last_read.source, 0 <= stale.last_read.age < 30) == ("1", "cache", True)
    with pytest.raises(VersionConflictError):
        await reader.aput_state(config, copy.copy(stale))
    fresh = await reader.aget_state(config)
    plain = await elsewhere.aget_state_cache(config)
    assert [each and (each.summary, each.last_read) for each in (fresh, plain)] == [
        ("2", LastRead(source="storage", age=0.0, version=2))
    ] * 2
    with pytest.raises(InvalidInputError, match="max_age"):
        await reader.aget_state_cache(config, max_age=-1)
    for each in (writer, elsewhere, reader):
        await each.arelease()


def test_without_a_hot_layer_it_is_a_checked_read(opened: Open) -> None:
    thread = opened(hot=None).thread("t")
    thread.save({"messages": [{"role": "user", "content": "hi"}]})
    assert thread.load(fresh="cache") == {"messages": [{"role": "user", "content": "hi"}]}
    assert thread.last_read == LastRead(source="storage", age=0.0, version=1)
    assert len(thread.messages(fresh="cache", max_age=5)) == 1


def test_writes_that_are_queued_are_waited_for(opened: Open) -> None:
    thread = opened(durability="background").thread("t")
    thread.save({"n": 0})
    for number in range(20):
        thread.save({"n": number})
        assert cached(thread) == {"n": number}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"fresh": "cahce"}, "did you mean 'cache'"),
        ({"fresh": None}, "not None"),
        ({"max_age": 5}, 'max_age is for fresh="cache"'),
        ({"fresh": "cache", "max_age": -1}, "not -1"),
        ({"fresh": "cache", "max_age": "60"}, "not '60'"),
        ({"fresh": "cache", "max_age": True}, "not True"),
        ({"fresh": "cache", "max_age": float("nan")}, "not nan"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any], told: str) -> None:
    with Perdure.open("memory://") as store:
        thread = store.thread("t")
        thread.save({})
        for read in (thread.load, thread.messages):
            with pytest.raises(InvalidInputError, match=told):
                read(**asked)
        with pytest.raises(InvalidInputError, match="newest state only"):
            thread.load("@1", fresh="cache")
        with pytest.raises(InvalidInputError, match="newest messages only"):
            thread.messages(search="x", fresh="cache")


# What is never served.


def taken_away(thread: Thread, how: str) -> Any:
    """Take the newest state away; return what is left."""
    if how == "delete":
        thread.delete()
        return None
    if how == "rewind":
        thread.rewind("@1")
    else:
        thread.save({"n": "after @1"}, after="@1")
        return {"n": "after @1"}
    return {"n": 1}


@pytest.mark.parametrize("how", ["delete", "rewind", "after"])
def test_old_values_that_are_put_back_are_not_served(opened: Open, redis: Redis, how: str) -> None:
    writer, early = opened(), opened()
    thread = writer.thread("t")
    for number in (1, 2, 3):
        thread.save({"n": number})
    assert cached(early.thread("t")) == {"n": 3}
    values = dumped(redis)
    left = taken_away(thread, how)
    put_back(redis, values)  # all but the tombstone, which did not exist
    for reader in (writer, early, opened()):
        assert cached(reader.thread("t")) == left
    put_back(redis, values)
    tombstones: Any = redis.keys("*:gone:*")
    redis.delete(*tombstones)  # a process that wrote or read the tombstone is not taken in even then
    for reader in (writer, early):
        assert cached(reader.thread("t")) == left
    if how == "delete":
        opened().thread("t").save({"n": "again"})
        put_back(redis, values)
        assert cached(opened().thread("t")) == {"n": "again"}


def test_a_message_that_was_taken_back_is_not_served(opened: Open, redis: Redis) -> None:
    writer = opened()
    thread = writer.thread("t")
    for number in range(3):
        thread.add_messages({"role": "user", "content": f"secret {number}", "id": f"m{number}"})
    values = dumped(redis)
    assert len(opened().thread("t").messages(limit=3, fresh="cache")) == 3
    assert thread.delete_message("m1")
    put_back(redis, values)
    for reader in (writer, opened()):
        said = reader.thread("t").messages(limit=3, fresh="cache")
        assert [each["id"] for each in said] == ["m0", "m2"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("what", ["head", "gone", "base", "tail"])
def test_forged_values_are_not_served(opened: Open, redis: Redis, what: str) -> None:
    thread = opened().thread("t")
    thread.save({"n": 0})
    thread.rewind("@1")
    thread.save({"n": 1})
    opened().thread("t").load()
    (name,) = redis.keys(f"*:{what}:*")  # type: ignore[misc]
    value: Any = redis.get(name) if what in ("gone", "base") else redis.lindex(name, -1)
    for bad in (b"", b"nonsense", value[:-1] + bytes([value[-1] ^ 1]), value[:5] + b"\xff" + value[6:]):
        redis.delete(name)
        if what in ("gone", "base"):
            redis.set(name, bad)
        else:
            redis.rpush(name, bad)
        reader = opened().thread("t")
        assert cached(reader) == {"n": 1}
        assert reader.last_read is not None
        assert reader.last_read.source == "storage"
        assert cached(opened().thread("t")) == {"n": 1}
    for kind in ("sadd", "hset"):
        redis.delete(name)
        redis.execute_command(kind, name, "a", *(["b"] if kind == "hset" else []))
        assert cached(opened().thread("t")) == {"n": 1}


def test_values_of_another_thread_or_user_are_not_served(opened: Open, redis: Redis) -> None:
    store = opened()
    owners = {"alice": "her secret", "bob": "his"}
    for user, text in owners.items():
        store.thread("t", user=user).save({"text": text})
    store.thread("u", user="bob").save({"text": "other"})
    values = dumped(redis)
    for source, target in ((b":alice:t", b":bob:t"), (b":alice:t", b":bob:u"), (b":bob:u", b":bob:t")):
        for name, value in values.items():
            if name.endswith(source):
                redis.restore(name.removesuffix(source) + target, 0, value, replace=True)
        reader = opened()
        assert cached(reader.thread("t", user="bob")) == {"text": "his"}
        assert cached(reader.thread("u", user="bob")) == {"text": "other"}
        put_back(redis, values)
    assert cached(opened().thread("t", user="carol")) is None
    assert cached(opened().thread("t")) is None


def test_values_of_an_older_incarnation_are_not_served(opened: Open, redis: Redis) -> None:
    writer = opened()
    writer.thread("t").save({"n": 1})
    values = dumped(redis)
    (old,) = {name.split(b":")[1] for name in values}
    writer.restored(by="ops")
    writer.thread("t").save({"n": 2})
    writer.close()
    again = opened()
    again.thread("t").load()
    (new,) = {name.split(b":")[1] for name in dumped(redis)} - {old}
    put_back(redis, {name.replace(old, new): value for name, value in values.items()})
    assert cached(opened().thread("t")) == {"n": 2}


# Redis away.


def test_redis_killed_between_tombstone_and_deletion(url: str, tmp_path: Any) -> None:
    """The tombstone went with Redis, and old values came back with it: this process serves nothing of the thread."""
    with RedisServer(durable=False) as server, FaultProxy(server.port, server.host) as proxy:
        hot = f"redis://127.0.0.1:{proxy.port}?{PATIENT}"
        with Perdure.open(url, hot=hot) as store, Redis.from_url(server.url) as raw:
            kept, thread = store.thread("kept"), store.thread("t")
            kept.save({"n": "kept"})
            thread.save({"n": 1})
            assert cached(kept) == {"n": "kept"}
            assert kept.last_read is not None
            assert kept.last_read.source == "cache"
            values = dumped(raw)
            proxy.refuse()
            proxy.cut()
            assert thread.delete()
            for each, state in ((thread, None), (kept, {"n": "kept"})):
                assert cached(each) == state  # no thread is read from a Redis that lacks a tombstone
                assert each.last_read is None or each.last_read.source == "storage"
            put_back(raw, values)
            proxy.heal()
            end = time.monotonic() + 30  # Redis is tried again after half a second, and later if it failed again
            while time.monotonic() < end:
                assert cached(thread) is None
                assert cached(kept) == {"n": "kept"}
                if kept.last_read.source == "cache":
                    break
                store.thread("wait").save({})
                time.sleep(0.01)
            assert kept.last_read.source == "cache"
            assert len(raw.keys("*:gone:*:t")) == 1  # type: ignore[arg-type]
        with Perdure.open(url, hot=hot) as other:
            assert cached(other.thread("t")) is None


DIES = """
import os, signal, sys
from perdure.storage.sql.store import SqlStorage
from perdure.sync import Perdure

async def die(storage, key):
    os.kill(os.getpid(), signal.SIGKILL)

SqlStorage.delete = die
Perdure.open(sys.argv[1], hot=sys.argv[2]).thread("t").delete()
"""


def test_a_process_killed_between_tombstone_and_deletion_leaves_a_tombstone_that_is_settled(
    opened: Open, url: str, hot: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().thread("t").save({"n": 1})
    assert started(DIES, url, hot).wait() == -signal.SIGKILL
    assert len(redis.keys("*:gone:*")) == 1  # type: ignore[arg-type]
    reader = opened().thread("t")
    for _ in range(2):  # for a minute: the deletion may still be on its way
        assert cached(reader) == {"n": 1}
        assert reader.last_read is not None
        assert reader.last_read.source == "storage"
    monkeypatch.setattr(cache, "PENDING", 0)
    assert [(cached(reader), reader.last_read.source) for _ in range(2)] == [({"n": 1}, "storage"), ({"n": 1}, "cache")]


def test_a_deletion_that_is_refused_leaves_the_thread_as_it_was(opened: Open) -> None:
    store = opened()
    thread, other = store.thread("t"), opened(hot=None).thread("t")
    thread.save({"n": 1})
    thread.save({"n": 2})
    other.save({"n": 3})
    with pytest.raises(VersionConflictError):
        thread.rewind("@1")
    assert cached(opened().thread("t")) == {"n": 3}
    with pytest.raises(NotFoundError):
        store.thread("nobody").load(fresh="cache")


# Use.


def test_threads_that_are_read_from_memory_stay_in_redis(opened: Open, redis: Redis) -> None:
    """S2.34: reads of any kind count as use; an idle thread expires."""
    store = opened(cache_ttl=1)
    for name in ("busy", "listed", "idle"):
        store.thread(name).save({"name": name})
    busy, listed = store.thread("busy"), store.thread("listed")
    end = time.monotonic() + 2.2
    while time.monotonic() < end:
        assert busy.load() == {"name": "busy"}
        listed.history(1)
        time.sleep(0.05)
    names: Any = redis.keys("*:tail:*")
    assert {name.rpartition(b":")[2] for name in names} == {b"busy", b"listed"}


def test_a_thread_that_is_read_from_memory_is_not_the_first_to_go(opened: Open, redis: Redis) -> None:
    store = opened(max_cached_threads=2)
    threads = {name: store.thread(name) for name in ("a", "b", "c")}
    threads["a"].save({})
    threads["b"].save({})
    for read in (threads["a"].load, threads["a"].load, lambda: threads["a"].load(fresh="cache")):
        read()
    threads["c"].save({})
    names: Any = redis.keys("*:tail:*")
    assert {name.rpartition(b":")[2] for name in names} == {b"a", b"c"}


def test_an_emptied_redis_is_filled_by_reads_from_memory(opened: Open, redis: Redis) -> None:
    store = opened(cache_ttl=1)
    thread = store.thread("t")
    thread.save({"n": 1})
    redis.flushall()
    for _ in range(60):
        assert thread.load() == {"n": 1}
        if redis.keys("*:tail:*"):
            break
        time.sleep(0.02)
    assert cached(opened().thread("t")) == {"n": 1}


def test_a_cached_read_fills_an_emptied_redis_at_once(opened: Open, redis: Redis) -> None:
    thread = opened().thread("t")
    thread.save({"n": 1})
    redis.flushall()
    assert [(cached(thread), thread.last_read.source) for _ in range(2) if thread] == [
        ({"n": 1}, "storage"),
        ({"n": 1}, "cache"),
    ]
