"""Perdure as one side of a benchmark: each step is one turn of W through one of its doors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.databases import Database
from benchmarks.workload import State, Turn, Variant, nested, opening_context
from perdure import Message
from perdure.sync import Perdure, Thread

THREAD = "w"
USER = "bench"  # naming the user spares the handle one lookup at its first use


def open_store(path: str, options: str = "") -> Perdure:
    """An open store: connected, its layout checked."""
    return Perdure.open(f"sqlite:///{path}{options}").__enter__()


def handle(store: Perdure) -> Thread:
    """A fresh handle on the thread of W."""
    return store.thread(THREAD, user=USER)


def as_message(turn: Turn) -> Message:
    """The same message as a `perdure.Message`."""
    return Message(**nested(turn.message))


class Side:
    """One database that W is played into."""

    def __init__(self, path: str, variant: Variant, turns: list[Turn]) -> None:
        self.path = path
        self.size = 2048  # bytes of the newest entry's payload, for the raw commit beside it
        self._database = Database(path)
        self._turns = turns
        self._state = State(opening_context(variant))
        self._store = open_store(path)
        self._thread = handle(self._store)

    def step(self, at: int) -> float:
        """Play one turn and return the seconds of the call alone."""
        call = self._prepare(self._turns[at])
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        self.size = self._newest_payload()
        return seconds

    def _prepare(self, turn: Turn) -> Callable[[], Any]:
        raise NotImplementedError

    def _newest_payload(self) -> int:
        sql = "SELECT length(payload) FROM perdure_entry ORDER BY row DESC LIMIT 1"
        return self._database.keeper.execute(sql).fetchone()[0]

    def snapshots(self) -> list[int]:
        """The versions that have a snapshot."""
        return [row for (row,) in self._database.keeper.execute("SELECT row & 4294967295 FROM perdure_snapshot")]

    def wal_grew(self) -> bool:
        return self._database.wal_grew()

    def close(self) -> None:
        self._store.close()
        self._database.close()


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
        self._store = open_store(self.path)
        return lambda: handle(self._store).save(state)


SIDES: dict[str, type[Side]] = {
    "update": Updates,
    "update+checkpoint": MarkedUpdates,
    "save": Saves,
    "save nested": NestedSaves,
    "save Message": MessageSaves,
    "cold save": ColdSaves,
}


def fill(path: str, variant: Variant, turns: list[Turn]) -> str:
    """Play W into a new database through the whole-state door, without waiting for the disk; return its path."""
    state = State(opening_context(variant))
    store = open_store(path, "?synchronous=NORMAL")
    thread = handle(store)
    for turn in turns:
        thread.save(state.take(turn))
    store.close()
    return path
