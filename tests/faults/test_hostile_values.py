"""Values that break serialisers: kept exactly, or refused at save with the place named; nothing half saved."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from perdure.core.errors import UnsupportedValueError
from tests.faults.places import BACKENDS, DURABLE, raised, same, url_of

MILLION = 1_000_000 - 1  # keys: with their values and the mapping, as many nodes as a value may have


def _nested(depth: int, kind: type) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"d": value} if kind is dict else kind([value])
    return value


def _cycle() -> Any:
    value: dict[str, Any] = {"a": {"list": [1]}}
    value["a"]["list"].append(value)
    return value


def _two_cycles() -> Any:
    value: list[Any] = []
    value += [value, value]
    return {"x": value}


def _laughs(levels: int, kind: type = list) -> Any:
    value: Any = "lol"
    for _ in range(levels):
        value = kind([value] * 10)
    return {"laughs": value}


class _Sub(dict[str, Any]):
    """A dict that is more."""


KEPT: dict[str, Callable[[], Any]] = {
    "lone surrogates": lambda: {"a": "\ud800", "\udfff": [1, "x\udc00y"], "n": "a\0b"},
    "numbers": lambda: {
        "nan": math.nan,
        "inf": [math.inf, -math.inf],
        "zero": -0.0,
        "big": 10**200,
        "small": -(10**200),
    },
    "edges of ints": lambda: {"n": [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 2**2000]},
    "types": lambda: {"a": [1, True, 1.0, None, "1", b"1", (1,), [1], (), [], {}]},
    "keys": lambda: {"": 1, ".": 2, "a.b": {"c.d": 3}, "\0": 4, "x" * 10_000: 5},
    "keys of other types": lambda: {True: "b", 2: "a", (1, 2): "c", None: "d", 1.5: "e"},
    "shared": lambda: (lambda part: {"a": part, "b": part, "c": [part, part]})({"x": [1, 2]}),
    "some laughs": lambda: _laughs(4),
    "ninety deep": lambda: _nested(90, dict),
    "a large text": lambda: {"t": "é" * 200_000, "b": bytes(200_000)},
    "not a dict": lambda: [1, {"a": 2}],
    "nothing": lambda: None,
}
REFUSED: dict[str, Callable[[], Any]] = {
    "nested 100,000 deep": lambda: {"deep": _nested(100_000, list)},
    "dicts 100,000 deep": lambda: {"deep": _nested(100_000, dict)},
    "tuples 100,000 deep": lambda: {"deep": _nested(100_000, tuple)},
    "a cycle": _cycle,
    "an object": lambda: {"tools": [1, {"client": object()}]},
    "a subclass": lambda: {"a": [_Sub(x=1)]},
    "a function": lambda: {"a": print},
    "a generator": lambda: {"a": (each for each in ())},
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", KEPT)
def test_a_strange_value_comes_back_as_it_was(backend: str, name: str, tmp_path: Path) -> None:
    value = KEPT[name]()
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        store.thread("t").save(value)
        assert same(store.thread("t").load(), value)
        store.thread("u").append("list", value)
        assert same(store.thread("u").load(), {"list": [value]})
        if backend != "memory":
            with sync.Perdure.open(url_of(backend, tmp_path)) as cold:
                assert same(cold.thread("t").load(), value)
                assert same(cold.thread("u").load("@1"), {"list": [value]})


@pytest.mark.parametrize("backend", DURABLE)
def test_a_million_keys_come_back(backend: str, tmp_path: Path) -> None:
    value = {str(number): number for number in range(MILLION)}
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        store.thread("t").save(value)
    with sync.Perdure.open(url_of(backend, tmp_path)) as cold:
        assert cold.thread("t").load() == value


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused_with_its_path_and_nothing_is_saved(
    backend: str, name: str, tmp_path: Path
) -> None:
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        thread = store.thread("t")
        thread.save({"n": 1})
        value = REFUSED[name]()
        for attempt in (
            lambda: thread.save(value),
            lambda: thread.append("x", value),
            lambda: thread.update(set={"x": value}),
        ):
            with pytest.raises(UnsupportedValueError) as refused:
                attempt()
            assert refused.value.path
        assert raised(lambda: thread.save({"n": 2}, metadata={"m": value})) is not None
        assert (thread.load(), thread.info().version, len(thread.history())) == ({"n": 1}, 1, 1)
        thread.save({"n": 3})
        assert thread.load() == {"n": 3}


def _laughing(url: str, name: str) -> str:
    """Save a value that unfolds to 10^12 parts, in a process with little memory and time; say how it ended."""
    script = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from perdure import sync\n"
        "from tests.faults.test_hostile_values import LAUGHS\n"
        "store = sync.Perdure.open(sys.argv[1])\n"
        "try:\n    store.thread('t').save(LAUGHS[sys.argv[2]]())\n    print('saved')\n"
        "except BaseException as exc:\n    print(type(exc).__name__)\n"
    )
    command = [sys.executable, "-c", script, url, name]
    try:
        run = subprocess.run(
            command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=25, check=False
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    return run.stdout.strip() or run.stderr[-200:]


LAUGHS: dict[str, Callable[[], Any]] = {
    "lists": lambda: _laughs(12),
    "tuples": lambda: _laughs(12, tuple),
    "two cycles": _two_cycles,
}


@pytest.mark.parametrize("name", LAUGHS)
def test_a_value_that_unfolds_without_end_is_refused_soon(name: str, tmp_path: Path) -> None:
    said = _laughing(url_of("sqlite", tmp_path), name)
    assert said in {"UnsupportedValueError", "CyclicValueError", "NestingTooDeepError"}
