"""One thread at a time thinks, others wait for the server: what an event loop does for tasks, for threads."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from perdure.storage.drive import suspended

T = TypeVar("T")
_NUMBERS = count()


class Baton:
    """A lock that its holder lays down while it waits for a server, and takes up again to go on.

    Between two waits an operation is alone, as a task is on an event loop; during a wait the others go on.
    """

    def __init__(self) -> None:
        # `with baton.held:` and the two methods below are steps of C each: a Ctrl-C between "taken" and "noted that it
        # was taken" would keep it from everybody for ever.
        self.held: Any = threading.RLock()
        _BATONS[next(_NUMBERS)] = self

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Hold it while `work` is driven to its end, in place."""
        with self.held:
            try:
                work.send(None)
            except StopIteration as done:
                return done.value
            except BaseException:
                if not self.held._is_owned():  # a Ctrl-C came when it lay down already, and nobody had noted that
                    self.held.acquire()
                raise
            raise suspended(work)

    def laid_down(self) -> AbstractContextManager[None]:
        """Let others go on meanwhile; nothing happens for a thread that does not hold it."""
        return _LaidDown(self)

    def lay_down(self) -> Any:
        """Let it go wholly, and return what `take_up` needs; None for a thread that does not hold it."""
        return self.held._release_save() if self.held._is_owned() else None  # what `threading.Condition` does

    def take_up(self, laid: Any) -> None:
        """Hold it as many times as before."""
        if laid is not None:
            self.held._acquire_restore(laid)


_BATONS: WeakValueDictionary[int, Baton] = WeakValueDictionary()


class _LaidDown:
    """A class, since a generator takes three times as long, at every call of a server."""

    __slots__ = ("_baton", "_laid")

    def __init__(self, baton: Baton) -> None:
        self._baton = baton

    def __enter__(self) -> None:
        self._laid = self._baton.lay_down()

    def __exit__(self, *error: object) -> None:
        self._baton.take_up(self._laid)


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
