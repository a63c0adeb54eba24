"""Steps: what was recorded is returned, the rest is run."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.errors import InvalidInputError, RunFinishedError
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def test_a_step_returns_what_its_function_returns_and_records_it(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.step("plan", jobs.job("plan", {"n": 1}), "arg", name="x")

    assert await block(store, code) == {"n": 1}
    assert await kinds(store) == ["run.started", "step.finished", "run.finished"]


async def test_after_a_crash_recorded_steps_are_returned_and_only_the_missing_ones_run(store: Any, jobs: Jobs) -> None:
    one, two = jobs.job("one", 1), jobs.job("two", 2, dies=[1])

    async def code(run: Any) -> Any:
        return [await run.step("one", one), await run.step("two", two)]

    await dies(block(store, code))
    assert await block(store, code) == [1, 2]
    assert jobs.ran == ["one", "two", "two"]


async def test_a_step_returns_the_same_the_first_time_and_after_resuming(store: Any, jobs: Jobs) -> None:
    seen: list[Any] = []

    async def code(run: Any) -> None:
        seen.append(await run.step("ask", jobs.job("ask", (1, {2, 3}))))
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert seen == [(1, {2, 3})] * 2


async def test_a_plain_function_can_be_a_step(store: Any) -> None:
    async def code(run: Any) -> Any:
        return await run.step("sum", sum, [1, 2, 3])

    assert await block(store, code) == 6


async def test_steps_of_one_name_are_told_apart_by_their_arguments_then_by_their_order(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        got = [await run.step("f", lambda key, n=n: jobs.ran.append("f") or n, key) for n, key in enumerate("aab")]
        await run.step("die", jobs.job("die", dies=[1]))
        return got

    await dies(block(store, code))
    assert await block(store, code) == [0, 1, 2]
    assert jobs.count("f") == 3


async def test_a_run_that_is_over_is_read_from_the_log_and_runs_nothing(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.step("one", jobs.job("one", 1))

    await block(store, code, key="k")
    before = await kinds(store)
    async with store.thread("t").run(key="k") as run:
        assert (run.over, run.result, await run.step("one", jobs.job("one", 5))) == (True, 1, 1)
        with pytest.raises(RunFinishedError):
            await run.step("two", jobs.job("two"))
    assert (jobs.ran, await kinds(store)) == (["one"], before)


async def test_what_is_no_function_or_no_name_is_refused(store: Any) -> None:
    async def code(run: Any) -> None:
        with pytest.raises(InvalidInputError):
            await run.step("one", "not a function")
        with pytest.raises(ValueError, match="name of a step"):
            await run.step("", print)

    await block(store, code)
    assert await kinds(store) == ["run.started", "run.finished"]


async def test_more_recorded_steps_than_a_page_holds_are_all_found(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> int:
        total = 0
        for n in range(1200):
            total += await run.step("n", lambda n: jobs.ran.append("n") or n, n)
        await run.step("die", jobs.job("die", dies=[1]))
        return total

    await dies(block(store, code))
    assert await block(store, code) == sum(range(1200))
    assert jobs.count("n") == 1200
