"""LangGraph's long-term store on storages of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp

import perdure
from perdure import sync
from perdure.adapters.langgraph import PerdureSaver, PerdureStore
from perdure.errors import InvalidInputError, UnsupportedValueError
from perdure.testing import ManualClock
from perdure.testing.servers import require, shared_postgres
from tests.adapters.langgraph.putting_child import SPACE, begin, said, start

USERS = ("users", "alice")
STRANGE = ["a b", "ü", "'; DROP TABLE x; --", '["a"]', "\x1e", "\x1f", "*", "%", "/", "sha256:", "é" * 600]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agents.db"


@pytest.fixture
def store(url: str) -> Iterator[PerdureStore]:
    with PerdureStore.open(url) as opened:
        yield opened


def values(found: list[Any]) -> list[Any]:
    return [item.value for item in found]


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


def test_an_item_that_was_put_is_there_until_it_is_deleted(store: PerdureStore) -> None:
    store.put(USERS, "prefs", {"theme": "dark"})
    item = store.get(USERS, "prefs")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (USERS, "prefs", {"theme": "dark"})
    store.delete(USERS, "prefs")
    assert (store.get(USERS, "prefs"), store.search(()), store.list_namespaces()) == (None, [], [])


def test_putting_again_keeps_when_it_was_made(tmp_path: Path) -> None:
    clock = ManualClock()
    with PerdureStore.open(f"sqlite:///{tmp_path}/x.db", clock=clock) as store:
        store.put(USERS, "prefs", {"theme": "dark"})
        clock.advance(timedelta(hours=1))
        store.put(USERS, "prefs", {"theme": "light"})
        item = store.get(USERS, "prefs")
    assert item is not None
    assert (item.value, item.updated_at - item.created_at) == ({"theme": "light"}, timedelta(hours=1))


@pytest.mark.parametrize("label", STRANGE)
def test_any_text_is_a_label_and_a_key(store: PerdureStore, label: str) -> None:
    store.put((label, "x"), label, {"n": 1})
    store.put(("x", label), "", {"n": 2})
    assert [item.value for item in (store.get((label, "x"), label), store.get(("x", label), "")) if item] == [
        {"n": 1},
        {"n": 2},
    ]
    assert keys(store.search((label,))) == [label]
    assert sorted(store.list_namespaces()) == sorted([(label, "x"), ("x", label)])


def test_namespaces_that_langgraph_refuses_are_refused(store: PerdureStore) -> None:
    for namespace in ((), ("a.b",), ("",), ("langgraph",), ("a\0",)):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {})


def test_a_dot_that_comes_through_a_batch_is_a_label_like_any_other(store: PerdureStore) -> None:
    store.batch([PutOp(("a.b",), "x.y", {"n": 1}), PutOp(("a", "b"), "x", {"y": 2})])
    assert values(store.search(("a",))) == [{"y": 2}]
    assert store.batch([GetOp(("a.b",), "x.y")])[0].value == {"n": 1}


def test_lone_surrogates_are_refused_by_their_name(store: PerdureStore) -> None:
    with pytest.raises(InvalidInputError, match=r"the key .* lone surrogate"):
        store.put(USERS, "\ud800", {})
    with pytest.raises(InvalidInputError, match=r"the namespace .* lone surrogate"):
        store.put(("\ud800",), "k", {})


def test_values_come_back_with_their_types(store: PerdureStore) -> None:
    value = {"at": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 2), "price": Decimal("1.10"), "pair": (1, 2)}
    store.put(USERS, "typed", {**value, "said": HumanMessage("hi")})
    item = store.get(USERS, "typed")
    assert item is not None
    assert item.value == {**value, "said": HumanMessage("hi")}


def test_an_unknown_class_is_refused_with_its_place_and_nothing_is_written(store: PerdureStore) -> None:
    class Client: ...

    with pytest.raises(UnsupportedValueError, match=r"value\.tools\[1\]"):
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("b",), "k", {"tools": [1, Client()]})])
    assert store.search(()) == []


def test_a_batch_of_puts_is_one_write_of_its_namespace(url: str) -> None:
    with sync.Perdure.open(url) as opened:
        store = PerdureStore(opened)
        store.put(USERS, "first", {})
        before = _version(store)
        store.batch([PutOp(USERS, str(n), {"n": n}) for n in range(5)] + [PutOp(USERS, "first", None)])
        assert _version(store) == before + 1
        assert keys(store.search(USERS)) == ["0", "1", "2", "3", "4"]


def _version(store: PerdureStore) -> int:
    async def version(memories: Any) -> int:
        row = await memories.parts.storage.thread(memories.key(USERS))
        return row.head

    return store._sides.run(version)


def test_reads_of_a_batch_come_before_its_writes(store: PerdureStore) -> None:
    store.put(USERS, "k", {"n": 1})
    put, got, found = store.batch([PutOp(USERS, "k", {"n": 2}), GetOp(USERS, "k"), SearchOp(USERS)])
    assert (put, got.value, values(found)) == (None, {"n": 1}, [{"n": 1}])


def test_values_are_compared_as_numbers_texts_or_not_at_all(store: PerdureStore) -> None:
    for key, value in {"a": 1, "b": "10", "c": "2026-01-01", "d": None, "e": datetime(2026, 1, 1, tzinfo=UTC)}.items():
        store.put(USERS, key, {"x": value})
    store.put(USERS, "f", {})
    assert keys(store.search(USERS, filter={"x": {"$gte": 1}})) == ["a", "b"]
    assert keys(store.search(USERS, filter={"x": {"$gt": "2025-06-01"}})) == ["c"]
    assert keys(store.search(USERS, filter={"x": {"$lt": datetime(2027, 1, 1, tzinfo=UTC)}})) == ["e"]
    with pytest.raises(InvalidInputError, match=r"no '\$like'"):
        store.search(USERS, filter={"x": {"$like": 1}})


def test_the_store_is_in_no_list_of_threads_and_beside_the_saver(url: str) -> None:
    with sync.Perdure.open(url) as opened:
        store, saver = PerdureStore(opened), PerdureSaver(opened)
        store.put(USERS, "k", {})
        assert (list(opened.threads()), list(saver.list(None))) == ([], [])
        saver.delete_thread("store")
        assert keys(store.search(())) == ["k"]
        assert opened.verify().ok


def test_users_and_namespaces_of_ours_do_not_see_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    for options in ({"user": "alice"}, {"user": "bob"}, {"namespace": "other"}, {}):
        with PerdureStore.open(url, **options) as store:
            assert store.search(()) == []
            store.put(("a",), "k", dict(options))
            assert values(store.search(())) == [options]


def test_pruning_drops_what_items_were_before(tmp_path: Path) -> None:
    with sync.Perdure.open(f"sqlite:///{tmp_path}/x.db") as opened:
        store = PerdureStore(opened)
        store.put(USERS, "secret", {"word": "swordfish" * 20})
        store.put(USERS, "kept", {"n": 1})
        store.delete(USERS, "secret")
        assert b"swordfish" in _logged(store)
        store.prune()
        assert b"swordfish" not in _logged(store)
        assert values(store.search(())) == [{"n": 1}]
        assert opened.verify().ok


def _logged(store: PerdureStore) -> bytes:
    from perdure.core.envelope import unseal

    async def logged(memories: Any) -> bytes:
        entries = await memories.parts.storage.entries(memories.key(USERS))
        return b"".join(unseal(entry.payload) for entry in entries if entry.payload)

    return store._sides.run(logged)


async def test_asynchronous_puts_at_the_same_time_all_stand(url: str) -> None:
    async with perdure.Perdure.open(url) as opened, PerdureStore(opened) as store:
        await asyncio.gather(*(store.aput((f"n{n % 3}",), str(n), {"n": n}) for n in range(24)))
        assert len(await store.asearch((), limit=100)) == 24
        assert await store.alist_namespaces() == [("n0",), ("n1",), ("n2",)]


async def test_asynchronous_puts_of_one_namespace_are_few_writes(tmp_path: Path) -> None:
    async with PerdureStore.open(f"sqlite:///{tmp_path}/x.db") as store:
        await asyncio.gather(*(store.aput(USERS, str(n % 50), {"n": n}) for n in range(100)))
        assert values(await store.asearch(USERS, limit=100)) == [{"n": n + 50} for n in range(50)]
        assert await asyncio.to_thread(_version, store) < 25  # how many come together is up to the event loop


async def test_a_task_that_is_cancelled_takes_no_other_put_with_it(tmp_path: Path) -> None:
    async with PerdureStore.open(f"sqlite:///{tmp_path}/x.db") as store:
        tasks = [asyncio.create_task(store.aput(USERS, str(n), {"n": n})) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        written = {str(n) for n, answer in enumerate(done) if answer is None}
        assert {str(n) for n in range(10)} - {"0", "3", "6", "9"} <= written <= set(keys(await store.asearch(USERS)))


async def test_one_store_serves_synchronous_and_asynchronous_callers(url: str) -> None:
    async with PerdureStore.open(url) as store:
        await store.aput(USERS, "k", {"n": 1})
        assert values([await asyncio.to_thread(store.get, USERS, "k")]) == [{"n": 1}]
        store.put(USERS, "k", {"n": 2})
        assert values(await store.asearch(USERS)) == [{"n": 2}]


def test_a_namespace_whose_first_put_was_never_made_is_nowhere(store: PerdureStore) -> None:
    """A process that died in between leaves a name above it, and nothing there."""
    store._sides.run(lambda memories: memories.name(("users",), ["alice"]))
    assert (store.list_namespaces(), store.search(())) == ([], [])
    store.put(USERS, "k", {})
    assert store.list_namespaces() == [USERS]


# Time to live


def test_an_item_whose_time_ran_out_is_not_read_and_is_dropped(url: str) -> None:
    clock = ManualClock()
    with sync.Perdure.open(url, clock=clock) as opened:
        store = PerdureStore(opened)
        store.put(USERS, "short", {"n": 1}, ttl=10)
        store.put(USERS, "long", {"n": 2})
        clock.advance(timedelta(minutes=10))
        assert store.get(USERS, "short") is None
        assert keys(store.search(())) == ["long"]
        assert store.sweep_ttl() == 0  # the read dropped it
        with pytest.raises(InvalidInputError, match="number of minutes"):
            store.put(USERS, "k", {}, ttl=float("nan"))


def test_reading_keeps_an_item_on_unless_told_not_to(url: str) -> None:
    clock = ManualClock()
    with sync.Perdure.open(url, clock=clock) as opened:
        store = PerdureStore(opened)
        for key in ("got", "found", "peeked"):
            store.put((key,), key, {}, ttl=10)
        clock.advance(timedelta(minutes=6))
        store.get(("got",), "got")
        store.search(("found",))
        store.get(("peeked",), "peeked", refresh_ttl=False)
        clock.advance(timedelta(minutes=6))
        assert keys(store.search(())) == ["got", "found"]


def test_a_sweep_counts_what_it_drops_and_namespaces_without_items_are_not_listed(url: str) -> None:
    clock = ManualClock()
    with sync.Perdure.open(url, clock=clock) as opened:
        store = PerdureStore(opened, ttl={"default_ttl": 5, "refresh_on_read": False})
        store.batch([PutOp(("a",), str(n), {}, ttl=5) for n in range(3)])
        store.put(("b", "c"), "default", {})
        store.put(("d",), "for ever", {}, ttl=None)
        clock.advance(timedelta(minutes=5))
        assert store.list_namespaces() == [("d",)]
        assert (store.sweep_ttl(), store.sweep_ttl()) == (4, 0)


# Search by meaning

WORDS = ("cat", "dog", "bird")


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(text.count(word)) for word in WORDS] for text in texts]


async def aembed(texts: list[str]) -> list[list[float]]:
    return embed(texts)


def test_search_by_meaning_survives_and_goes_by_what_is_indexed(tmp_path: Path) -> None:
    url, index = f"sqlite:///{tmp_path}/x.db", {"dims": 3, "embed": embed, "fields": ["text", "more[*]"]}
    with PerdureStore.open(url, index=index) as store:
        store.put(USERS, "cats", {"text": "cat cat", "more": ["dog"]})
        store.put(USERS, "birds", {"text": "bird"})
        store.put(USERS, "same", {"text": "bird", "more": ["bird", "cat dog"]})
        store.put(USERS, "other field", {"text": "cat", "title": "dog"}, index=["title"])
        store.put(USERS, "unindexed", {"text": "cat"}, index=False)
    with PerdureStore.open(url, index=index) as store:
        found = store.search(USERS, query="cat")
        assert [(item.key, item.score and round(item.score, 3)) for item in found] == [
            ("cats", 1.0), ("same", 0.707), ("birds", 0.0), ("other field", 0.0), ("unindexed", None),
        ]  # fmt: skip
        assert keys(store.search(USERS, query="cat", offset=1, limit=2)) == ["same", "birds"]
        store.put(USERS, "cats", {"text": "cat cat"}, index=False)
        assert store.search(USERS, query="cat")[-2].score is None  # its old vectors are gone


async def test_asynchronous_embeddings_are_awaited() -> None:
    async with PerdureStore.open("memory://", index={"dims": 3, "embed": aembed}) as store:
        await store.aput(USERS, "a", {"text": "dog", "at": datetime(2026, 1, 1, tzinfo=UTC)})
        await store.aput(USERS, "b", {"text": "cat"})
        assert keys(await store.asearch(USERS, query="cat", limit=1)) == ["b"]


def test_without_an_index_a_query_is_ignored(store: PerdureStore) -> None:
    store.put(USERS, "a", {"text": "dog"})
    store.put(USERS, "b", {"text": "cat"})
    assert [(item.key, item.score) for item in store.search(USERS, query="cat")] == [("a", None), ("b", None)]


# In graphs and processes


class State(TypedDict):
    said: str


def remember(state: State, *, store: BaseStore) -> State:
    store.put(USERS, "said", {"text": state["said"]})
    return state


def recall(state: State) -> State:
    item = get_store().get(USERS, "said")
    return {"said": f"you said {item.value['text']}" if item else "nothing"}


def graph(saver: Any, store: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_node("recall", recall)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "recall")
    builder.add_edge("recall", END)
    return builder.compile(checkpointer=saver, store=store)


def test_nodes_of_a_graph_share_it_with_the_checkpoints(url: str) -> None:
    with sync.Perdure.open(url) as opened:
        made = graph(PerdureSaver(opened), PerdureStore(opened))
        config = {"configurable": {"thread_id": "t1"}}
        assert made.invoke({"said": "hi"}, config) == {"said": "you said hi"}
        assert [info.id for info in opened.threads()] == ["t1"]


async def test_nodes_of_an_asynchronous_graph_share_it_too(tmp_path: Path) -> None:
    async def note(state: State, *, store: BaseStore) -> State:
        await store.aput(USERS, "said", {"text": state["said"]})
        return {"said": str(len(await store.asearch(("users",))))}

    builder = StateGraph(State)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    async with perdure.Perdure.open(f"sqlite:///{tmp_path}/x.db") as opened:
        made = builder.compile(checkpointer=PerdureSaver(opened), store=PerdureStore(opened))
        assert await made.ainvoke({"said": "hi"}, {"configurable": {"thread_id": "t1"}}) == {"said": "1"}


def test_a_put_that_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with start(url, "one", 1000) as child:
        begin(child)
        acknowledged = [int(said(child)) for _ in range(20)][-1]
        child.kill()
    with sync.Perdure.open(url) as opened:
        store = PerdureStore(opened)
        assert all(store.get(SPACE, f"one-{number}") for number in range(acknowledged + 1))
        assert store.list_namespaces() == [SPACE]
        assert opened.verify().ok


@pytest.fixture(params=["sqlite", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/agents.db"
        return
    server = require(shared_postgres)
    yield server.database("two_processes_put")
    server.drop("two_processes_put")


def test_two_processes_that_put_at_once_lose_nothing(shared: str) -> None:
    with start(shared, "one", 30) as one, start(shared, "two", 30) as two:
        for child in (one, two):
            begin(child)
        for child in (one, two):
            assert [int(said(child)) for _ in range(30)] == list(range(30))
            child.communicate()
    with PerdureStore.open(shared) as store:
        names = {f"{name}-{number}" for name in ("one", "two") for number in range(30)}
        assert set(keys(store.search(SPACE, limit=100))) == {*names, "shared"}
        last = store.get(SPACE, "shared")
        assert last is not None
        assert last.value["number"] == 29
