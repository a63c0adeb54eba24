"""The newest messages are the same whether a window of the log tells them or all of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.requests import Request
from perdure.core.changes import Change
from perdure.core.codec import decode, encode
from perdure.core.conversation import appended
from perdure.core.entries import Entry
from perdure.core.errors import InvalidPathError
from perdure.core.identity import ThreadKey
from perdure.core.ops import Append, Delete, Op, Set, Splice, Truncate
from perdure.core.ports import Silence
from perdure.sessions import messages as sessions
from perdure.sessions.messages import Messages
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.testing.clock import ManualClock, SeededRandomness
from perdure.testing.scribe import MESSAGE, THREAD, Scribe

ITEM = Raw(encode("hi"))
LARGE = "x" * 100_000  # kept apart from the entry


class Watched(MemoryStorage):
    """A storage that remembers from where on its logs were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_after: list[int] = []

    async def entries(self, key: ThreadKey, *, after: int = 0, **rest: Any) -> list[Entry]:
        self.read_after.append(after)
        return await super().entries(key, after=after, **rest)


class History:
    """A thread that is written through the engine."""

    def __init__(self) -> None:
        self.storage = Watched()
        clock = ManualClock()
        parts: dict[str, Any] = {"clock": clock, "randomness": SeededRandomness(1), "telemetry": Silence()}
        self._engine = Engine(self.storage, **parts, cache_bytes=1 << 20)
        self._scribe = Scribe(self.storage, clock)
        self.messages = Messages(self.storage)

    def say(self, *items: object) -> None:
        drive(self._engine.change(THREAD, Change({}, {"messages": items}, []), None, Request()))

    def note(self, path: str, value: object) -> None:
        drive(self._engine.change(THREAD, Change({path: value}, {}, []), None, Request()))

    def delete(self, path: str) -> None:
        drive(self._engine.change(THREAD, Change({}, {}, [path]), None, Request()))

    def save(self, state: object) -> None:
        drive(self._engine.save(THREAD, state, None, Request()))

    def state(self) -> Any:
        return decode(drive(self._engine.head(THREAD)).document.encoded())

    def add_apart(self, text: str) -> None:
        drive(self._scribe.append(THREAD, entries=(self._scribe.entry(MESSAGE, body=encode(text)),)))

    def newest(self, limit: int) -> list[Any]:
        return drive(self.messages.list(THREAD, limit))

    def all(self) -> list[Any]:
        return drive(self.messages.list(THREAD))


@pytest.mark.parametrize(
    "op",
    [
        Set((), ITEM),
        Set(("messages",), ITEM),
        Set(("messages", 0), ITEM),
        Set(("messages", 0, "content"), ITEM),
        Append(("messages", 0, "parts"), [ITEM]),
        Delete(("messages",)),
        Truncate(("messages",), 1),
        Splice(("messages",), 0, 1, [ITEM]),
    ],
    ids=lambda op: f"{type(op).__name__} {op.path}",
)
def test_whatever_else_happens_to_messages_is_not_passed_over(op: Op) -> None:
    assert appended([Append(("messages",), [ITEM]), op]) is None


def test_items_added_at_the_end_are_messages_and_nothing_elsewhere_is() -> None:
    elsewhere = [Set(("context",), ITEM), Append(("messages2",), [ITEM]), Delete(("draft",)), Truncate(("log",), 0)]
    assert appended([*elsewhere, Append(("messages",), [ITEM, ITEM]), Append(("messages",), [ITEM])]) == [ITEM] * 3
    assert appended(elsewhere) == []


def test_the_newest_messages_of_a_long_thread_are_read_from_its_end_only() -> None:
    history = History()
    for n in range(200):
        history.say({"n": n})
    history.storage.read_after.clear()
    assert history.newest(3) == [{"n": 197}, {"n": 198}, {"n": 199}]
    assert history.storage.read_after == [200 - 22]


def test_the_window_grows_until_it_holds_enough() -> None:
    history = History()
    for n in range(3):
        history.say(n)
    for n in range(100):
        history.note("context", n)
    history.say(3)
    for n in range(30):
        history.note("context", n)
    history.storage.read_after.clear()
    assert history.newest(2) == [2, 3]
    assert history.storage.read_after == [134 - 20, 134 - 80, 0]


def test_an_edited_message_is_read_as_it_is_now() -> None:
    history = History()
    for n in range(50):
        history.say({"n": n})
    history.note("messages.49.n", "edited")
    assert history.newest(2) == [{"n": 48}, {"n": "edited"}]


def test_a_large_message_at_the_end_is_read_too() -> None:
    history = History()
    for n in range(50):
        history.say(n)
    history.say(LARGE)
    assert history.newest(2) == [49, LARGE]


def test_an_absent_thread_has_no_newest_messages() -> None:
    assert History().newest(5) == []


changes = st.one_of(
    st.tuples(st.just("say"), st.lists(st.integers(0, 99), min_size=1, max_size=3)),
    st.tuples(st.just("say"), st.lists(st.integers(0, 99), min_size=1, max_size=3)),
    st.tuples(st.just("apart"), st.text(max_size=3)),
    st.tuples(st.just("note"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["edit", "cut", "drop first", "clear", "empty", "insert"]), st.integers(0, 5)),
)


@given(steps=st.lists(changes, max_size=40), limit=st.integers(0, 6), window=st.integers(0, 4))
def test_a_window_tells_what_the_whole_log_does(steps: list[tuple[str, Any]], limit: int, window: int) -> None:
    history = History()
    for what, value in steps:
        _play(history, what, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "WINDOW", window + 1)
        said = history.all()
        assert history.newest(limit) == said[len(said) - min(limit, len(said)) :]


def _play(history: History, what: str, value: Any) -> None:
    if what == "say":
        history.say(*value)
    elif what == "apart":
        history.add_apart(value)
    elif what == "note":
        history.note("context", value)
    elif what == "empty":
        history.save({"context": value})
    else:
        _rewrite(history, what, value)


def _rewrite(history: History, what: str, at: int) -> None:
    """Change the list as callers do who save the whole state."""
    said = (history.state() or {}).get("messages", [])
    if what == "clear":
        with suppress(InvalidPathError):  # there may be none
            history.delete("messages")
        return
    rewritten = {
        "edit": [*said[:at], "edited", *said[at + 1 :]],
        "cut": said[:at],
        "drop first": said[1:],
        "insert": [*said[:at], "new", *said[at:]],
    }
    history.save({"messages": rewritten[what]})
