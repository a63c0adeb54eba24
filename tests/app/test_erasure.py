"""Forgetting a user: everything of one goes, nothing of anybody else's does, and what stays says nothing."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import ANY_USER, Perdure, Retention, sync
from perdure.checkpointer import AgentState, Message, SQLiteCheckpointer
from perdure.core.erasure import log_key
from perdure.core.identity import MEMORY, ThreadKey, callers_namespace
from perdure.errors import InvalidIdError, LeaseLostError, NotFoundError, PerdureError, UserActiveError
from perdure.storage.drive import drive
from perdure.storage.listing import all_threads
from perdure.sync.scope import UserScope
from perdure.testing.servers import require, shared_redis
from tests.app.forgetting import beside, beside_update, bytes_of, fill, register, storage_of
from tests.checkpoints.places import PLACES, opened

ALICE, BOB = "alice-wonder", "bob-marley"
CANARY, OTHER = "kanarienvogel", "zaunkoenig"


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=list(PLACES))
async def store(request: pytest.FixtureRequest, mode: str, tmp_path: Path) -> AsyncIterator[Any]:
    """Two users with something of every kind."""
    async with opened(PLACES[request.param](tmp_path), mode) as made:
        register(made, mode)
        for user, word in ((ALICE, CANARY), (BOB, OTHER)):
            (tmp_path / user).mkdir()
            await fill(made, user, word, tmp_path / user)
        yield made


async def _world(store: Any, user: str) -> dict[str, Any]:
    """What the public face shows of a user."""
    threads = await store.threads(user=user)
    loaded = {each.id: await store.thread(each.id, user=user).load(default=None) for each in threads}
    said = {each.id: await store.thread(each.id, user=user).messages() for each in threads}
    pauses = [each.id for each in await store.pauses(user=user)]
    return {"loaded": loaded, "said": said, "pauses": pauses, "found": len(await store.search(OTHER, user=user))}


async def test_everything_of_a_user_is_counted_and_then_goes_and_nothing_of_others(store: Any, mode: str) -> None:
    alice, bob = await _world(store, ALICE), await _world(store, BOB)
    assert (len(alice["loaded"]), len(alice["pauses"])) == (4, 1)
    seen = await store.forget(ALICE)
    assert (seen.dry_run, seen.is_complete, seen.tombstone) == (True, False, None)
    # The dry run changed nothing, and counted every kind; what forks share is counted once.
    assert await _world(store, ALICE) == alice
    counts = {kind: count for kind, count in seen.counts.items() if kind != "bytes"}
    assert counts == {
        "threads": 4, "forks": 1, "subgraphs": 1, "quarantined": 1, "entries": 15, "messages": 4, "checkpoints": 3,
        "runs": 1, "steps": 0, "tool_results": 2, "pauses": 1, "decisions": 0, "cached_values": 1, "store_items": 1,
        "facts": 1, "large_values": 0,
    }  # fmt: skip
    told: list[tuple[int, int]] = []
    done = await store.forget(ALICE, dry_run=False, progress=lambda at, of, each: told.append((at, of)))
    assert (done.is_complete, done.left) == (True, ())
    assert {**done.counts, "large_values": 0} == seen.counts
    assert done.counts["large_values"] == 2
    assert told == [(at, 9) for at in range(1, 10)]
    assert await _world(store, ALICE) == {"loaded": {}, "said": {}, "pauses": [], "found": 0}
    with pytest.raises(NotFoundError):
        await store.thread(f"chat {CANARY}", user=ALICE).load()
    assert await _world(store, BOB) == bob
    report = await store.verify(restore=True)
    assert (report.damaged, report.forgotten, report.interrupted) == ([], 1, 0)
    again = await store.forget(ALICE, dry_run=False)
    assert (again.threads, again.tombstone, again.is_complete) == ((), None, True)


async def test_a_tombstone_tells_nothing_but_that_a_user_was_forgotten(store: Any, mode: str) -> None:
    head = await store.thread(f"chat {CANARY}", user=ALICE).entries()
    done = await store.forget(ALICE, dry_run=False)
    (stone,) = await store.forgotten()
    assert (stone.id, stone.threads, stone.finished >= stone.begun) == (done.tombstone, 9, True)
    assert head[-1].chain.hex() in stone.digests
    work = storage_of(store).entries(log_key(""))
    log = await work if mode == "async" else drive(work)
    assert all(name not in repr(log) for name in (ALICE, CANARY, "chat"))


@pytest.mark.parametrize("place", ["sqlite", "file"])
async def test_after_compact_no_byte_of_the_user_is_left_on_disk(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    async with opened(PLACES[place](folder), "sync") as store:
        register(store, "sync")
        for user, word in ((ALICE, CANARY), (BOB, OTHER)):
            (tmp_path / user).mkdir()
            await fill(store, user, word, tmp_path / user)
        assert bytes_of(folder, ALICE)
        assert bytes_of(folder, CANARY)
        assert (await store.forget(ALICE, dry_run=False)).is_complete
        await store.compact()
        # With the store open: what SQLite has in its WAL counts.
        assert (bytes_of(folder, ALICE), bytes_of(folder, CANARY)) == ([], [])
        assert bytes_of(folder, BOB)
    assert (bytes_of(folder, ALICE), bytes_of(folder, CANARY)) == ([], [])


async def test_redis_has_nothing_of_a_forgotten_user(tmp_path: Path) -> None:
    import redis

    async with opened(PLACES["hot_sqlite"](tmp_path), "sync") as store:
        register(store, "sync")
        await fill(store, ALICE, CANARY, tmp_path)
        await store.thread(f"chat {CANARY}", user=ALICE).load()
        server = redis.Redis.from_url(require(shared_redis).url)

        def held() -> list[bytes]:
            # Tombstones stay until they run out: they keep late pushes of other processes from counting.
            return [key for key in server.scan_iter(f"*{ALICE}*") if b":gone:" not in key]

        assert held()
        await store.forget(ALICE, dry_run=False)
        assert held() == []
        server.close()


async def test_a_thread_that_is_being_run_is_refused_and_with_force_its_run_writes_nothing_more(tmp_path: Path) -> None:
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        await store.thread("idle", user=ALICE).append("messages", CANARY)
        thread = store.thread("busy", user=ALICE)
        with pytest.raises((LeaseLostError, NotFoundError)):  # noqa: PT012  # the run's own end may be the first to fail
            async with thread.run() as run:
                await run.append("messages", CANARY)
                (seen,) = [each for each in (await store.forget(ALICE)).threads if each.is_running]
                assert seen.thread_id == "busy"
                with pytest.raises(UserActiveError, match="'busy'") as refused:
                    await store.forget(ALICE, dry_run=False)
                assert refused.value.threads == ("busy",)
                assert len(await store.threads(user=ALICE)) == 2
                assert (await store.forget(ALICE, dry_run=False, force=True)).is_complete
                await run.append("messages", "too late")
        assert await store.threads(user=ALICE) == []
        assert (await store.forget(ALICE)).threads == ()


async def test_what_is_still_queued_in_the_background_goes_too(tmp_path: Path) -> None:
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db", durability="background") as store:
        for count in range(20):
            await store.thread(f"t{count % 3}", user=ALICE).append("messages", CANARY)
        done = await store.forget(ALICE, dry_run=False)
        assert (done.counts["threads"], done.counts["entries"]) == (3, 20)
        await store.flush()
        await store.compact()
        assert (await store.verify()).ok
    assert bytes_of(tmp_path, CANARY) == []


@pytest.mark.parametrize("user", ["", None, ANY_USER])
async def test_nobody_cannot_be_forgotten(user: Any) -> None:
    async with Perdure.open("memory://") as store:
        await store.thread("t").save({"kept": 1})
        with pytest.raises(InvalidIdError, match="user to forget"):
            await store.forget(user, dry_run=False)
        assert await store.thread("t").load() == {"kept": 1}


async def test_a_dry_run_is_the_default_and_both_faces_have_the_same_call() -> None:
    for one, other in ((perdure.Perdure, sync.Perdure), (perdure.UserScope, UserScope)):
        assert list(inspect.signature(one.forget).parameters) == list(inspect.signature(other.forget).parameters)
        assert inspect.signature(one.forget).parameters["dry_run"].default is True


async def test_a_scope_forgets_itself_alone_and_is_told_nothing_of_others() -> None:
    async with Perdure.open("memory://") as store:
        for user in (ALICE, BOB):
            await store.thread("t", user=user).save({"of": user})
        await beside_update(store, beside(store, MEMORY, "", f'["memories","{ALICE}"]'), {"items": {}})
        scope = store.scope(user=ALICE)
        done = await scope.forget(dry_run=False)
        assert (done.counts["threads"], [each for each in done.unreached if "label" in each]) == (1, [])
        assert [each.user for each in await store.threads()] == [BOB]


async def test_another_namespace_and_a_user_of_a_like_name_stay(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with Perdure.open(url, namespace="acme") as acme, Perdure.open(url) as plain:
        for store in (acme, plain):
            for user in (ALICE, ALICE.upper(), f"{ALICE} "):
                await store.thread("t", user=user).save({"of": user})
        await plain.forget(ALICE, dry_run=False)
        assert len(await acme.threads()) == 3
        assert sorted(str(each.user) for each in await plain.threads()) == [ALICE.upper(), f"{ALICE} "]
        assert (await acme.verify()).forgotten == 0


async def test_a_namespace_as_long_as_can_be_has_a_tombstone_too() -> None:
    async with Perdure.open("memory://", namespace="n" * 512) as store:
        await store.thread("t", user=ALICE).save({"of": ALICE})
        assert (await store.forget(ALICE, dry_run=False)).is_complete
        assert (await store.verify()).forgotten == len(await store.forgotten()) == 1


async def test_items_of_langgraphs_store_that_belong_to_nobody_are_named() -> None:
    async with Perdure.open("memory://") as store:
        await beside_update(store, beside(store, MEMORY, "", f'["memories","{ALICE}"]'), {"items": {}})
        await beside_update(store, beside(store, MEMORY, "", '["memories","else"]'), {"items": {}})
        (named,) = [each for each in (await store.forget(ALICE)).unreached if "label" in each]
        assert named.startswith("1 namespace")


async def test_damaged_threads_go_like_any_other(tmp_path: Path) -> None:
    async with Perdure.open(f"file://{tmp_path}/a") as store:
        for name in ("state", "line", "whole"):
            await store.thread(name, user=ALICE).save({"of": CANARY})
    _replace(tmp_path, "state", CANARY, "k" * len(CANARY))
    _replace(tmp_path, "line", "{", f"{CANARY}{{")
    async with Perdure.open(f"file://{tmp_path}/a") as store:
        assert [each.thread_id for each in await store.damaged()] == ["line"]
        seen = await store.forget(ALICE)
        assert {each.thread_id for each in seen.threads if each.damage} == {"state", "line"}
        assert (await store.forget(ALICE, dry_run=False)).is_complete
        assert (await store.verify()).ok
        await store.compact()
    assert bytes_of(tmp_path, CANARY) == []


def _replace(folder: Path, thread: str, old: str, new: str) -> None:
    (log,) = [each for each in folder.rglob("log.jsonl") if f'"id":"{thread}"'.encode() in each.read_bytes()]
    data = log.read_bytes()
    assert old.encode() in data, data
    log.write_bytes(data.replace(old.encode(), new.encode()))


async def test_the_history_of_the_tombstones_is_kept_whatever_the_retention(tmp_path: Path) -> None:
    async with Perdure.open("memory://", retention=Retention(last=1)) as store:
        for user in (ALICE, BOB, "carol"):
            await store.thread("t", user=user).save({"of": user})
            await store.forget(user, dry_run=False)
        assert ((await store.verify()).forgotten, len(await store.forgotten())) == (3, 3)


async def test_a_changed_tombstone_is_damage(tmp_path: Path) -> None:
    async with Perdure.open(f"file://{tmp_path}/a") as store:
        await store.thread("t", user=ALICE).save({"of": ALICE})
        await store.forget(ALICE, dry_run=False)
    (log,) = [each for each in tmp_path.rglob("log.jsonl") if b'"begun"' in each.read_bytes()]
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    async with Perdure.open(f"file://{tmp_path}/a") as store:
        assert not (await store.verify()).ok
    log.write_bytes(b"".join(lines).replace(b'"begun"', b'"began"', 1))
    async with Perdure.open(f"file://{tmp_path}/a") as store:
        assert not (await store.verify()).ok


async def test_users_that_are_numbers_are_forgotten_by_their_number() -> None:
    url, _ = PLACES["postgres"](Path())
    async with opened((url, {"user_id_type": "int"}), "async") as store:
        for user in (7, 77):
            await store.thread("t", user=user).save({"of": user})
        assert (await store.forget(7, dry_run=False)).user == 7
        assert [each.user for each in await store.threads()] == [77]
        with pytest.raises(PerdureError):
            await store.forget("7")


async def test_no_thread_of_the_user_is_left_in_any_namespace(tmp_path: Path) -> None:
    """Whatever is kept per user later lies in a reserved namespace, and goes without another line."""
    async with Perdure.open("memory://") as store:
        await beside_update(store, beside(store, "notes", ALICE, "f1"), {"likes": CANARY})
        (seen,) = (await store.forget(ALICE)).threads
        assert (seen.part, seen.thread_id) == ("notes", "f1")
        await store.forget(ALICE, dry_run=False)
        storage = storage_of(store)
        for namespace in await storage.namespaces():
            assert callers_namespace(namespace) == ""
            assert await all_threads(storage, namespace, ALICE) == []
        assert await storage.thread(ThreadKey("", ALICE, "f1")) is None


async def test_what_a_checkpointer_kept_for_a_user_goes(tmp_path: Path) -> None:
    config: dict[str, Any] = {"thread_id": "t", "user_id": ALICE}
    with SQLiteCheckpointer(tmp_path / "a.db") as memory:
        for each in (config, {**config, "user_id": BOB}):
            memory.put_state(each, AgentState(context=[Message("user", CANARY)]))
            memory.put_messages(each, [Message("user", CANARY)])
            memory.put_tool_result(each, "call_1", CANARY)
            memory.put_cache_value("weather", "berlin", CANARY, config=each)
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        done = await store.forget(ALICE, dry_run=False)
        assert (done.counts["threads"], done.counts["tool_results"], done.counts["cached_values"]) == (1, 1, 1)
    with SQLiteCheckpointer(tmp_path / "a.db") as memory:
        assert (memory.get_state(config), memory.list_messages(config)) == (None, [])
        assert memory.get_tool_result(config, "call_1") is None
        assert memory.get_cache_value("weather", "berlin", config=config) is None
        assert memory.get_tool_result({**config, "user_id": BOB}, "call_1") == CANARY
