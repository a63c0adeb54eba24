"""A storage with a queue in front keeps the same contract, and plays the same random operations."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import StorageClosedError
from perdure.core.writes import Appended, Write
from perdure.storage.background.ports import Met, Queue, Work, open_queue
from perdure.storage.background.store import BackgroundStorage
from perdure.storage.contract import Storage
from perdure.testing.contract import LayoutContract, Mode, OpenStorage, StorageContract
from perdure.testing.machine import StorageMachine
from tests.contract.backends import MODES, Backend, file, memory, sqlite
from tests.contract.stages import TemporaryStage, play
from tests.contract.test_contract import OnBackend
from tests.storage.hot import Heard

EVERY_PAIR = os.environ.get("PERDURE_EVERY_PAIR") == "1"

INNER: dict[str, Callable[[Mode, Path], Backend]] = {"memory": memory, "file": file, "sqlite": sqlite}
FEW = 3  # writes that may wait: tests with many writers meet a full queue


class LazyQueue:
    """Leaves everything queued until somebody waits for it: whatever can be judged by queued writes alone, is."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.alive: Callable[[], Met] = lambda: lambda: True
        self.work: Work | None = None

    async def until(self, met: Met, take: Callable[[], None] = lambda: None) -> None:
        while not met():
            assert self.work is not None
            await self.work()
        take()

    def tell(self) -> None: ...

    def serve(self, work: Work) -> None:
        self.work = work

    async def end(self, empty: Met, close: Work) -> None:
        await self.until(empty)
        await close()


class Turns:
    """What openings of one place take turns with: of two that write one thread at once, neither knows what is queued
    in the other. That is what is given up; tests/storage/test_background.py shows that both are told.
    """

    def __init__(self, mode: Mode) -> None:
        self.openings: list[Polite] = []
        self._lock: Any = threading.Lock() if mode == "sync" else asyncio.Lock()
        self._mode = mode

    def are_needed(self) -> bool:
        return sum(not each._closing for each in self.openings) > 1

    async def __aenter__(self) -> None:
        self._lock.acquire() if self._mode == "sync" else await self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


class Polite(BackgroundStorage):
    """While there is another opening, it waits for its turn and flushes what it wrote."""

    turns: Turns

    async def append(self, write: Write) -> Appended:
        if not self.turns.are_needed():
            return await super().append(write)
        async with self.turns:
            made = await super().append(write)
            await self.flush()
            return made


def background_backend(
    inner: Backend, mode: Mode, heard: Heard, queue: Callable[[Mode], Queue] = open_queue, **options: Any
) -> Backend:
    turns = Turns(mode)

    def made() -> BackgroundStorage:
        storage = Polite(inner.open(), queue(mode), telemetry=heard, **options)
        storage.turns = turns
        turns.openings.append(storage)
        return storage

    if inner.forgets:
        storage = made()
        return replace(inner, open=lambda: storage)
    return replace(inner, open=made)


class OnBackground(OnBackend):
    max_pending = 1000

    @pytest.fixture
    def heard(self) -> Heard:
        return Heard()

    @pytest.fixture
    def backend(self, mode: Mode, tmp_path: Path, heard: Heard) -> Backend:
        return background_backend(INNER[self.name](mode, tmp_path), mode, heard, max_pending=self.max_pending)

    @pytest.fixture
    def open_storage(self, backend: Backend) -> OpenStorage:
        opened: list[Storage] = []

        async def open_storage() -> Storage:
            for each in opened:
                with suppress(StorageClosedError):
                    await each.flush()  # type: ignore[attr-defined]
            opened.append(backend.open())
            return opened[-1]

        return open_storage

    @pytest.fixture(autouse=True)
    def _promises_are_kept(self, heard: Heard) -> Any:
        yield
        assert [line for line in heard.lines if line[0] == "error"] == []


class TestBackgroundMemory(OnBackground, StorageContract):
    name = "memory"


if EVERY_PAIR:  # in `make soak`

    class TestBackgroundFile(OnBackground, StorageContract, LayoutContract):
        name = "file"
        max_pending = FEW


class TestBackgroundSqlite(OnBackground, StorageContract, LayoutContract):
    name = "sqlite"


class BackgroundStage(TemporaryStage):
    """A backend in a temporary folder, behind a queue."""

    def __init__(self, name: str, mode: Mode, heard: Heard, queue: Callable[[Mode], Queue]) -> None:
        super().__init__(name, mode)
        self._backend = background_backend(self._backend, mode, heard, queue)


PLAYS: dict[str, tuple[str, Mode, Callable[[Mode], Queue]]] = {
    **{f"{name}-{mode}": (name, mode, open_queue) for name in INNER for mode in MODES},
    **{f"{name}-lazy": (name, "sync", lambda mode: LazyQueue()) for name in INNER},
}


SHORT = ["sqlite-sync", "memory-async", "file-lazy"]


@pytest.mark.parametrize("which", PLAYS if EVERY_PAIR else SHORT)
def test_random_operations_have_the_models_answers(which: str) -> None:
    (name, mode, queue), heard = PLAYS[which], Heard()
    members: dict[str, Any] = {"stage": staticmethod(lambda: BackgroundStage(name, mode, heard, queue)), "steps": 0}
    played = play(type("Background", (StorageMachine,), members), plays=32)
    print(f"{which}: {played} operations")
    assert played >= 1000
    assert [line for line in heard.lines if line[0] == "error"] == []
    assert heard.counts["perdure.background.queued"] == heard.counts["perdure.background.applied"] > 0
