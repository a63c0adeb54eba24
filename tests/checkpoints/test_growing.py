"""Long lists that grow from save to save, with others writing in between: what is loaded is what was saved."""

from __future__ import annotations

import asyncio
import random
from base64 import b85encode
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.errors import VersionConflictError


def said(count: int, by: str) -> list[dict[str, Any]]:
    return [{"role": by, "n": at, "parts": [at]} for at in range(count)]


async def test_a_refused_save_harms_no_later_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    async with Perdure.open(url) as here, Perdure.open(url) as there:
        mine, other = here.thread("t"), there.thread("t")
        state = {"messages": said(30, "user")}
        for _ in range(3):
            state["messages"].append({"role": "bot"})
            await mine.save(state)
        await other.update(append={"messages": [{"role": "other"}]})
        state["messages"].append({"role": "late"})
        with pytest.raises(VersionConflictError):
            await mine.save(state)
        state = await mine.load()
        for at in range(3):
            state["messages"].append({"role": "again", "n": at})
            await mine.save(state)
            assert await there.thread("t").load() == state


async def test_saves_that_meet_leave_the_one_that_was_last(tmp_path: Path) -> None:
    async with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        start = said(30, "user")
        for _ in range(3):
            await store.thread("t").save({"messages": start}, expected=None)
        states = [{"messages": [*start, *said(at, f"w{at}")]} for at in range(1, 9)]
        saved = await asyncio.gather(
            *(store.thread("t").save(state, expected=None) for state in states), return_exceptions=True
        )
        newest = max((each for each in saved if not isinstance(each, BaseException)), key=lambda each: each.version)
        assert await store.thread("t").load() == states[saved.index(newest)]
    async with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as again:
        assert await again.thread("t").load() == states[saved.index(newest)]


@pytest.mark.parametrize("packs", [True, False])
async def test_snapshots_that_roll_are_dropped_whoever_wrote_them(tmp_path: Path, packs: bool) -> None:
    """A store that is opened anew for some saves leaves as many behind as one that stays open."""
    left = [await _snapshots_left(f"sqlite:///{tmp_path}/{every}.db", packs, every) for every in (200, 7)]
    assert left[0] == left[1]
    assert left[0] <= (4 if packs else 3), "landmarks, the newest, and where they are small the one before it"


async def _snapshots_left(url: str, packs: bool, every: int) -> int:
    chance, state = random.Random(1), dict[str, Any](messages=[])
    for start in range(0, 200, every):
        async with Perdure.open(url) as store:
            for _ in range(start, min(start + every, 200)):
                text = "the same words " * 60 if packs else b85encode(chance.randbytes(700)).decode()
                state["messages"].append({"role": "user", "text": text})
                await store.thread("t").save(state)
            assert await store.thread("t").load() == state
    async with Perdure.open(url) as store:
        return (await store.sizes()).snapshots
