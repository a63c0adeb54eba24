"""Records are read in pages, and past the next page by their keys."""

from __future__ import annotations

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
