"""Lines that were read off a log bit by bit are those that the whole log leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES
from tests.sessions.conversations import Life

MORE = int(os.environ.get("PERDURE_LIVES", "1"))  # times as many
# `make soak` has ten times as many. Fewer where each step is a trip to a server.
LIVES = {"memory": 12, "file": 4, "sqlite": 6, "postgres": 2, "mysql": 2, "hot_sqlite": 2}
STEPS = 60


@pytest.mark.parametrize("place", LIVES)
async def test_lines_are_the_conversation_after_whatever_happened_to_it(place: str, tmp_path: Path) -> None:
    clock = ManualClock()
    url, options = PLACES[place](tmp_path)
    for seed in range(LIVES[place] * MORE):
        async with Perdure.open(url, clock=clock, **options) as store:
            await Life(store, clock, seed).play(STEPS)
