"""Long lists that grow from save to save, with others writing in between: what is loaded is what was saved."""

from __future__ import annotations

import asyncio
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
