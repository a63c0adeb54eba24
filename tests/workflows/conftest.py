"""Fixtures of workflows: a world that remembers, and a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Perdure
from tests.workflows.scenes import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
async def store() -> AsyncIterator[Perdure]:
    async with Perdure.open("memory://") as opened:
        yield opened
