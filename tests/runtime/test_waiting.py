"""Several things that a run waits for at once: whichever comes first wakes it, the others go on waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.testing.clock import ManualClock
from tests.runtime.scenes import clock, jobs, store

__all__ = ["clock", "jobs", "store"]

HOUR = timedelta(hours=1)
WAITS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "sleep": lambda run: run.sleep(HOUR),
    "signal": lambda run: run.signal("x"),
    "pause": lambda run: run.pause("ok", ask="ok?"),
}
PAIRS = [(one, two) for one in WAITS for two in WAITS if one != two]


async def in_gather(*waits: Awaitable[Any]) -> None:
    await asyncio.gather(*waits)


async def in_group(*waits: Awaitable[Any]) -> None:
    async def one(wait: Awaitable[Any]) -> None:
        await wait

    async with asyncio.TaskGroup() as group:
        for wait in waits:
            group.create_task(one(wait))


async def waiting(store: Any, pair: tuple[str, str], together: Any) -> None:
    @store.handler("wait")
    async def wait(run: Any) -> str:
        await together(*(WAITS[name](run) for name in pair))
        return "done"

    await store.start("wait", thread="t")
    await store.recover()


async def comes(store: Any, clock: ManualClock, name: str) -> None:
    """What a run waits for comes."""
    if name == "signal":
        await store.signal("t", "x", 1)
    elif name == "pause":
        (pause,) = await store.pauses()
        await store.decide(pause.id, approved=True, by="alice")
    else:
        clock.advance(HOUR)


@pytest.mark.parametrize("together", [in_gather, in_group])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_whichever_comes_first_wakes_the_run(
    store: Any, clock: ManualClock, pair: tuple[str, str], backwards: bool, together: Any
) -> None:
    await waiting(store, pair, together)
    assert (await store.runs())[0].status == ("input_required" if "pause" in pair else "waiting")
    for each in reversed(pair) if backwards else pair:
        assert (await store.runs())[0].status != "finished"
        await comes(store, clock, each)
        assert len(await store.recover()) == 1
    assert (await store.runs())[0].result == "done"


@pytest.mark.parametrize("pair", [("sleep", "pause"), ("pause", "sleep")], ids="-".join)
async def test_a_question_stays_open_when_the_sleep_beside_it_is_over(
    store: Any, clock: ManualClock, pair: tuple[str, str]
) -> None:
    await waiting(store, pair, in_gather)
    clock.advance(HOUR)
    (info,) = await store.recover()
    assert (info.status, len(await store.pauses())) == ("input_required", 1)
    await comes(store, clock, "pause")
    assert [each.result for each in await store.recover()] == ["done"]
