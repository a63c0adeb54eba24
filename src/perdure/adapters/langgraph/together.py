"""Writes of tasks that come at the same moment, made together.

Each would be right by itself, but all of them go to one thread of ours: of 256 that begin at once, one wins, and 255
plan theirs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Waiting(Generic[T]):
    """One caller's part; it is done once a write that holds it is, and fails with it."""

    def __init__(self, part: T) -> None:
        self.part = part
        self.done = False
        self.error: Exception | None = None


class Together(Generic[T]):
    """Makes one write of what waits for the same place. Whoever comes first writes for all who came before it began."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._waiting: dict[Hashable, list[_Waiting[T]]] = {}

    async def write(self, place: Hashable, part: T, write: Callable[[list[T]], Awaitable[Any]]) -> None:
        """Return once `part` is written, alone or with others; `write` gets the parts in the order they came."""
        place = (asyncio.get_running_loop(), place)
        mine = _Waiting(part)
        self._waiting.setdefault(place, []).append(mine)
        lock = self._locks.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                if not mine.done:
                    await self._write(place, mine, write)
        finally:
            self._leave(place, mine)
        if mine.error is not None:
            raise mine.error

    async def _write(self, place: Hashable, mine: _Waiting[T], write: Callable[[list[T]], Awaitable[Any]]) -> None:
        parts = self._waiting.pop(place)
        try:
            await write([each.part for each in parts])
        except Exception as exc:
            for each in parts:
                each.error = exc
        except BaseException:
            # The one who writes for all was cancelled: the others write theirs again, whether it stands or not.
            others = [each for each in parts if each is not mine]
            self._waiting[place] = others + self._waiting.get(place, [])
            raise
        for each in parts:
            each.done = True

    def _leave(self, place: Hashable, mine: _Waiting[T]) -> None:
        """What a caller that was cancelled while it waited asked for is not written."""
        left = [each for each in self._waiting.get(place, []) if each is not mine]
        if left:
            self._waiting[place] = left
            return
        self._waiting.pop(place, None)
        if place in self._locks and not self._locks[place].locked():
            del self._locks[place]
