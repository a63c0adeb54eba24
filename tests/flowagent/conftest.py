"""Fixtures of the flowagent face."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import CheckpointManager, CheckpointStorage
from perdure.testing.clock import ManualClock
from tests.flowagent.places import ALL, OURS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=ALL)
async def storage(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    """Each storage in turn, the one with three methods among them."""
    made = ALL[request.param](tmp_path, clock)
    yield made
    if request.param in OURS:
        await made.close()


@pytest.fixture(params=OURS)
async def ours(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    """Each storage that is on the engine."""
    async with OURS[request.param](tmp_path, clock) as made:
        yield made


@pytest.fixture
def manager(storage: CheckpointStorage, clock: ManualClock) -> CheckpointManager:
    return CheckpointManager(storage, clock=clock)
