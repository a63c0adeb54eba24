"""Taking turns: a store in memory is one for event loops and threads, and only one of them may be at work in it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from perdure.storage.baton import Baton

T = TypeVar("T")


class InTurn(Generic[T]):
    """A coroutine that holds the baton while it works, and lays it down while it waits."""

    def __init__(self, work: Coroutine[Any, Any, T], baton: Baton) -> None:
        self._work = work
        self._baton = baton

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[Any], Any] = self._work.send
        given: Any = None
        try:
            while True:
                with self._baton.held:
                    awaited = step(given)
                try:
                    step, given = self._work.send, (yield awaited)
                except BaseException as exc:
                    step, given = self._work.throw, exc
        except StopIteration as done:
            return done.value
        finally:
            self._work.close()
