"""One thread at a time thinks, others wait for the server: what an event loop does for tasks, for threads."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from weakref import WeakValueDictionary

_NUMBERS = count()


class Baton:
    """A lock that its holder lays down while it waits for a server, and takes up again to go on.

    Between two waits an operation is alone, as a task is on an event loop; during a wait the others go on.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._depth = 0
        _BATONS[next(_NUMBERS)] = self

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        if self._holder != threading.get_ident():
            return  # a Ctrl-C kept this thread from taking it up again: it is somebody else's
        self._depth -= 1
        if not self._depth:
            self._holder = None
        self._lock.release()

    def laid_down(self) -> AbstractContextManager[None]:
        """Let others go on meanwhile; nothing happens for a thread that does not hold it."""
        return _LaidDown(self)

    def lay_down(self) -> int:
        """Let it go wholly, and return how many times this thread held it."""
        if self._holder != threading.get_ident():
            return 0
        depth, self._depth, self._holder = self._depth, 0, None
        for _ in range(depth):
            self._lock.release()
        return depth

    def take_up(self, depth: int) -> None:
        """Hold it as many times as before."""
        for _ in range(depth):
            self._lock.acquire()
            self._holder = threading.get_ident()
            self._depth += 1


_BATONS: WeakValueDictionary[int, Baton] = WeakValueDictionary()


class _LaidDown:
    """A class, since a generator takes three times as long, at every call of a server."""

    __slots__ = ("_baton", "_depth")

    def __init__(self, baton: Baton) -> None:
        self._baton = baton

    def __enter__(self) -> None:
        self._depth = self._baton.lay_down()

    def __exit__(self, *error: object) -> None:
        self._baton.take_up(self._depth)


@contextmanager
def all_laid_down() -> Generator[None]:
    """The same for every baton of this thread: who sleeps need not know whose store is waiting meanwhile.

    Everybody takes them up in the order they were made in: two threads that hold two do not wait for each other.
    """
    known = [baton for each in _BATONS.valuerefs() if (baton := each()) is not None]
    with ExitStack() as up:
        for baton in reversed(known):
            up.callback(baton.take_up, baton.lay_down())
        yield
