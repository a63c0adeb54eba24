"""Every version comes back exactly as it was given, whatever was done to the state in place."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from tests.faults.places import BACKENDS, DURABLE, same, url_of

VERSIONS = 120
State = dict[str, Any]
_ONES = (1, True, 1.0, "1", None, [1], (1,), {"one": 1}, float("nan"), -0.0, 0.0, 0, False)


def _fresh() -> State:
    return {
        "items": [{"id": n, "tags": ["a"], "deep": {"n": {"m": n}}} for n in range(6)],
        "one": 1,
        "rows": [[1, 2], [3]],
    }


def _element(state: State, rng: random.Random) -> None:
    rng.choice(state["items"])["tags"].append(rng.choice(_ONES))


def _nested(state: State, rng: random.Random) -> None:
    rng.choice(state["items"])["deep"]["n"]["m"] = rng.choice(_ONES)


def _kind(state: State, rng: random.Random) -> None:
    state["one"] = rng.choice(_ONES)


def _truncate(state: State, rng: random.Random) -> None:
    del state["items"][max(2, len(state["items"]) - rng.randrange(4)) :]


def _reorder(state: State, rng: random.Random) -> None:
    rng.shuffle(state["items"])
    state["rows"].reverse()


def _insert(state: State, rng: random.Random) -> None:
    state["items"].insert(
        rng.randrange(len(state["items"]) + 1), {"id": rng.random(), "tags": [], "deep": {"n": {"m": 0}}}
    )


def _twice(state: State, rng: random.Random) -> None:
    state["items"].append(copy.copy(rng.choice(state["items"])))  # shares its parts with another element


def _inside(state: State, rng: random.Random) -> None:
    state["rows"][rng.randrange(len(state["rows"]))].insert(0, rng.choice(_ONES))


def _remove(state: State, rng: random.Random) -> None:
    state.pop(f"key {rng.randrange(5)}", None)
    state[f"key {rng.randrange(5)}"] = rng.choice(_ONES)


def _large(state: State, rng: random.Random) -> None:
    state["text"] = rng.randbytes(rng.choice([10, 40_000])).hex()


def _nothing(state: State, rng: random.Random) -> None:
    """An unchanged save is a version too."""


CHANGES: tuple[Callable[[State, random.Random], None], ...] = (
    _element, _nested, _kind, _truncate, _reorder, _insert, _twice, _inside, _remove, _large, _nothing,
)  # fmt: skip


def _saved(store: sync.Perdure, rng: random.Random) -> list[State]:
    """One object, changed in place and saved again and again; copies of it as it was."""
    thread, state, copies = store.thread("t"), _fresh(), []
    for _ in range(VERSIONS):
        for change in rng.sample(CHANGES, rng.randrange(1, 4)):
            change(state, rng)
        thread.save(state)
        copies.append(copy.deepcopy(state))
    return copies


def _updated(store: sync.Perdure, rng: random.Random) -> list[State]:
    """The same by giving the change."""
    thread, state, copies = store.thread("t"), _fresh(), [_fresh()]
    thread.save(state)
    for _ in range(VERSIONS - 1):
        {0: _append, 1: _set, 2: _set_deep, 3: _several}[rng.randrange(4)](thread, state, rng)
        copies.append(copy.deepcopy(state))
    return copies


def _append(thread: sync.Thread, state: State, rng: random.Random) -> None:
    item = {"id": rng.random(), "tags": [rng.choice(_ONES)], "deep": {"n": {"m": None}}}
    thread.append("items", item)
    state["items"].append(copy.deepcopy(item))
    item["tags"].append("changed after it was given")


def _set(thread: sync.Thread, state: State, rng: random.Random) -> None:
    given = {"one": copy.deepcopy(rng.choice(_ONES)), f"key {rng.randrange(3)}": rng.random()}
    thread.update(set=given)
    state.update(given)


def _set_deep(thread: sync.Thread, state: State, rng: random.Random) -> None:
    at, value = rng.randrange(len(state["items"])), copy.deepcopy(rng.choice(_ONES))
    thread.update(set={("items", at, "deep", "n", "m"): value})
    state["items"][at]["deep"]["n"]["m"] = value


def _several(thread: sync.Thread, state: State, rng: random.Random) -> None:
    row, text = [rng.choice((1, True, 1.0))], "x" * rng.choice([5, 70_000])
    gone = [key for key in state if key.startswith("key ")]
    thread.update(set={"text": text}, append={"rows": [row]}, delete=gone)
    for key in gone:
        del state[key]
    state["text"] = text
    state["rows"].append(copy.deepcopy(row))


@pytest.mark.parametrize("door", [_saved, _updated], ids=["whole state", "change"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_version_is_restored_exactly(
    backend: str, door: Callable[[sync.Perdure, random.Random], list[State]], tmp_path: Path
) -> None:
    url = url_of(backend, tmp_path)
    with sync.Perdure.open(url) as store:
        copies = door(store, random.Random(f"{backend} 11"))
        assert _wrong(store, copies) == []
        if backend in DURABLE:
            store.close()
            with sync.Perdure.open(url) as cold:
                assert _wrong(cold, copies) == []


def _wrong(store: sync.Perdure, copies: list[State]) -> list[object]:
    thread = store.thread("t")
    wrong: list[object] = [n for n, state in enumerate(copies, 1) if not same(thread.load(f"@{n}"), state)]
    return wrong if same(thread.load(), copies[-1]) else [*wrong, "the newest"]


def test_what_a_caller_does_to_a_loaded_state_changes_nothing(tmp_path: Path) -> None:
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store:
        thread = store.thread("t")
        thread.save(_fresh())
        thread.load()["items"][0]["tags"].append("mine")
        thread.load("@1")["items"].clear()
        assert same(store.thread("t").load(), _fresh())
        thread.append("rows", [9])
        assert same(store.thread("t").load(), {**_fresh(), "rows": [[1, 2], [3], [9]]})
