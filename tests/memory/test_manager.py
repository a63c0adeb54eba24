"""One suite for the memory of users on every storage, by both faces."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, sync
from perdure.core.identity import FACTS, ThreadKey, reserved_namespace
from perdure.core.times import to_datetime
from perdure.errors import InvalidFilterError, InvalidIdError, InvalidInputError, NotFoundError
from perdure.memory import MemoryManager, Source
from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES, Awaited, Place

ONLY = ["memory", "file", "sqlite", "postgres", "mysql", "hot_sqlite"]
DAY = timedelta(days=1)


@asynccontextmanager
async def memories(place: Place, mode: str = "async", **options: Any) -> AsyncIterator[Any]:
    """What makes managers, on a store that stays open; `clock` can be moved."""
    url, given = place
    clock = ManualClock()

    def maker(kind: Any, store: Any) -> Any:
        def make(user: Any = "alice", **more: Any) -> Any:
            made = kind(store, user=user, **more)
            return Awaited(made) if kind is sync.MemoryManager else made

        make.clock, make.store = clock, store  # type: ignore[attr-defined]
        return make

    if mode == "sync":
        with sync.Perdure.open(url, clock=clock, **given, **options) as store:
            yield maker(sync.MemoryManager, store)
    else:
        async with Perdure.open(url, clock=clock, **given, **options) as store:
            yield maker(MemoryManager, store)


def texts(found: Any) -> list[str]:
    return [each.text for each in found]


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("kind", ONLY)
async def test_a_memory_has_every_method_on_every_storage(kind: str, mode: str, tmp_path: Path) -> None:
    """S0.26, S0.31, N1: facts about a user across threads: preferences, facts and outcomes, in the storage itself."""
    async with memories(PLACES[kind](tmp_path), mode) as make:
        alice, bob = make("alice"), make("bob")
        seat = await alice.add_text(
            "User prefers window seats", kind="preference", tags=["travel"], source=("ticket-1", 4), author="alice",
            agent="flights", metadata={"channel": "mail"}, confidence=0.8,
        )  # fmt: skip
        assert (seat.kind, seat.source, seat.user, seat.tags) == (
            "preference",
            Source("ticket-1", 4),
            "alice",
            ("travel",),
        )
        await alice.add_messages([{"role": "user", "content": "I fly to Rome"}, {"role": "tool", "content": "secret"}])
        stated = await alice.add_with_extraction([
            {"role": "user", "content": "My birthday is March 15th and I love Italian food"},
            {"role": "assistant", "content": "I've booked the table."},
        ])  # fmt: skip
        assert texts(stated) == [
            "User's birthday is March 15th",
            "User likes Italian food",
            "Assistant booked the table",
        ]
        assert [each.kind for each in stated] == ["fact", "preference", "outcome"]
        assert texts(await bob.get_all()) == [] == await bob.search("seats")

        (hit,) = await alice.search("seat preference", 1)
        assert (hit.id, hit["text"], hit.why) == (seat.id, seat.text, ("words: prefers, seats",))
        for filters in ({"kind": "preference", "agent": "flights"}, {"tags": ["travel"]}, {"channel": "mail"},
                        {"thread": "ticket-1"}, {"author": ["alice", "bob"]}):  # fmt: skip
            assert texts(await alice.get_all(filters=filters)) == [seat.text]
        assert await alice.search("seats", filters={"channel": "post"}) == []

        make.clock.advance(DAY)
        aisle = await alice.update(seat.id, "User prefers aisle seats")
        assert aisle.supersedes == (seat.id,)
        assert (aisle.kind, aisle.tags, aisle.agent) == ("preference", ("travel",), "flights")
        assert texts(await alice.history(seat.id)) == texts(await alice.history(aisle.id)) == [seat.text, aisle.text]
        assert (await alice.get(seat.id)).superseded_by == aisle.id
        assert texts(await alice.search("window seats")) == [aisle.text]
        assert texts(await alice.search("window seats", superseded=True)) == [aisle.text, seat.text]
        before = (await alice.get(aisle.id)).valid_from - timedelta(seconds=1)
        assert texts(await alice.search("seats", as_of=before)) == [seat.text]
        assert len(await alice.get_all()) == 5
        assert len(await alice.get_all(superseded=True)) == 6
        assert (await alice.stats()).kinds == {"preference": 2, "fact": 2, "outcome": 1}

        block = await alice.build_context("which seat", max_tokens=500)
        assert block.index("aisle seats") < block.index("Italian food")
        assert "window" not in block
        assert await alice.delete(aisle.id) is True
        assert await alice.delete(aisle.id) is False
        assert await alice.search("seats window aisle", superseded=True) == []
        with pytest.raises(NotFoundError):
            await alice.get(seat.id)
        with pytest.raises(NotFoundError):
            await bob.history(stated[0].id)
        assert await bob.delete(stated[0].id) is False
        assert await alice.delete_all() == 4
        assert await alice.get_all(superseded=True) == []


@pytest.mark.parametrize("kind", [*ONLY, "hot_postgres"])
async def test_a_deleted_fact_is_in_no_store_that_is_opened_later_and_in_no_bytes(kind: str, tmp_path: Path) -> None:
    place = PLACES[kind](tmp_path)
    async with memories(place) as make:
        memory, other = make(), make("bob")
        canary = await memory.add_text(
            "User's locker is zebracanary", tags=["zebracanary"], metadata={"a": "zebracanary"}
        )
        newer = await memory.update(canary.id, "User's locker is zebracanary two")
        stays = await other.add_text("User's locker is blue")
        assert await memory.delete(newer.id)
        log = ThreadKey(reserved_namespace(FACTS, ""), "alice", "facts")
        entries = await make.store._parts.storage.entries(log)
        assert [each.kind.value for each in entries] == ["message.added"] * 2 + ["message.deleted"] * 2
        assert not any(b"zebracanary" in bytes(each.payload or b"") for each in entries)
        assert (await make.store._parts.verifier.look(log)).report.ok
        await make.store.compact()
    async with memories(place) as make:
        if kind == "memory":
            return
        assert await make().search("zebracanary locker", superseded=True) == []
        assert texts(await make("bob").get_all()) == [stays.text]
    if kind in ("file", "sqlite"):
        stored = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
        assert b"zebracanary" not in stored


@pytest.mark.parametrize("kind", ONLY)
async def test_forgetting_a_user_covers_the_memory(kind: str, tmp_path: Path) -> None:
    async with memories(PLACES[kind](tmp_path)) as make:
        await make().add_text("User likes zebras")
        await make("bob").add_text("User likes cats")
        store = make.store
        preview = await store.forget("alice")
        assert preview.counts["facts"] == 1
        assert [each.part for each in preview.threads] == ["memory"]
        done = await store.forget("alice", dry_run=False)
        assert done.is_complete
        assert done.counts["facts"] == 1
        assert await make().get_all(superseded=True) == []
        assert texts(await make("bob").get_all()) == ["User likes cats"]


async def test_what_another_process_writes_is_found_at_once(tmp_path: Path) -> None:
    place = PLACES["sqlite"](tmp_path)
    async with memories(place) as here, memories(place) as there:
        fact = await here().add_text("User likes tea")
        assert texts(await there().search("tea")) == ["User likes tea"]
        await there().update(fact.id, "User likes coffee")
        assert texts(await here().get_all()) == ["User likes coffee"]
        await here().delete_all()
        assert await there().get_all(superseded=True) == []
        await here().add_text("User likes milk")
        assert texts(await there().get_all(superseded=True)) == ["User likes milk"]


async def test_tasks_that_read_and_write_at_once_see_one_order(tmp_path: Path) -> None:
    async with memories(PLACES["sqlite"](tmp_path)) as make:
        memory = make()
        await asyncio.gather(*(memory.add_text(f"User owns {at} boats", subject="boats") for at in range(10)))
        (only,) = await memory.get_all()
        assert len(await memory.history(only.id)) == 10


async def test_of_two_who_correct_the_same_fact_the_later_one_wins(tmp_path: Path) -> None:
    async with memories(PLACES["memory"](tmp_path)) as make:
        memory = make()
        old = await memory.add_text("User lives in Oslo")
        await memory.add_text("User lives in Rome", supersedes=[old.id])
        await memory.add_text("User lives in Bern", supersedes=[old.id])
        assert texts(await memory.get_all()) == ["User lives in Bern"]
        assert texts(await memory.history(old.id)) == ["User lives in Oslo", "User lives in Rome", "User lives in Bern"]


async def test_what_is_known_is_merged(tmp_path: Path) -> None:
    async with memories(PLACES["memory"](tmp_path)) as make:
        memory = make()
        first = await memory.add_text("User likes tea.", tags=["a"])
        again = await memory.add_text("  user LIKES tea", tags=["b"])
        assert (again.id, again.tags, again.mentions) == (first.id, ("a", "b"), 2)
        await memory.add_text("User likes milk", source=("t", 3))
        assert (await memory.add_text("User likes milk", source=("t", 3))).mentions == 1  # the same entry, read again
        await memory.add_messages([{"role": "user", "content": "hello"}, {"role": "user", "content": "Hello"}])
        assert [each.mentions for each in await memory.get_all() if each.text == "hello"] == [2]
        mine = await memory.add_text("User has an id", id="mine")
        assert await memory.add_text("User has another text", id="mine") == mine


async def test_a_fact_holds_from_one_time_to_another(tmp_path: Path) -> None:
    async with memories(PLACES["memory"](tmp_path)) as make:
        memory, now = make(), to_datetime(make.clock.now())
        await memory.add_text("User was in Rome", valid_from=now - 9 * DAY, valid_to=now - 5 * DAY)
        await memory.add_text("User is in Bern from tomorrow", valid_from=now + DAY)
        assert await memory.get_all() == []
        assert texts(await memory.get_all(as_of=now - 6 * DAY)) == ["User was in Rome"]
        assert texts(await memory.search("bern", as_of=now + 2 * DAY)) == ["User is in Bern from tomorrow"]
        ended = await memory.update((await memory.get_all(as_of=now + 2 * DAY))[0].id, valid_to=now + 3 * DAY)
        assert ended.valid_to == now + 3 * DAY
        with pytest.raises(InvalidInputError, match="valid_to must be after"):
            await memory.add_text("x", valid_from=now, valid_to=now)


WRONG: list[tuple[str, dict[str, Any], type[Exception]]] = [
    ("add_text", {"text": " "}, InvalidInputError),
    ("add_text", {"text": "x" * 8_001}, InvalidInputError),
    ("add_text", {"text": "nul \0"}, InvalidInputError),
    ("add_text", {"text": "x", "kind": "rumour"}, InvalidInputError),
    ("add_text", {"text": "x", "tags": "one"}, InvalidInputError),
    ("add_text", {"text": "x", "confidence": 2}, InvalidInputError),
    ("add_text", {"text": "x", "source": ("t", 0)}, InvalidInputError),
    ("add_text", {"text": "x", "valid_from": "today"}, InvalidInputError),
    ("add_text", {"text": "x", "metadata": [1]}, InvalidInputError),
    ("add_text", {"text": "x", "metadata": {"a": "x" * 70_000}}, InvalidInputError),
    ("add_text", {"text": "x", "supersedes": ["none"]}, NotFoundError),
    ("add_messages", {"messages": "hello"}, InvalidInputError),
    ("add_messages", {"messages": [{"role": "user"}]}, InvalidInputError),
    ("search", {"query": 3}, InvalidInputError),
    ("search", {"query": "x", "limit": -1}, InvalidFilterError),
    ("search", {"query": "x", "filters": ["kind"]}, InvalidFilterError),
    ("search", {"query": "x", "as_of": "today"}, InvalidInputError),
    ("get", {"fact_id": ""}, InvalidIdError),
    ("update", {"fact_id": "none", "text": "x"}, NotFoundError),
    ("build_context", {"max_tokens": -1}, InvalidInputError),
]


@pytest.mark.parametrize(("name", "given", "error"), WRONG, ids=lambda each: str(each)[:40])
async def test_what_cannot_be_kept_is_refused_and_changes_nothing(
    name: str, given: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    async with memories(PLACES["memory"](tmp_path)) as make:
        with pytest.raises(error):
            await getattr(make(), name)(**given)
        assert await make().get_all(superseded=True) == []


async def test_a_manager_says_what_it_needs(tmp_path: Path) -> None:
    async with memories(PLACES["memory"](tmp_path)) as make:
        with pytest.raises(InvalidIdError, match="is missing"):
            await MemoryManager(make.store).add_text("x")
        with pytest.raises(InvalidInputError, match=r"from perdure\.sync import MemoryManager"):
            MemoryManager(sync.Perdure.open("memory://"), user="alice")  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match=r"perdure\.sync\.Perdure"):
            sync.MemoryManager(make.store, user="alice")
        assert (await MemoryManager(make.store).for_user("bob").add_text("x")).user == "bob"


def test_sqlite_here_has_what_the_index_needs() -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
