"""Values that must not change on resuming: time, randomness, sleep."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.core.errors import InvalidInputError
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, store

__all__ = ["clock", "jobs", "store"]


async def test_now_random_and_uuid_are_the_same_after_resuming(store: Any, jobs: Jobs, clock: ManualClock) -> None:
    seen: list[Any] = []

    async def code(run: Any) -> None:
        seen.append([await run.now(), await run.random(), await run.uuid(), await run.now(), await run.uuid()])
        clock.advance(timedelta(hours=1))
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert seen[0] == seen[1]
    now, number, uuid, _, other = seen[0]
    assert (now, 0 <= number < 1, uuid.version, uuid != other) == (datetime(2026, 1, 1, tzinfo=UTC), True, 4, True)


async def test_a_handler_that_sleeps_long_lets_go_and_is_woken_when_it_is_time(
    store: Any, jobs: Jobs, clock: ManualClock
) -> None:
    """S4.2: stopped, and resumed days later."""

    @store.handler("work")
    async def work(run: Any) -> str:
        await run.step("before", jobs.job("before"))
        await run.sleep(timedelta(hours=1))
        return "awake"

    await store.start("work", thread="t")
    (info,) = await store.recover()
    assert (info.status, info.owner, info.wake_at) == ("waiting", None, datetime(2026, 1, 1, 1, tzinfo=UTC))
    assert await store.recover() == []
    clock.advance(timedelta(minutes=59))
    assert await store.recover() == []
    clock.advance(timedelta(minutes=1))
    (info,) = await store.recover()
    assert (info.status, info.result, jobs.count("before")) == ("finished", "awake", 1)


async def test_the_time_counts_from_the_first_call(store: Any, clock: ManualClock) -> None:
    async def code(run: Any) -> str:
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)  # in its sleep
        await run.sleep(3600)
        return "awake"

    with pytest.raises(asyncio.CancelledError):
        await block(store, code)
    clock.advance(timedelta(hours=1))
    assert await asyncio.create_task(block(store, code)) == "awake"


@pytest.mark.parametrize("wrong", [-1, float("nan")])
async def test_a_time_that_cannot_be_slept_is_refused(store: Any, wrong: float) -> None:
    async with store.thread("t").run() as run:
        with pytest.raises(InvalidInputError):
            await run.sleep(wrong)


async def test_steps_beside_a_sleep_finish_first(store: Any, jobs: Jobs, clock: ManualClock) -> None:
    @store.handler("work")
    async def work(run: Any) -> None:
        async def slow() -> None:
            await asyncio.sleep(0.1)
            jobs.ran.append("slow")

        await asyncio.gather(run.sleep(3600), run.step("slow", slow))

    await store.start("work", thread="t")
    (info,) = await store.recover()
    assert (info.status, jobs.ran) == ("waiting", ["slow"])
    clock.advance(timedelta(hours=1))
    (info,) = await store.recover()
    assert (info.status, jobs.ran) == ("finished", ["slow"])
