"""A Ctrl-C at any line of a write: what the process knows of a thread is what is stored, or nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from perdure.sync import Perdure


class Interrupting:
    """Raises `KeyboardInterrupt` at the nth line of our code that is reached."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "/perdure/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize("way", ["append", "save"])
def test_a_write_that_is_interrupted_anywhere_leaves_a_usable_thread(tmp_path: Path, way: str) -> None:
    with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        thread, interrupted = store.thread("t"), 0
        for at in range(1, 600, 3):
            sys.settrace(Interrupting(at))
            try:
                _write(thread, at, way)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                sys.settrace(None)
            _write(store.thread("t"), -at, way)
            thread = store.thread("t")
            state = thread.load()
            assert len(state["items"]) == len(set(state["items"])), at
        assert interrupted > 50
        assert thread.load() == store.thread("t").load(f"@{thread.info().version}")
        assert store.verify(restore=True).ok


def _write(thread: Any, item: int, way: str) -> None:
    if way == "append":
        thread.append("items", item)
    else:
        state = thread.load(default={"items": []})
        state["items"].append(item)
        thread.save(state)
