"""Perdure as one side of a benchmark: each step is one turn of W through one of its doors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.workload import State, Turn, Variant, nested, opening_context
from perdure import Message
from perdure.sync import Perdure, Thread

THREAD = "w"
_ASKED_EVERY = 25  # turns: asking the database for sizes between two saves makes the next one dearer
USER = "bench"


class Home(Protocol):
    """A database of one side's own."""

    url: str

    def newest_payload(self) -> int: ...

    def snapshots(self) -> list[int]: ...

    def wal_grew(self) -> bool: ...

    def close(self) -> None: ...


def open_store(url: str, **options: Any) -> Perdure:
    """An open store: connected, its layout checked."""
    return Perdure.open(url, **options).__enter__()


def handle(store: Perdure) -> Thread:
    """A fresh handle on the thread of W."""
    return store.thread(THREAD, user=USER)


def as_message(turn: Turn) -> Message:
    """The same message as a `perdure.Message`."""
    return Message(**nested(turn.message))


class Side:
    """One database that W is played into."""

    def __init__(self, home: Home, variant: Variant, turns: list[Turn]) -> None:
        self.home = home
        self.size = 2048  # bytes of a recent entry's payload, for the raw commit beside it
        self._turns = turns
        self._state = State(opening_context(variant))
        self._store = open_store(home.url)
        self._thread = handle(self._store)

    def step(self, at: int) -> float:
        """Play one turn and return the seconds of the call alone."""
        call = self._prepare(self._turns[at])
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        if at % _ASKED_EVERY == 1:  # the first entry holds the whole context
            self.size = self.home.newest_payload()
        return seconds

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        raise NotImplementedError

    def close(self) -> None:
        self._store.close()
        self.home.close()


class Updates(Side):
    """The change is given: `update` with one message and two keys."""

    checkpoint = False

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        if self._state.messages:
            changes: dict[Any, object] = {("context", key): value for key, value in turn.changed.items()}
        else:
            changes = {"context": self._state.context | turn.changed}
        self._state.messages.append(None)
        more = {"messages": [turn.message]}
        return lambda: self._thread.update(set=changes, append=more, checkpoint=self.checkpoint)


class MarkedUpdates(Updates):
    """The same with a checkpoint each."""

    checkpoint = True


class Saves(Side):
    """The whole state is given, as plain dicts."""

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        state = self._state.take(turn)
        return lambda: self._thread.save(state)


class NestedSaves(Side):
    """The whole state is given, each message with a dict inside."""

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        state = self._state.take(turn, nested(turn.message))
        return lambda: self._thread.save(state)


class MessageSaves(Side):
    """The whole state is given, its messages frozen."""

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        state = self._state.take(turn, as_message(turn))
        return lambda: self._thread.save(state)


class ColdSaves(Side):
    """The whole state is given to a store that knows nothing yet: new object, connected before the clock starts."""

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        state = self._state.take(turn)
        self._store.close()
        self._store = open_store(self.home.url)
        return lambda: handle(self._store).save(state)


SIDES: dict[str, type[Side]] = {
    "update": Updates,
    "update+checkpoint": MarkedUpdates,
    "save": Saves,
    "save nested": NestedSaves,
    "save Message": MessageSaves,
    "cold save": ColdSaves,
}


def fill(url: str, variant: Variant, turns: list[Turn]) -> None:
    """Play W into a new database through the whole-state door."""
    state = State(opening_context(variant))
    store = open_store(url)
    thread = handle(store)
    for turn in turns:
        thread.save(state.take(turn))
    store.close()
