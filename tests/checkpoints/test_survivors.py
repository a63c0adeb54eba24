"""Points that survive load as before, whatever happened around them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.checkpoints.places import PLACES, opened
from tests.checkpoints.survivors import play

MORE = int(os.environ.get("PERDURE_LIVES", "1"))  # times as many
# `make soak` has ten times as many. Fewer where each step is a trip to a server.
LIVES = {"memory": 48, "file": 14, "sqlite": 20, "postgres": 4, "mysql": 4, "hot_sqlite": 4, "hot_postgres": 2}
STEPS = 45


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("place", PLACES)
async def test_every_point_that_survives_loads_as_it_was_made(place: str, mode: str, tmp_path: Path) -> None:
    """B4, B5, B9: save, fork, rewind, redo, prune, delete, compact in any order, beside a model with full copies."""
    seeds = range(mode == "async", LIVES[place] * MORE, 2)
    async with opened(PLACES[place](tmp_path), mode) as store:
        for seed in seeds:
            await play(store, seed, STEPS)
