"""Random operations on our long-term store and on LangGraph's own in memory: the answers are the same."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from perdure.adapters.langgraph import PerdureStore
from perdure.testing.servers import require, shared_postgres

WORDS = ("cat", "dog", "bird")
_NUMBERS = itertools.count()


def embed(texts: list[str]) -> list[list[float]]:
    return [[text.count(word) + 0.25 for word in WORDS] for text in texts]


INDEX: Any = {"dims": 3, "embed": embed, "fields": ["text"]}


class Looked(dict[Any, Any]):
    """Items by namespace, for those who only look."""

    def __missing__(self, namespace: Any) -> dict[str, Any]:
        return {}


class Model(InMemoryStore):
    """LangGraph's store, without slips of it that ours does not repeat.

    Looking at a namespace makes it, an empty one is listed, an item that is put again keeps the vectors it had, and two
    items with the same text cannot be put together.
    """

    def _prepare_ops(self, ops: Any) -> Any:
        whole = self._data
        self._data = Looked({namespace: items for namespace, items in whole.items() if items})
        try:
            return super()._prepare_ops(ops)
        finally:
            self._data = whole

    def _extract_texts(self, put_ops: Any) -> Any:
        for namespace, key in put_ops:
            self._vectors[namespace].pop(key, None)
        return super()._extract_texts(put_ops)

    def _insertinmem_store(self, to_embed: Any, embeddings: Any) -> None:
        for vector, places in zip(embeddings, to_embed.values(), strict=True):
            for namespace, key, path in places:
                self._vectors[namespace][key][path] = vector

    def _apply_put_ops(self, put_ops: Any) -> None:
        before = set(self._data)
        super()._apply_put_ops(put_ops)
        for namespace in set(self._data) - before:
            if not self._data[namespace]:
                del self._data[namespace]


# Few namespaces and loose filters: of wide ones hardly a search found two items to put in order.
namespaces = st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("b",), ("*", "b"), ("a.b",), ("ü",)])
prefixes = st.sampled_from([(), (), ("a",), ("a", "b"), ("*",), ("b",), ("a.b",), ("*", "b")])
names = st.sampled_from(["k", "l", "k.l", "", "a longer key"])
few = st.integers(0, 5)
many = st.integers(1, 20)
numbers = st.integers(-3, 3)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.sampled_from(["1", "x", "cat dog"]))
several = st.lists(scalars, max_size=2)
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
inside = st.fixed_dictionaries({"y": scalars})
values = st.fixed_dictionaries({"n": numbers, "x": scalars}, optional={"text": words, "d": inside, "l": several})
texts = st.fixed_dictionaries({"n": numbers, "x": st.just(1), "text": words})

orders = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), numbers, min_size=1, max_size=2)
equals = st.dictionaries(st.sampled_from(["$eq", "$ne"]), scalars, min_size=1)
nested = st.fixed_dictionaries({"y": scalars | equals})
loose = st.sampled_from([None, None, {}, {"n": {"$gte": -2}}, {"x": {"$ne": "x"}}, {"n": {"$lt": 2, "$gt": -3}}])
tight = st.fixed_dictionaries({}, optional={"n": orders | equals, "x": scalars | equals, "d": nested, "l": several})
filters = loose | loose | tight
kinds = st.sampled_from(["prefix", "suffix"])
conditions = st.lists(st.builds(MatchCondition, kinds, prefixes), max_size=2).map(tuple)

indexed = st.sampled_from([None, None, None, False])
puts = st.builds(PutOp, namespaces, names, values | texts | texts, indexed, st.none())
deletes = st.builds(PutOp, namespaces, names, st.none(), st.none(), st.none())
gets = st.builds(GetOp, namespaces, names, st.just(True))
searches = st.builds(SearchOp, prefixes, filters, many | few, few | st.just(0), st.none(), st.just(True))
questions = st.builds(SearchOp, prefixes, filters, many, st.just(0), words, st.just(True))
lists = st.builds(ListNamespacesOp, conditions, st.none() | st.integers(1, 3), many | few, few | st.just(0))
mixed = st.lists(puts | puts | puts | deletes | gets | searches | questions, min_size=1, max_size=4)
batches = mixed | mixed | mixed | st.lists(lists, min_size=1, max_size=2)
games = st.lists(st.lists(puts, min_size=2, max_size=6) | batches, min_size=5, max_size=25)


def shown(answer: Any) -> Any:
    """An answer without its times: LangGraph's store in memory forgets when an item was made."""
    if isinstance(answer, list):
        return [shown(each) for each in answer]
    if not hasattr(answer, "value"):
        return answer
    score = getattr(answer, "score", None)
    return (answer.namespace, answer.key, answer.value, None if score is None else round(score, 9))


@contextmanager
def place(kind: str) -> Iterator[str]:
    if kind == "memory":
        yield "memory://"
    elif kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder, 'x.db')}"
    else:
        name = f"like_memory_{next(_NUMBERS)}"
        server = require(shared_postgres)
        try:
            yield server.database(name)
        finally:
            server.drop(name)


def agree(kind: str, all_ops: list[list[Op]], index: Any) -> None:
    model = Model(index=index)
    with place(kind) as url, PerdureStore.open(url, index=index) as store:
        for ops in all_ops:
            assert shown(store.batch(ops)) == shown(model.batch(ops))


@pytest.mark.parametrize("index", [None, INDEX], ids=["plain", "indexed"])
@settings(max_examples=100)
@given(all_ops=games)
def test_it_answers_as_langgraphs_own_in_memory(index: Any, all_ops: list[list[Op]]) -> None:
    agree("memory", all_ops, index)


@pytest.mark.parametrize("index", [None, INDEX], ids=["plain", "indexed"])
@settings(max_examples=25)
@given(all_ops=games)
def test_it_answers_the_same_on_sqlite(index: Any, all_ops: list[list[Op]]) -> None:
    agree("sqlite", all_ops, index)


@settings(max_examples=25)
@given(all_ops=games)
def test_it_answers_the_same_to_asynchronous_callers(all_ops: list[list[Op]]) -> None:
    async def ask(url: str) -> list[Any]:
        async with PerdureStore.open(url, index=INDEX) as store:
            return [shown(await store.abatch(ops)) for ops in all_ops]

    model = Model(index=INDEX)
    with place("sqlite") as url:
        assert asyncio.run(ask(url)) == [shown(model.batch(ops)) for ops in all_ops]


@settings(max_examples=10)
@given(all_ops=games)
def test_it_answers_the_same_on_postgresql(all_ops: list[list[Op]]) -> None:
    agree("postgres", all_ops, INDEX)
