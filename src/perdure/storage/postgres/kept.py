"""Connections between two calls, and those of callers who were interrupted before they could give them back."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import ref

T = TypeVar("T")
_LENT_FOR = 600.0  # seconds after which a connection goes back to its pool, which may replace it


class Kept:
    """Connections that stay lent between two calls: a pool's own bookkeeping costs as much as a small statement.

    Whoever waits for the pool is served first, and a connection goes back from time to time to be looked after.
    """

    def __init__(self) -> None:
        self._wires: list[Any] = []
        self._waiting: list[None] = []  # counted by its length: adding and removing are atomic between threads

    def take(self) -> Any:
        """A connection that is kept, if there is one."""
        try:
            return self._wires.pop()
        except IndexError:
            return None

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Tell others that somebody waits for the pool."""
        self._waiting.append(None)
        try:
            yield
        finally:
            self._waiting.pop()

    def keep(self, wire: Any) -> Any:
        """Keep a connection; returns one that has to go back to the pool instead, or None."""
        if not wire.stays(_LENT_FOR):
            return wire
        self._wires.append(wire)
        return self.take() if self._waiting else None


class Lent:
    """What is lent, known by itself: whoever is interrupted on the way drops it and tells nobody."""

    def __init__(self) -> None:
        self._connections: dict[ref[Any], Any] = {}
        self._dropped: SimpleQueue[ref[Any]] = SimpleQueue()

    def add(self, wire: Any) -> None:
        """Somebody has this connection. That it was dropped is noted in one step of C, which nothing interrupts."""
        wire.lent = ref(wire, self._dropped.put)
        self._connections[wire.lent] = wire.connection

    def remove(self, wire: Any) -> None:
        """It was given back."""
        self._connections.pop(wire.lent, None)

    def dropped(self) -> Any:
        """A connection that was lent and that nobody has any more, or None."""
        while True:
            try:
                connection = self._connections.pop(self._dropped.get_nowait(), None)
            except Empty:
                return None
            if connection is not None:
                return connection


def apart(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Do some work on a thread of its own, and wait for it; `undo` it if nobody waits any more when it is done.

    A Ctrl-C interrupts the main thread, and there it interrupts the waiting only: in the middle of its own bookkeeping
    a pool would lose a connection for good.
    """
    answer: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
    start_new_thread(_work, (work, undo, ref(answer)))
    value, error = answer.get()
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


def _work(work: Callable[[], T], undo: Callable[[T], object] | None, asker: ref[SimpleQueue[Any]]) -> None:
    value: T | None = None
    error: BaseException | None = None
    try:
        value = work()
    except BaseException as exc:
        error = exc
    answer = asker()
    if answer is not None:
        answer.put((value, error))
    elif undo is not None and value is not None:
        undo(value)
