"""Each caller sees exactly what is its own, whatever it names, on every storage and both faces."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.isolation import IDS, PLAYS, World, register
from tests.checkpoints.places import PLACES, Place, opened

_NUMBERS = itertools.count()  # no two examples share a namespace or a folder
_MOVES = st.lists(st.tuples(*(st.integers(0, len(each) - 1) for each in (PLAYS, IDS, IDS))), min_size=20, max_size=60)
_EXAMPLES = {"memory": 60, "sqlite": 25, "file": 15}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", PLACES)
def test_each_caller_sees_exactly_what_is_its_own(kind: str, mode: str, tmp_path: Path) -> None:
    place = PLACES[kind](tmp_path)

    @settings(max_examples=_EXAMPLES.get(kind, 6))
    @given(_MOVES)
    def play(moves: list[tuple[int, int, int]]) -> None:
        asyncio.run(_played(place, mode, tmp_path, moves))

    play()


async def _played(place: Place, mode: str, folder: Path, moves: list[tuple[int, int, int]]) -> None:
    name = f"tenant{next(_NUMBERS)}"
    (folder / name).mkdir()
    async with opened(place, mode, namespace=name) as store:
        register(store, mode)
        world = World(store, folder / name)
        for play, thread, other in moves:
            await PLAYS[play](world, IDS[thread], IDS[other])
