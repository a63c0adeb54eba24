"""The life of a run, the same on every storage: started, interrupted, asked about, resumed, cancelled, fenced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import LeaseHeldError, LeaseLostError
from tests.checkpoints.places import PLACES, opened
from tests.runtime.scenes import Jobs, block, dies, jobs, kinds

__all__ = ["jobs"]


@pytest.fixture(params=list(PLACES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with opened(PLACES[request.param](tmp_path), "async", lease_ttl=1.5) as made:
        yield made


def releasing(jobs: Jobs) -> Any:
    async def release(run: Any) -> Any:
        plan = await run.step("plan", jobs.job("plan", ["build", "ship"]), run.input)
        await run.append("log", "planned")
        decision = await run.pause("deploy", ask="Deploy?", args={"env": "prod"})
        paid = await run.tool("deploy", jobs.job("deploy", "shipped", dies=[1]), **decision.args)
        return [plan, paid, await run.load()]

    return release


async def test_a_run_goes_through_a_pause_a_crash_and_a_question_to_its_end(store: Any, jobs: Jobs) -> None:
    store.handler("release")(releasing(jobs))
    ticket = await store.start("release", {"service": "api"}, thread="t", user="ann", key="release-17")
    assert [info.status for info in await store.recover()] == ["input_required"]
    await store.decide((await store.pauses())[0], approved=True, by="ann", args={"env": "test"})
    await dies(store.resume("t", user="ann"))
    assert [info.status for info in await store.recover()] == ["input_required"]
    (pause,) = await store.pauses(user="ann")
    assert pause.args == {"env": "test"}
    await store.decide(pause, approved=False, by="ann", answer="it shipped")
    assert (await store.resume("t", user="ann")).status == "finished"
    assert await ticket.result(timeout=30) == [["build", "ship"], "it shipped", {"log": ["planned"]}]
    assert jobs.ran == ["plan", "deploy"]
    assert (await store.verify()).ok


async def test_a_worker_brings_runs_to_their_end(store: Any, jobs: Jobs) -> None:
    store.handler("double")(lambda run: run.step("double", lambda n: 2 * n, run.input))
    async with store.worker(concurrency=3):
        tickets = [await store.start("double", n, thread=f"t{n}") for n in range(5)]
        assert [await ticket.result(timeout=60) for ticket in tickets] == [0, 2, 4, 6, 8]


async def test_a_live_lease_is_respected_and_a_lost_one_fences(store: Any, jobs: Jobs) -> None:
    slept = asyncio.Event()

    @store.handler("work")
    async def work(run: Any) -> Any:
        await run.step("slow", asyncio.sleep, 2)  # longer than the lease, which is kept
        if not slept.is_set():
            slept.set()
            await asyncio.sleep(60)
        return await run.step("new", jobs.job("new", "new"))

    await store.start("work", thread="t")
    working = asyncio.create_task(store.resume("t"))
    await slept.wait()
    with pytest.raises(LeaseHeldError):
        await block(store, lambda run: run.now(), wait=0)
    assert (await store.resume("t", take_over=True)).result == "new"
    with pytest.raises(LeaseLostError):
        await working
    assert (jobs.ran, (await kinds(store))[-1]) == (["new"], "run.finished")


async def test_a_run_is_cancelled_and_another_begins(store: Any, jobs: Jobs) -> None:
    store.handler("work")(lambda run: run.step("one", jobs.job("one", 1, dies=[1])))
    await store.start("work", thread="t")
    await dies(store.recover())
    assert (await store.cancel("t", reason="enough")).status == "cancelled"
    assert await store.recover() == []
    await store.start("work", thread="t")
    assert [info.result for info in await store.recover()] == [1]


async def test_a_timer_wakes_a_run(store: Any) -> None:
    @store.handler("sleeper")
    async def sleeper(run: Any) -> str:
        await run.sleep(2)
        return "awake"

    ticket = await store.start("sleeper", thread="t")
    (info,) = await store.recover()
    assert (info.status, info.owner) == ("waiting", None)
    async with store.worker():
        assert await ticket.result(timeout=60) == "awake"
