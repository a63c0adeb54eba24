"""Writes the corpus of the current storage format: `python -m tests.corpus.make v1`.

Run it once for a release and commit what it makes; a corpus that was committed is never made again.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from perdure import Message, register
from perdure.core.codec import encode
from perdure.core.render import to_json
from perdure.sync import Perdure, Thread
from perdure.testing.clock import ManualClock, SeededRandomness
from tests.corpus.types_v1 import Mood, Task

HERE = Path(__file__).parent
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
State = dict[str, Any]


def _conversation(thread: Thread, state: State, clock: ManualClock) -> None:
    """A talk that grows by both doors, is corrected, cut and reordered, and becomes long enough for snapshots."""
    thread.append("messages", {"role": "user", "content": "hello"}, key="first")
    thread.update(
        set={"context.city": "Zürich", "context.n": 1}, append={"messages": [{"role": "bot"}]}, checkpoint=True
    )
    thread.update(delete=["context.n"])
    state.update(thread.load())
    for turn in range(60):
        clock.advance(timedelta(minutes=1))
        state["messages"].append({"role": "user", "content": f"turn {turn} " * 60, "n": turn})
        if turn % 20 == 7:
            state["messages"][3]["content"] = "corrected"
            state["messages"] = state["messages"][2:]
        if turn % 20 == 11:
            state["messages"].reverse()
        thread.save(state, kind="routine" if turn % 3 else "manual", metadata={"turn": turn})


def _zoo(thread: Thread, state: State, clock: ManualClock) -> None:
    """Every type, each in a version of its own."""
    values: list[Any] = [
        1, True, 1.0, -0.0, 2**64, 10**40, "", "\ud800", "\0", b"\xff", bytearray(b"x"), (1, (2,)), {3, 1},
        frozenset("a"), START, START.date(), START.time(), timedelta(days=-1), Decimal("1.10"), 1j, range(3),
        {1: {None: ()}},
        Task("write", 3), Mood.GOOD, [Message("user", "hi", [], {"a": 1})], float("inf"),
    ]  # fmt: skip
    for value in values:
        clock.advance(timedelta(seconds=1))
        state["value"] = value
        thread.save(state, status="error" if value is True else None)


def _large(thread: Thread, state: State, clock: ManualClock) -> None:
    """Values kept apart."""
    state.update(text="long " * 20_000, data=b"\x00\x01" * 40_000)
    thread.save(state)
    state["again"] = state["text"]
    thread.save(state)


THREADS: dict[str, Callable[[Thread, State, ManualClock], None]] = {
    "conversation": _conversation,
    "zoo": _zoo,
    "large": _large,
}


def write(url: str) -> dict[str, Any]:
    """Write the corpus into a store, and return what must be found in it."""
    clock = ManualClock(START)
    expected: dict[str, Any] = {}
    with Perdure.open(url, clock=clock, randomness=SeededRandomness(1)) as store:
        for name, fill in THREADS.items():
            thread = store.thread(name, user="alice", agent="scribe", tags=["corpus"])
            fill(thread, {}, clock)
            expected[name] = _found(thread)
        fork = store.thread("conversation", user="alice").fork("@20", to="fork")
        fork.append("messages", {"role": "user", "content": "another way"})
        expected["fork"] = _found(fork)
    return expected


def _found(thread: Thread) -> dict[str, Any]:
    versions = [1, *range(2, thread.info().version, 5), thread.info().version]
    return {
        "states": {version: json.loads(to_json(encode(thread.load(f"@{version}")))) for version in versions},
        "checkpoints": [point.id for point in thread.history(limit=1000)],
    }


def main(release: str) -> None:
    """Write both backends as text, and what is expected of them."""
    register(Task, tag="corpus.Task")
    register(Mood, tag="corpus.Mood")
    target = HERE / release
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        expected = write(f"sqlite:///{folder}/corpus.db")
        with sqlite3.connect(f"{folder}/corpus.db") as database:
            (target / "sqlite.sql").write_text("\n".join(database.iterdump()) + "\n")
        database.close()
        write(f"file://{folder}/store")
        store = Path(folder, "store")
        files = {str(each.relative_to(store)): each.read_text() for each in sorted(store.rglob("*")) if each.is_file()}
    (target / "file.json").write_text(json.dumps(files, indent=0) + "\n")
    (target / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
