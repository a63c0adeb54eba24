"""Messages that are read while another process rewinds or prunes: as they were before, or as they are then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.sync import Perdure, Thread
from tests.interruption import Interruption

TEXT = "x" * 500


def written(thread: Thread) -> None:
    for n in range(1, 6):
        thread.save({"n": n, "messages": [f"listed {each}" for each in range(n)], "text": TEXT * n})
        thread.add_messages(f"apart {n}")


ACTS: dict[str, Callable[[Thread], object]] = {
    "rewind": lambda thread: thread.rewind(thread.history()[-1]),
    "prune": lambda thread: thread.prune(1),
    "both": lambda thread: (thread.rewind(thread.history()[-1]), thread.prune(1)),
    "say": lambda thread: thread.add_messages("more"),
}
LOOKS: dict[str, Callable[[Thread], object]] = {
    "messages": lambda thread: thread.messages(),
    "lines": lambda thread: [line.message for line in thread.message_lines()],
    "prune": lambda thread: (thread.prune(2), thread.messages())[1],
    "latest": lambda thread: (thread.latest(), thread.messages())[1],
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("look", LOOKS)
def test_what_is_read_beside_others_is_what_there_was_or_is(tmp_path: Path, look: str, act: str) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            thread, other = ours.thread("t"), theirs.thread("t")
            written(other)
            before = other.messages()
            met = Interruption(ours._store._parts.storage, at, lambda other=other: ACTS[act](other))
            found = LOOKS[look](thread)
            if not met.acted:
                break  # all places were tried
            assert found in (before, other.messages())
            assert thread.messages() == other.messages() == [line.message for line in thread.message_lines()]
            assert other.verify(restore=True).ok
    assert at > 1
