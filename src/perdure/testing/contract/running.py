"""How the suite runs: each test is written once, awaited under an event loop or driven in place."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol, TypeVar

import pytest

from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import Scribe

T = TypeVar("T")
Mode = Literal["sync", "async"]
OpenStorage = Callable[[], Awaitable[Storage]]
Together = Callable[[Iterable[Coroutine[Any, Any, Any]]], Awaitable[Sequence[Any]]]
THREADS = 8


class Run(Protocol):
    """Brings a coroutine to its end."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class Place:
    """Where a test's storage lives; whatever was opened there is closed after the test."""

    def __init__(self, open_storage: OpenStorage, forgets: bool) -> None:
        self._open_storage = open_storage
        self._forgets = forgets
        self._opened: list[Storage] = []

    async def open(self) -> Storage:
        """Open it (again), without a look at its layout."""
        storage = await self._open_storage()
        self._opened.append(storage)
        return storage

    async def ready(self) -> Storage:
        """Open it and set it up."""
        storage = await self.open()
        await storage.setup()
        return storage

    async def reopen(self, storage: Storage) -> Storage:
        """Close it and open it again; a storage that forgets when it is closed stays open."""
        if self._forgets:
            return storage
        await storage.close()
        return await self.ready()

    async def close(self) -> None:
        """Close everything that was opened."""
        for storage in self._opened:
            await storage.close()


class Contract:
    """A part of the contract. Subclass it, and give it two fixtures:

    - `open_storage`: an async callable that opens the test's one place, again each time it is called;
    - `mode`: "sync" when the storage never waits and is to be driven in place, "async" for an event loop.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_names(cls)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _runs(test))

    @pytest.fixture
    def forgets(self) -> bool:
        """Whether closing loses everything; say so for a storage in memory."""
        return False

    @pytest.fixture
    def run(self, mode: Mode) -> Iterator[Run]:
        """Drives or awaits."""
        if mode == "sync":
            yield drive
        else:
            with asyncio.Runner() as runner:
                yield runner.run

    @pytest.fixture
    def together(self, mode: Mode) -> Together:
        """Runs several at once, on threads or as tasks, and gives their answers or errors in order."""
        return _on_threads if mode == "sync" else _as_tasks

    @pytest.fixture
    def place(self, run: Run, open_storage: OpenStorage, forgets: bool) -> Iterator[Place]:
        place = Place(open_storage, forgets)
        yield place
        run(place.close())

    @pytest.fixture
    def storage(self, run: Run, place: Place) -> Storage:
        return run(place.ready())

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def scribe(self, storage: Storage, clock: ManualClock) -> Scribe:
        return Scribe(storage, clock)


def _check_names(cls: type) -> None:
    """Raise when two parts have a test of the same name: one would silently hide the other."""
    seen: dict[str, type] = {}
    for part in cls.__mro__:
        for name in vars(part):
            if name.startswith("test_") and seen.setdefault(name, part) is not part:
                raise TypeError(f"{name} is in {seen[name].__name__} and in {part.__name__}; rename one")


def _runs(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a plain test of an async one: it asks for the fixture `run` too, and is handed to it."""

    @functools.wraps(test)
    def runs(self: Contract, *, run: Run, **fixtures: Any) -> None:
        run(test(self, **fixtures))

    signature = inspect.signature(test)
    asked = [*signature.parameters.values(), inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY)]
    vars(runs)["__signature__"] = signature.replace(parameters=asked, return_annotation=None)
    return runs


async def _as_tasks(works: Iterable[Coroutine[Any, Any, Any]]) -> Sequence[Any]:
    return await asyncio.gather(*works, return_exceptions=True)


async def _on_threads(works: Iterable[Coroutine[Any, Any, Any]]) -> Sequence[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_outcome, works))


def _outcome(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return drive(work)
    except Exception as exc:
        return exc
