"""Stores for tests about runs, jobs that count how often they really ran, and a death that can be planned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES, opened

TTL = 30.0


class Killed(BaseException):
    """The process is gone: no code of the run sees it coming."""


class Jobs:
    """Functions that write down outside the store that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def job(self, name: str, value: Any = None, *, dies: Collection[int] = ()) -> Callable[..., Awaitable[Any]]:
        """A function that has an effect, and after the effect may die: at its first call, its second …"""

        async def run(*args: Any, **named: Any) -> Any:
            self.ran.append(name)
            if self.ran.count(name) in dies:
                raise Killed
            return value

        return run

    def fails(self, name: str, error: Exception, times: int) -> Callable[..., Awaitable[Any]]:
        """A function that raises so many times, then says how often it was called."""

        async def run(*args: Any, **named: Any) -> Any:
            self.ran.append(name)
            if self.ran.count(name) <= times:
                raise error
            return self.ran.count(name)

        return run

    def count(self, name: str) -> int:
        return self.ran.count(name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    async with opened(PLACES[request.param](tmp_path), "async", clock=clock) as made:
        yield made


async def kinds(store: Any, thread: str = "t") -> list[str]:
    """The kinds of the entries of a thread."""
    return [entry.kind.value for entry in await store.thread(thread).entries()]


async def dies(work: Awaitable[Any]) -> None:
    """Work that its process does not survive."""
    with pytest.raises(Killed):
        await work


async def block(store: Any, code: Callable[..., Awaitable[Any]], thread: str = "t", **options: Any) -> Any:
    """Run code as a block of a thread, and return its result."""
    async with store.thread(thread).run(**options) as run:
        run.result = await code(run)
    return run.result
