"""Options of a step: how often, how long, under which key, as which type."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure.core.errors import InvalidInputError
from perdure.runtime.options import Retry
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]

QUICK = Retry(attempts=3, wait=0.001)


async def test_a_step_that_raises_is_tried_again_and_every_failure_is_recorded(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.options(retry=QUICK).step("flaky", jobs.fails("flaky", OSError("no"), 2))

    assert await block(store, code) == 3
    assert await kinds(store) == ["run.started", "step.failed", "step.failed", "step.finished", "run.finished"]


async def test_the_last_failure_is_raised_when_the_attempts_are_used_up(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        await run.options(retry=QUICK).step("flaky", jobs.fails("flaky", OSError("no"), 9))

    with pytest.raises(OSError, match="no"):
        await block(store, code)
    assert jobs.count("flaky") == 3


async def test_only_the_errors_that_retry_names_are_tried_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        retry = Retry(attempts=3, wait=0.001, on=(OSError,))
        await run.options(retry=retry).step("flaky", jobs.fails("flaky", ValueError("bad"), 9))

    with pytest.raises(ValueError, match="bad"):
        await block(store, code)
    assert jobs.count("flaky") == 1


@pytest.mark.parametrize("limit", [0.01, timedelta(milliseconds=10)])
async def test_a_step_that_takes_too_long_is_stopped(store: Any, limit: Any) -> None:
    async def code(run: Any) -> Any:
        await run.options(timeout=limit).step("slow", asyncio.sleep, 60)

    with pytest.raises(TimeoutError):
        await block(store, code)
    assert await kinds(store) == ["run.started", "step.failed", "run.failed"]


async def test_a_key_finds_a_step_again_whatever_its_arguments(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        got = await run.options(key="page-1").step("fetch", jobs.job("fetch", "text"), object())
        await run.step("die", jobs.job("die", dies=[1]))
        return got

    await dies(block(store, code))
    assert await block(store, code) == "text"
    assert jobs.count("fetch") == 1


@dataclass
class City:
    name: str
    people: int


async def test_returns_gives_the_type_back_the_first_time_and_after_resuming(store: Any, jobs: Jobs) -> None:
    seen: list[Any] = []

    async def code(run: Any) -> None:
        seen.append(await run.options(returns=City).step("city", jobs.job("city", {"name": "Paris", "people": 2})))
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert seen == [City("Paris", 2)] * 2


@pytest.mark.parametrize("wrong", [{"retry": 0}, {"retry": True}, {"timeout": -1}, {"unverified": "guess"}])
async def test_options_that_cannot_be_are_refused(store: Any, wrong: dict[str, Any]) -> None:
    async with store.thread("t").run() as run:
        with pytest.raises(InvalidInputError):
            run.options(**wrong)
