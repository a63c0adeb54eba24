"""Writes the corpus of the current storage format: `python -m tests.corpus.make v1`.

Until 0.1 is released the format may change: then remove `v1` and make it again. The corpus of a release stays as it is.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
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
SEARCH = "perdure_message_search"
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


def _travelled(thread: Thread, state: State, clock: ManualClock) -> None:
    """A conversation whose messages have ids, that goes back, is pruned and goes on."""
    for turn in range(12):
        clock.advance(timedelta(minutes=1))
        thread.append("messages", {"role": "user", "content": f"turn {turn}", "id": f"m{turn}"}, checkpoint=True)
    thread.tag("@4", "keep")
    thread.rewind("@8")
    thread.append("messages", {"role": "user", "content": "instead"}, checkpoint=True)
    thread.prune(2)
    thread.update(set={"after": "prune"}, checkpoint=True)


THREADS: dict[str, Callable[[Thread, State, ManualClock], None]] = {
    "conversation": _conversation,
    "zoo": _zoo,
    "large": _large,
    "travelled": _travelled,
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
    # Where a state was pruned, None is loaded.
    return {
        "states": {version: json.loads(to_json(encode(thread.load(f"@{version}", None)))) for version in versions},
        "messages": json.loads(to_json(encode(thread.messages()))),
        "checkpoints": [point.id for point in thread.history(limit=1000)],
    }


def _dumped(database: sqlite3.Connection) -> Iterator[str]:
    """The statements that make the database again; `iterdump` cannot read an index over words."""
    made = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid").fetchall()
    yield "BEGIN;"
    for kind, name, sql in made:
        is_part = name.startswith(f"{SEARCH}_")  # made with the index
        yield f"DELETE FROM {name};" if is_part else f"{sql};"
        if kind == "table" and name != SEARCH:
            yield from _rows(database, name)
    yield "COMMIT;"


def _rows(database: sqlite3.Connection, table: str) -> Iterator[str]:
    columns = [f'"{name}"' for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
    values = " || ',' || ".join(f"quote({column})" for column in columns)
    for (row,) in database.execute(f"SELECT {values} FROM {table}"):
        yield f"INSERT INTO {table} ({','.join(columns)}) VALUES ({row});"


def main(release: str) -> None:
    """Write both backends as text, and what is expected of them."""
    register(Task, tag="corpus.Task")
    register(Mood, tag="corpus.Mood")
    target = HERE / release
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        expected = write(f"sqlite:///{folder}/corpus.db")
        with closing(sqlite3.connect(f"{folder}/corpus.db")) as database:
            (target / "sqlite.sql").write_text("\n".join(_dumped(database)) + "\n")
        write(f"file://{folder}/store")
        store = Path(folder, "store")
        # The directory is derived, and names the boot of this machine.
        found = [each for each in sorted(store.rglob("*")) if each.is_file() and each.name != "directory.jsonl"]
        files = {str(each.relative_to(store)): each.read_text() for each in found}
    (target / "file.json").write_text(json.dumps(files, indent=0) + "\n")
    (target / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
