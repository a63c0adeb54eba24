"""Large texts that are no values of the state: in keys, paths, notes and metadata they stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import sync

LARGE = "x" * 100_000
WRITES: dict[str, Callable[[sync.Thread], Any]] = {
    "metadata": lambda thread: thread.save({"a": 2}, metadata={"text": LARGE, LARGE: 1}),
    "a note": lambda thread: thread.save({"a": 2}, note=LARGE),
    "a status": lambda thread: thread.save({"a": 2}, status=LARGE),
    "a path": lambda thread: thread.update(set={LARGE: 1}),
    "a deeper path": lambda thread: thread.update(set={("deep", LARGE, "z"): LARGE}),
    "a list at a path": lambda thread: thread.append(LARGE, LARGE, 1),
    "a key of the state": lambda thread: thread.save({LARGE: {LARGE: LARGE}, "a": (LARGE, {LARGE})}),
    "a deleted key": lambda thread: (thread.update(set={LARGE: 1}), thread.update(delete=[LARGE])),
}


@pytest.mark.parametrize("scheme", ["sqlite", "file"])
@pytest.mark.parametrize("write", WRITES)
def test_a_thread_with_a_large_text_beside_its_state_is_read_again(write: str, scheme: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if scheme == "sqlite" else f"file://{tmp_path}/folder"
    with sync.Perdure.open(url) as store:
        thread = store.thread("t")
        thread.save({"a": 1, "deep": {}})
        WRITES[write](thread)
        state, points = thread.load(), thread.history()
    with sync.Perdure.open(url) as store:
        again = store.thread("t")
        assert (again.load(), again.history()) == (state, points)
        again.append("log", 1)
        assert store.verify(restore=True).ok
        store.export("t", tmp_path / "t.perdure")
        store.import_(tmp_path / "t.perdure", user="", to="other")
        assert store.thread("other").load() == again.load()
        again.prune(1)
        assert store.thread("t").load() == {**state, "log": [1]}
        assert store.verify(restore=True).ok
