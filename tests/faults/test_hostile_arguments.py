"""Arguments that nobody should give: they work, or are refused in our words, and the store goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import sync
from perdure.core.errors import InvalidInputError, PerdureError
from tests.faults.places import BACKENDS, raised, same, url_of

ARGUMENTS: dict[str, Callable[[sync.Thread], object]] = {
    "note with a surrogate": lambda thread: thread.save({"n": 2}, note="\ud800"),
    "status with a surrogate": lambda thread: thread.save({"n": 2}, status="\ud800"),
    "kind with a NUL": lambda thread: thread.save({"n": 2}, kind="\0"),
    "metadata that is a list": lambda thread: thread.save({"n": 2}, metadata=[1]),  # type: ignore[arg-type]
    "expected too large": lambda thread: thread.save({"n": 2}, expected=2**80),
    "expected too large, with a key": lambda thread: thread.save({"n": 2}, expected=2**80, key="k"),
    "history of a huge limit": lambda thread: thread.history(limit=2**80),
    "entries after a huge version": lambda thread: thread.entries(after=2**80),
    "entries after a text": lambda thread: thread.entries(after="x"),  # type: ignore[arg-type]
    "load of a huge version": lambda thread: thread.load(2**80),
    "load of a huge step back": lambda thread: thread.load(-(2**80)),
    "load of a long number": lambda thread: thread.load("@" + "9" * 5000),
    "load of a far year": lambda thread: thread.load("@999999w"),
    "history before nothing": lambda thread: thread.history(before="\ud800"),
    "history of a strange kind": lambda thread: thread.history(kind="\ud800"),
    "filter of an object": lambda thread: thread.history(metadata={"a": object()}),
    "path with a surrogate": lambda thread: thread.update(set={"\ud800": 1}),
    "path that is empty": lambda thread: thread.update(set={"": 1}),
    "path of a huge index": lambda thread: thread.update(set={("n", 2**80): 1}),
    "path of an object": lambda thread: thread.update(set={object(): 1}),
    "append to no list": lambda thread: thread.append("n", 1),
    "delete what is not there": lambda thread: thread.update(delete=["nope.nope"]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_strange_argument_works_or_is_refused_in_our_words(backend: str, name: str, tmp_path: Path) -> None:
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        thread = store.thread("t")
        thread.save({"n": 1})
        before = copy.deepcopy(thread.load())
        error = raised(lambda: ARGUMENTS[name](thread))
        assert error is None or (isinstance(error, PerdureError) and type(error) is not PerdureError), repr(error)
        if isinstance(error, InvalidInputError):
            assert same(thread.load(), before)
        store.thread("t").append("more", 1)
        assert store.thread("t").load()["more"] == [1]


@pytest.mark.parametrize("name", ["agent", "name", "tags"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_strange_label_works_or_is_refused_in_our_words(backend: str, name: str, tmp_path: Path) -> None:
    for bad in ("\ud800", "\0", "", "x" * 10_000, 7, object()):
        with sync.Perdure.open(url_of(backend, tmp_path)) as store:
            given = (bad,) if name == "tags" else bad
            error = raised(lambda given=given, store=store: store.thread("t", **{name: given}).append("n", 1))
            assert error is None or isinstance(error, InvalidInputError), (bad, repr(error))
            store.thread("u").append("n", 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_handle_outlives_the_name_of_its_store(backend: str, tmp_path: Path) -> None:
    thread = sync.Perdure.open(url_of(backend, tmp_path)).thread("t")
    assert raised(lambda: thread.append("n", 1)) is None
