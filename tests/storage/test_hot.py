"""The hot layer: what is served from Redis, how it is named, and how it lives."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from redis import Redis

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.checkpoints.requests import Request
from perdure.core.changes import Change
from perdure.core.codec import encode
from perdure.core.errors import InvalidInputError, MissingExtraError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Silence
from perdure.core.pruning import Pruning
from perdure.core.writes import Appended, Write
from perdure.sessions.messages import Messages
from perdure.storage.drive import drive
from perdure.storage.hot import ports
from perdure.storage.hot.cache import WINDOW
from perdure.storage.hot.ports import Client, open_redis
from perdure.storage.hot.store import HotStorage
from perdure.storage.memory import MemoryStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe
from perdure.testing.servers import require, shared_redis
from tests.storage.hot import ERRORS, HIT, MISS, Counting, Heard, Scene, engine, hot, sound


@pytest.fixture
def raw() -> Iterator[Redis]:
    with Redis.from_url(require(shared_redis).url) as raw:
        yield raw


@pytest.fixture
def scene(raw: Redis) -> Iterator[Scene]:
    scene = Scene(raw)
    yield scene
    scene.close()


# What is served.


def test_a_thread_is_hot_from_its_first_write_on(scene: Scene) -> None:
    drive(scene.scribe.append(THREAD, STATE, MESSAGE))
    drive(scene.scribe.grow(THREAD, 3))
    scene.same_as_inner()
    assert scene.inner.reads == {
        "restore": 1,
        "entries": 1,
        "thread": 2,
    }  # the comparison's own reads, and two short lines
    assert (scene.heard.counts[HIT], scene.heard.counts[MISS]) == (2, 0)


def test_a_thread_that_was_written_elsewhere_is_filled_by_its_first_reader(scene: Scene) -> None:
    drive(Scribe(scene.inner, ManualClock()).grow(THREAD, 5))
    for _ in range(3):
        drive(scene.storage.restore(THREAD))
    assert (scene.inner.reads["restore"], scene.heard.counts[HIT], scene.heard.counts[MISS]) == (1, 2, 1)
    scene.same_as_inner()


def test_a_restore_brings_the_newest_snapshot_and_what_came_after_it(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 4))
    drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(4, made.row.head_digest)))
    drive(scene.scribe.append(THREAD, STATE, MESSAGE))
    found = drive(scene.storage.restore(THREAD))
    assert found is not None
    assert found.snapshot is not None
    assert (found.snapshot.version, [entry.version for entry in found.entries]) == (4, [5, 6])
    assert scene.inner.reads["restore"] == 0
    scene.same_as_inner()


def test_an_older_snapshot_does_not_take_the_place_of_the_newest(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 4))
    drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(4, made.row.head_digest)))
    drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(2, drive(scene.inner.entries(THREAD))[1].chain)))
    scene.same_as_inner()


def test_a_dropped_snapshot_is_not_served(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 4))
    drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(4, made.row.head_digest)))
    drive(scene.storage.drop_snapshot(THREAD, 4))
    scene.same_as_inner()


def test_a_parents_snapshot_dropped_through_its_fork_is_not_served(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 4))
    drive(scene.scribe.fork(THREAD, 4, OTHER))
    drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(4, made.row.head_digest)))
    scene.same_as_inner(THREAD)
    drive(scene.storage.drop_snapshot(OTHER, 4))
    scene.same_as_inner(THREAD)


def test_a_fork_is_served_once_it_has_a_snapshot_of_its_own(scene: Scene) -> None:
    parent = drive(scene.scribe.grow(THREAD, 4))
    drive(scene.scribe.fork(THREAD, 3, OTHER))
    scene.same_as_inner(OTHER)
    drive(scene.storage.put_snapshot(THREAD, parent.row.uid, sound(2, drive(scene.inner.entries(THREAD))[1].chain)))
    scene.same_as_inner(OTHER)
    made = drive(scene.scribe.grow(OTHER, 2))
    drive(scene.storage.put_snapshot(OTHER, made.row.uid, sound(5, made.row.head_digest)))
    drive(scene.scribe.append(OTHER))
    scene.heard.counts.clear()
    scene.same_as_inner(OTHER)
    assert (scene.heard.counts[HIT], scene.heard.counts[MISS]) == (1, 1)  # its parent's entries are not kept with it
    assert drive(scene.storage.entries(OTHER, after=3)) == drive(scene.inner.entries(OTHER, after=3))
    assert (scene.heard.counts[HIT], scene.heard.counts[MISS]) == (2, 1)


def kept(scene: Scene, key: ThreadKey) -> list[int]:
    """The versions that Redis has of a thread."""
    cache = drive(scene.storage._cache())
    found = drive(cache.look(key, scene.inner.thread)) if cache else None
    return sorted(found.known()) if found else []


def test_a_fork_without_anything_of_its_own_takes_no_place(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 3))
    drive(scene.scribe.fork(THREAD, 2, OTHER))
    scene.same_as_inner(OTHER)
    assert kept(scene, OTHER) == []
    assert scene.raw.zcard(scene.name("used")) == 1


def test_what_is_emptied_in_a_parent_is_not_served_with_its_fork(scene: Scene) -> None:
    store = engine(scene.storage)
    drive(scene.scribe.append(THREAD, MESSAGE, MESSAGE))
    drive(scene.scribe.fork(THREAD, 2, OTHER))
    drive(scene.scribe.append(OTHER, MESSAGE))
    for after in (0, 1, 2):
        assert all(entry.payload for entry in drive(scene.storage.entries(OTHER, after=after)))
    assert kept(scene, OTHER) == [3]  # of a fork only its own
    row = drive(scene.storage.thread(THREAD))
    assert row is not None
    body = encode({"id": "m", "versions": [2]})
    drive(store.take_back(row, body, Pruning(seen=row.head, records=(), blank=(2,)), Request()))
    assert [bool(entry.payload) for entry in drive(scene.storage.entries(OTHER))] == [True, False, True]
    for after in (0, 1, 2):
        assert drive(scene.storage.entries(OTHER, after=after)) == drive(scene.inner.entries(OTHER, after=after))


def test_the_newest_messages_are_read_without_the_log(scene: Scene) -> None:
    write = engine(scene.storage)
    for n in range(60):
        drive(write.change(THREAD, Change({"turn": n}, {"messages": [{"n": n}]}, []), None, Request()))
    assert drive(Messages(scene.storage).list(THREAD, limit=2)) == [{"n": 58}, {"n": 59}]
    assert scene.inner.reads["entries"] == 0


def test_the_newest_entries_are_filled_by_their_first_reader(scene: Scene) -> None:
    drive(Scribe(scene.inner, ManualClock()).grow(THREAD, 300))
    wanted = drive(scene.inner.entries(THREAD, after=290))
    scene.inner.reads.clear()
    assert drive(scene.storage.entries(THREAD, after=290)) == wanted
    assert drive(scene.storage.entries(THREAD, after=290)) == wanted
    assert drive(scene.storage.entries(THREAD, after=295, limit=2, kinds=[STATE])) == wanted[5:7]
    assert drive(scene.storage.entries(THREAD, after=290, kinds=[MESSAGE])) == []
    assert scene.inner.reads["entries"] == 1


def test_a_long_read_of_a_log_does_not_fill_redis(scene: Scene) -> None:
    drive(Scribe(scene.inner, ManualClock()).grow(THREAD, 300))
    assert len(drive(scene.storage.entries(THREAD, kinds=[STATE]))) == 300
    assert scene.names() == []


def test_a_gap_is_filled_by_the_next_reader_without_losing_the_rest(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 3))
    drive(Scribe(scene.inner, scene.clock, seed=2).grow(THREAD, 2))
    drive(scene.scribe.append())
    scene.same_as_inner()
    drive(scene.scribe.append())
    scene.inner.reads.clear()
    drive(scene.storage.restore(THREAD))
    assert scene.inner.reads["restore"] == 0


def test_pushes_that_arrive_out_of_order_are_put_in_order(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 6))
    tail = scene.name("tail::alice:t1")
    elements = scene.raw.lrange(tail, 0, -1)
    scene.raw.delete(tail)
    scene.raw.rpush(tail, *(elements[at] for at in (1, 0, 3, 5, 4, 2, 3)))
    scene.inner.reads.clear()
    assert len(scene.restored().entries) == 6
    assert scene.inner.reads["restore"] == 0


def test_a_tail_of_very_many_pushes_is_written_anew_as_one(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 300))
    scene.raw.delete(*scene.names("base::alice:t1"))
    scene.same_as_inner()
    tail = scene.name("tail::alice:t1")
    assert scene.raw.llen(tail) == 1
    scene.heard.counts.clear()
    assert scene.restored().row == made.row
    assert scene.heard.counts[HIT] == 1


def test_writes_are_pushed_with_the_time_that_the_storage_gave_them(raw: Redis) -> None:
    class Server(Counting):
        async def append(self, write: Write) -> Appended:
            return await super().append(msgspec.structs.replace(write, micros=write.micros - 5_000_000))

    scene = Scene(raw, Server())
    drive(scene.scribe.grow(THREAD, 3))
    scene.clock.advance(timedelta(hours=-1))
    drive(scene.scribe.grow(THREAD, 3))
    scene.same_as_inner()
    assert scene.heard.counts == {HIT: 2}
    scene.close()


def test_a_write_that_follows_something_else_than_was_known_is_not_pushed(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 3))
    drive(scene.inner.delete(THREAD))
    again = Scribe(scene.inner, scene.clock, seed=2)
    drive(scene.inner.append(again.write(THREAD, new_uid=made.row.uid)))
    drive(again.grow(THREAD, 2))
    drive(scene.scribe.append())
    assert scene.raw.llen(scene.name("tail::alice:t1")) == 3
    scene.same_as_inner()


def test_one_more_write_adds_one_element_and_rewrites_nothing(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 50))
    tail = scene.name("tail::alice:t1")
    before = scene.raw.lrange(tail, 0, -1)
    drive(scene.scribe.append())
    assert scene.raw.lrange(tail, 0, -2) == before


def test_a_snapshot_takes_over_from_most_of_the_tail(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 200))
    drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(200, made.row.head_digest)))
    assert scene.raw.llen(scene.name("tail::alice:t1")) == WINDOW
    scene.heard.counts.clear()
    assert drive(scene.storage.entries(THREAD, after=150)) == drive(scene.inner.entries(THREAD, after=150))
    assert scene.restored() == drive(scene.inner.restore(THREAD))
    assert scene.heard.counts == {HIT: 2}


def test_a_thread_too_large_for_a_short_answer_is_not_kept(scene: Scene) -> None:
    body = SystemRandomness().bytes(9 << 20)
    drive(scene.scribe.append(THREAD, entries=(scene.scribe.entry(STATE, body=body),)))
    scene.same_as_inner()
    assert sum(len(value) for value in scene.raw_values().values()) < 1 << 20


# Keys.


def test_keys_name_the_thread_and_every_one_expires(scene: Scene) -> None:
    key = ThreadKey("team: a", "al%ice", "ticket:42 é")
    drive(scene.scribe.grow(key, 2))
    place = scene.place.hex()
    names = [name.decode() for name in scene.names()]
    thread = "team%3A a:al%25ice:ticket:42 é"
    assert names == [
        f"perdure:{place}:{rest}" for rest in (f"base:{thread}", f"head:{thread}", f"tail:{thread}", "used")
    ]
    assert all(86_000 < scene.raw.ttl(name) <= 86_400 for name in names)


def test_use_makes_a_thread_live_longer(raw: Redis) -> None:
    scene = Scene(raw, cache_ttl=500)
    drive(scene.scribe.append())
    for name in scene.names():
        raw.expire(name, 10)
    drive(scene.storage.restore(THREAD))
    assert [raw.ttl(name) > 400 for name in scene.names(":t1")] == [True, True, True]
    drive(scene.scribe.append())
    assert all(raw.ttl(name) > 400 for name in scene.names())
    scene.close()


def test_the_threads_that_were_not_used_for_longest_are_evicted(raw: Redis) -> None:
    scene = Scene(raw, max_cached_threads=3)
    keys = [ThreadKey("", "alice", f"t{n}") for n in range(5)]
    for key in keys[:3]:
        drive(scene.scribe.append(key))
    scene.clock.advance(timedelta(seconds=1))
    drive(scene.storage.restore(keys[0]))
    for key in keys[3:]:
        drive(scene.scribe.append(key))
    kept = {name.rpartition(b":")[2].decode() for name in scene.names() if not name.endswith(b"used")}
    assert kept == {"t0", "t3", "t4"}
    assert {name.rpartition(b":")[2] for name in raw.zrange(scene.names("used")[0], 0, -1)} == {b"t0", b"t3", b"t4"}
    for key in keys:
        scene.same_as_inner(key)
    scene.close()


def test_asking_for_what_does_not_exist_evicts_nothing(raw: Redis) -> None:
    scene = Scene(raw, max_cached_threads=2)
    drive(scene.scribe.append())
    for n in range(5):
        assert drive(scene.storage.restore(ThreadKey("", "", f"nobody {n}"))) is None
        assert drive(scene.storage.entries(ThreadKey("", "", f"nobody {n}"))) == []
    scene.inner.reads.clear()
    drive(scene.storage.restore(THREAD))
    assert scene.inner.reads["restore"] == 0
    scene.close()


def test_two_storages_may_share_one_redis(raw: Redis) -> None:
    scenes = [Scene(raw), Scene(raw)]
    for scene, count in zip(scenes, (2, 5), strict=True):
        drive(scene.scribe.grow(THREAD, count))
    for scene in scenes:
        scene.same_as_inner()
        assert scene.heard.counts[HIT] == 2
        scene.close()


# The rest of its life.


def test_warming_brings_the_newest_threads_of_users_into_redis(scene: Scene) -> None:
    elsewhere = Scribe(scene.inner, ManualClock())
    for user in ("alice", "bob", "carol"):
        for n in range(5):
            drive(elsewhere.append(ThreadKey("", user, f"t{n}")))
    assert drive(scene.storage.warm("", ["alice", "bob", "nobody"], threads=2)) == 4
    warm = {name.partition(b":tail:")[2].decode() for name in scene.names() if b":tail:" in name}
    assert warm == {":alice:t3", ":alice:t4", ":bob:t3", ":bob:t4"}
    scene.inner.reads.clear()
    drive(scene.storage.restore(ThreadKey("", "alice", "t4")))
    assert scene.inner.reads["restore"] == 0


def test_one_store_serves_one_event_loop_after_another(raw: Redis) -> None:
    heard = Heard()
    storage = hot(MemoryStorage(), "async", heard)
    scribe = Scribe(storage, ManualClock())
    for _ in range(3):
        asyncio.run(scribe.append())
        assert asyncio.run(storage.restore(THREAD)) is not None
    drive(storage.close())
    assert heard.counts == {HIT: 3}


async def test_many_tasks_at_once_are_all_served(raw: Redis) -> None:
    heard = Heard()
    storage = hot(MemoryStorage(), "async", heard)
    await Scribe(storage, ManualClock()).grow(THREAD, 3)
    found = await asyncio.gather(*(storage.restore(THREAD) for _ in range(64)))
    assert all(each == found[0] for each in found)
    assert heard.counts == {HIT: 64}
    await storage.close()


async def test_a_caller_that_gives_up_harms_nobody(raw: Redis) -> None:
    heard = Heard()
    storage = hot(MemoryStorage(), "async", heard)
    await Scribe(storage, ManualClock()).grow(THREAD, 3)
    for delay in (0.0, 0.0001, 0.001):
        task = asyncio.create_task(storage.restore(THREAD))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await storage.restore(THREAD) is not None
    assert heard.counts[ERRORS] == 0
    await storage.close()


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtraError, match=r"perdure\[redis\]"):
        open_redis("redis://localhost", mode="sync", telemetry=Silence())


def test_an_interrupted_probe_does_not_keep_redis_away_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(require(shared_redis).url, Silence(), timeout=5.0)
    client.breaker.failed(0.0)

    def interrupted(*anything: object) -> list[object]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ports, "_answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.ask([("PING",)])
    client.breaker.wait = 0.0
    assert client.ask([("PING",)]) == [True]
    client.close()


@pytest.mark.parametrize(
    "url", ["redis://me:pa/ss@localhost", "localhost:6379", "http://localhost", "redis://localhost:port/0", ""]
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_redis(url, mode="sync", telemetry=Silence())
    assert "pa" not in str(caught.value).replace("password", "")


def test_a_hot_storage_is_a_storage() -> None:
    contract = {name for name in vars(MemoryStorage) if not name.startswith("_")}
    assert contract <= {name for name in dir(HotStorage) if not name.startswith("_")}


@pytest.fixture
def quick(raw: Redis) -> Iterator[Scene]:
    """One whose pushes follow each other within a moment."""
    scene = Scene(raw, clock=SystemClock())
    yield scene
    scene.close()


def test_a_push_to_keys_that_are_gone_makes_none_that_never_expires(quick: Scene) -> None:
    """Pushes that follow each other closely leave the time to live alone: they must not make a key without one."""
    drive(quick.scribe.grow(THREAD, 3))
    quick.forget()
    for _ in range(3):
        drive(quick.scribe.append(THREAD))
        assert [name for name in quick.names() if quick.raw.pttl(name) < 0] == []
    quick.same_as_inner()
    drive(quick.scribe.append(THREAD))
    quick.same_as_inner()


def test_pushes_within_a_moment_do_not_set_the_times_again(quick: Scene) -> None:
    drive(quick.scribe.grow(THREAD, 2))
    for name in quick.names():
        quick.raw.pexpire(name, 50_000)
    drive(quick.scribe.grow(THREAD, 5))
    assert all(quick.raw.pttl(name) <= 50_000 for name in quick.names())
    quick.same_as_inner()
