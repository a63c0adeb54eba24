"""A storage with Redis in front keeps the same contract, and plays the same random operations."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.contract import LayoutContract, Mode, StorageContract
from perdure.testing.machine import StorageMachine
from tests.contract.backends import MODES, Backend, file, memory
from tests.contract.stages import TemporaryStage, play
from tests.contract.test_contract import OnBackend
from tests.storage.hot import Heard, hot

EVERY_PAIR = os.environ.get("PERDURE_EVERY_PAIR") == "1"

INNER: dict[str, Callable[[Mode, Path], Backend]] = {"memory": memory, "file": file}
FEW = 3  # threads that are kept: plays have more, so that some are evicted


class OnHot(OnBackend):
    @pytest.fixture
    def backend(self, mode: Mode, tmp_path: Path) -> Backend:
        return hot_backend(INNER[self.name](mode, tmp_path), mode, Heard())


def hot_backend(inner: Backend, mode: Mode, heard: Heard, **options: Any) -> Backend:
    if inner.forgets:
        storage = hot(inner.open(), mode, heard, **options)
        return replace(inner, open=lambda: storage)
    return replace(inner, open=lambda: hot(inner.open(), mode, heard, **options))


if EVERY_PAIR:  # tests/contract has Redis with SQLite and with PostgreSQL; `make soak` has these too

    class TestHotMemory(OnHot, StorageContract):
        name = "memory"

    class TestHotFile(OnHot, StorageContract, LayoutContract):
        name = "file"


class HotStage(TemporaryStage):
    """A backend in a temporary folder, behind the test's Redis."""

    def __init__(self, name: str, mode: Mode, heard: Heard) -> None:
        super().__init__(name, mode)
        self._backend = hot_backend(self._backend, mode, heard, max_cached_threads=FEW)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", INNER)
def test_random_operations_have_the_models_answers(name: str, mode: Mode) -> None:
    heard = Heard()
    members: dict[str, Any] = {"stage": staticmethod(lambda: HotStage(name, mode, heard)), "steps": 0}
    played = play(type(f"hot_{name}_{mode}", (StorageMachine,), members), plays=32)
    print(f"{name} {mode}: {played} operations, {heard.counts}")
    assert played >= 1000
    assert heard.counts["perdure.hot.hits"] > 0
    assert heard.counts["perdure.hot.errors"] == heard.counts["perdure.hot.refused"] == 0
