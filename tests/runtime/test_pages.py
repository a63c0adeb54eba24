"""Records are read in pages, and past the next page by their keys."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.runtime import journal
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, store

__all__ = ["clock", "jobs", "store"]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_PAGE", 4)


async def test_records_of_many_pages_are_found_in_order(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        made = [await run.step("n", jobs.job("n", number), number) for number in range(11)]
        await run.step("die", jobs.job("die", dies=[1]))
        return made

    await dies(block(store, code))
    assert await block(store, code) == list(range(11))
    assert jobs.count("n") == 11


async def test_a_call_far_ahead_is_found_by_its_key(store: Any, jobs: Jobs) -> None:
    async def code(run: Any, first: int) -> Any:
        await run.load(default=None, fresh=True)
        made = [await run.tool("n", jobs.job("n", number), number) for number in range(first, 20)]
        await run.step("die", jobs.job("die", dies=[1]))
        return made

    await dies(block(store, lambda run: code(run, 0)))
    assert await block(store, lambda run: code(run, 15)) == [15, 16, 17, 18, 19]
    assert jobs.count("n") == 20


async def test_a_tool_far_ahead_that_may_have_run_is_asked_about(store: Any, jobs: Jobs) -> None:
    async def code(run: Any, first: int) -> None:
        await run.load(default=None, fresh=True)
        for number in range(first, 12):
            await run.step("n", jobs.job("n", number), number)
        await run.tool("pay", jobs.job("pay", dies=[1]))

    await dies(block(store, lambda run: code(run, 0)))
    await block(store, lambda run: code(run, 12))
    assert [pause.name for pause in await store.pauses("t")] == ["unverified pay"]
    assert jobs.count("pay") == 1


@pytest.mark.parametrize("before", range(6))
async def test_a_tool_whose_result_is_on_the_next_page_is_not_asked_about(store: Any, jobs: Jobs, before: int) -> None:
    async def code(run: Any) -> Any:
        for number in range(before):
            await run.step("n", jobs.job("n", number), number)
        paid = [await run.tool("pay", jobs.job("pay", number), number) for number in range(9)]
        await run.step("die", jobs.job("die", dies=[1]))
        return paid

    await dies(block(store, code))
    assert await block(store, code) == list(range(9))
    assert (await store.pauses("t"), jobs.count("pay")) == ([], 9)


@pytest.mark.parametrize("call", ["step", "tool"])
@pytest.mark.parametrize("together", [False, True])
async def test_failures_that_were_handled_are_told_again_wherever_a_page_ends(
    store: Any, jobs: Jobs, call: str, together: bool
) -> None:
    async def one(run: Any, number: int) -> Any:
        work = jobs.fails(f"n{number}", ValueError("no"), 1) if number % 3 == 0 else jobs.job(f"n{number}", number)
        try:
            return await getattr(run, call)("n", work, number)
        except ValueError:
            return "handled"

    async def code(run: Any) -> Any:
        numbers = range(20)
        work = [one(run, number) for number in numbers]
        made = await asyncio.gather(*work) if together else [await each for each in work]
        await run.step("after", jobs.job("after"))
        await run.step("die", jobs.job("die", dies=[1]))
        return made

    await dies(block(store, code))
    expected = ["handled" if number % 3 == 0 else number for number in range(20)]
    assert await block(store, code) == expected
    assert [jobs.count(f"n{number}") for number in range(20)] == [1] * 20


@pytest.mark.parametrize("before", range(6))
async def test_a_failure_that_ended_the_run_is_tried_again_wherever_a_page_ends(
    store: Any, jobs: Jobs, before: int
) -> None:
    async def code(run: Any) -> Any:
        for number in range(before):
            await run.step("n", jobs.job("n", number), number)
        try:
            return await run.step("flaky", jobs.fails("flaky", ValueError("no"), 1))
        except ValueError:
            await run.step("clean up", jobs.job("clean up"))
            raise

    with pytest.raises(ValueError, match="no"):
        await block(store, code)
    assert await block(store, code) == 2


async def test_calls_that_are_made_at_once_share_the_pages_they_are_read_from(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        made = await asyncio.gather(*(run.step("n", jobs.job("n", number), number) for number in range(40)))
        await run.step("die", jobs.job("die", dies=[1]))
        return made

    await dies(block(store, code))
    storage, pages = store._parts.storage, 0
    entries = storage.entries

    async def counted(*args: Any, **named: Any) -> Any:
        nonlocal pages
        pages += named.get("limit") == 4
        return await entries(*args, **named)

    storage.entries = counted
    assert await block(store, code) == list(range(40))
    assert (pages <= 11, jobs.count("n")) == (True, 40)
