"""Steps inside steps, and steps beside each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.runtime.options import Retry
from tests.runtime.scenes import Jobs, Killed, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def test_a_step_inside_a_step_is_returned_when_the_outer_one_was_cut_off(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def outer() -> Any:
            got = await run.step("inner", jobs.job("inner", 1))
            return got + await jobs.job("outer", 1, dies=[1])()

        return await run.step("outer", outer)

    await dies(block(store, code))
    assert await block(store, code) == 2
    assert jobs.ran == ["inner", "outer", "outer"]


async def test_equal_steps_in_different_steps_are_different(store: Any) -> None:
    async def code(run: Any) -> Any:
        async def outer(name: str) -> Any:
            return await run.step("inner", lambda: name)

        got = [await run.step("outer", outer, name) for name in "ab"]
        if not run.resumed:
            raise Killed
        return got

    await dies(block(store, code))
    assert await block(store, code) == ["a", "b"]


async def test_parallel_equal_steps_never_swap_results(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def slow(place: int) -> int:
            jobs.ran.append("slow")
            await asyncio.sleep(0.02 - 0.004 * place)  # the last one is recorded first
            return place

        # Equal in name and arguments: only their order in the code tells them apart.
        calls = [run.step("slow", lambda place=place: slow(place)) for place in range(5)]
        got = await asyncio.gather(*calls)
        await run.step("die", jobs.job("die", dies=[1]))
        return got

    await dies(block(store, code))
    assert await block(store, code) == [0, 1, 2, 3, 4]
    assert jobs.count("slow") == 5


async def test_of_parallel_steps_only_those_run_again_that_were_not_recorded(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def late() -> None:
            await asyncio.sleep(0.05)
            await jobs.job("late", dies=[1])()

        return await asyncio.gather(run.step("early", jobs.job("early", 1)), run.step("late", late))

    await dies(block(store, code))
    assert await block(store, code) == [1, None]
    assert jobs.ran == ["early", "late", "late"]


async def test_a_step_that_is_tried_again_gets_what_was_recorded_inside_it(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def outer() -> Any:
            got = await run.step("inner", lambda: jobs.ran.append("inner") or jobs.count("inner"))
            return got, await jobs.fails("outer", OSError("no"), 2)()

        return await run.options(retry=Retry(attempts=3, wait=0.001)).step("outer", outer)

    assert await block(store, code) == (1, 3)
    assert (await kinds(store)).count("step.finished") == 2


async def test_so_it_does_after_a_crash(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def outer() -> Any:
            got = await run.step("inner", lambda: jobs.ran.append("inner") or jobs.count("inner"))
            await jobs.job("die", dies=[1])()
            return got, await jobs.fails("outer", OSError("no"), 2)()

        return await run.options(retry=Retry(attempts=3, wait=0.001)).step("outer", outer)

    await dies(block(store, code))
    assert await block(store, code) == (1, 3)


async def test_a_tool_that_a_timeout_cut_off_inside_a_step_is_asked_about(store: Any, jobs: Jobs) -> None:
    async def charge() -> None:
        jobs.ran.append("charge")
        await asyncio.sleep(60)

    async def code(run: Any) -> Any:
        async def outer() -> Any:
            return await run.tool("charge", charge)

        return await run.options(retry=Retry(attempts=2, wait=0.001), timeout=0.05).step("outer", outer)

    await block(store, code)
    assert (jobs.count("charge"), len(await store.pauses())) == (1, 1)


async def test_a_tool_inside_a_step_that_is_tried_again_says_each_time_that_it_starts(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def outer() -> Any:
            return await run.tool("charge", jobs.fails("charge", OSError("no"), 1))

        return await run.options(retry=Retry(attempts=2, wait=0.001)).step("outer", outer)

    assert await block(store, code) == 2
    assert (await kinds(store)).count("tool.started") == 2


async def test_a_failure_beside_a_step_that_finishes_is_tried_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await asyncio.gather(
            run.step("bad", jobs.fails("bad", OSError("no"), 1)), run.step("good", jobs.job("good", 1))
        )

    with pytest.raises(OSError, match="no"):
        await block(store, code)
    assert await block(store, code) == [2, 1]
