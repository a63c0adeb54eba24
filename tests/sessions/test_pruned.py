"""What was said apart from the state, where the states around it are pruned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Message
from perdure.sync import Perdure, Thread

TEXT = "x" * 500


@pytest.fixture
def thread() -> Iterator[Thread]:
    with Perdure.open("memory://") as store:
        yield store.thread("t")


def said(thread: Thread) -> list[str]:
    """What the log tells and what lines tell, which is the same."""
    read = [each["content"] if isinstance(each, dict) else each for each in thread.messages()]
    lines = [line.message for line in thread.message_lines()]
    assert [each["content"] if isinstance(each, dict) else each for each in lines] == read
    assert thread.verify(restore=True).ok
    return read


def save(thread: Thread, n: int, *listed: str) -> None:
    thread.save({"n": n, "messages": [{"role": "user", "content": each} for each in listed], "text": TEXT * n})


def test_messages_between_states_stay_through_one_prune_after_the_other(thread: Thread) -> None:
    save(thread, 1, "listed")
    fork = thread.fork(to="fork")  # a fork has no base: its ranges are changes
    for n in range(2, 6):
        fork.add_messages(f"apart {n}")
        save(fork, n, f"cut {n}", f"listed {n}")
    before = said(fork)
    assert len(before) == 13
    for n in range(6, 9):
        fork.prune(1)
        assert said(fork) == before
        fork.add_messages(f"apart {n}")
        save(fork, n, f"listed {n}")
        before = said(fork)


def test_messages_that_a_rewind_took_back_stay_so_when_the_rewind_is_pruned(thread: Thread) -> None:
    save(thread, 1, "listed")
    fork = thread.fork(to="fork")
    fork.add_messages("taken back", "this too")
    save(fork, 2, "listed", "and this")
    fork.rewind("@1")
    save(fork, 3, "listed")
    save(fork, 4, "listed")
    assert said(fork) == ["listed"]
    fork.prune(1)
    assert said(fork) == ["listed"]


def test_messages_said_again_in_a_pruned_range_are_what_they_were_said_to_be(thread: Thread) -> None:
    thread.add_messages(Message("user", "draft", id="a"), "between")
    point = thread.save({"n": 1, "text": TEXT})
    thread.add_messages(Message("user", "second draft", id="a"))
    thread.save({"n": 2, "text": TEXT})
    thread.rewind(point)
    for n in range(3, 6):
        thread.save({"n": n, "text": TEXT * n})
    before = thread.message_lines()
    assert [line.number for line in before] == [1, 2]
    thread.prune(1)
    thread.add_messages("more")
    assert thread.message_lines()[:2] == before
    assert thread.messages()[0] == Message("user", "draft", id="a")
    assert thread.verify(restore=True).ok


def test_a_redo_says_again_what_was_said_since_the_last_state(thread: Thread) -> None:
    save(thread, 1, "listed")
    thread.add_messages("apart")
    thread.rewind("@1")
    assert said(thread) == ["listed"]
    thread.redo()
    assert said(thread) == ["listed", "apart"]
