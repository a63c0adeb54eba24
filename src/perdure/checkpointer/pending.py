"""Calls that were made and are not at their end: a release waits for them."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_POLL = 0.005  # seconds
_PATIENCE = 30.0


class Pending:
    """The calls of a checkpointer that somebody may still run."""

    def __init__(self) -> None:
        self._open: dict[int, weakref.ref[Any]] = {}
        self._numbers = itertools.count()

    def watched(self, work: Coroutine[Any, Any, T], begin: Callable[[], Awaitable[T]]) -> Coroutine[Any, Any, T]:
        """A call that awaits what `begin` makes of `work`, counted from now on until it ends or is thrown away."""
        number = next(self._numbers)
        call = self._followed(number, begin)
        call.__name__, call.__qualname__ = work.__name__, work.__qualname__
        self._open[number] = weakref.ref(call, lambda _: self._dropped(number, work))
        return call

    async def _followed(self, number: int, begin: Callable[[], Awaitable[T]]) -> T:
        try:
            return await begin()
        finally:
            self._open.pop(number, None)

    def _dropped(self, number: int, work: Coroutine[Any, Any, Any]) -> None:
        """A call that was cancelled before it began: Python must not complain about the part inside it too."""
        self._open.pop(number, None)
        work.close()

    async def settled(self) -> int:
        """Wait until all calls are at their end, and return how many are not after half a minute."""
        left = _PATIENCE
        while self._open and left > 0:
            await asyncio.sleep(_POLL)
            left -= _POLL
        return len(self._open)
