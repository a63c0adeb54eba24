"""Ending a run from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.errors import LeaseLostError, NotFoundError, RunCancelledError, RunFinishedError
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def test_a_queued_run_that_is_cancelled_never_runs(store: Any, jobs: Jobs) -> None:
    store.handler("work")(lambda run: jobs.job("work")())
    ticket = await store.start("work", thread="t")
    info = await store.cancel("t", reason="not needed")
    assert (info.status, info.error) == ("cancelled", "not needed")
    assert (await store.recover(), jobs.ran) == ([], [])
    with pytest.raises(RunCancelledError, match="not needed"):
        await ticket.result(timeout=5)


async def test_a_live_owner_is_refused_and_its_step_is_stopped(store: Any) -> None:
    store._parts.running.runtime.leases.ttl = 0.3  # it is told when it renews
    stopped: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append("step")
            raise

    working = asyncio.create_task(block(store, lambda run: run.step("forever", forever)))
    while "run.started" not in await kinds(store):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await store.cancel("t")
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(working, 30)
    assert (stopped, (await kinds(store))[-1]) == (["step"], "run.cancelled")


async def test_an_owner_that_writes_after_the_cancel_is_refused(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        await store.cancel("t", reason="stop")
        await run.step("late", jobs.job("late"))

    with pytest.raises(LeaseLostError):
        await block(store, code)
    (info,) = await store.runs()
    assert (info.status, (await kinds(store))[-1]) == ("cancelled", "run.cancelled")


async def test_a_run_that_is_cancelled_before_its_end_is_told_so_there(store: Any) -> None:
    @store.handler("work")
    async def work(run: Any) -> str:
        await store.cancel("t", reason="stop")
        return "done"

    with pytest.raises(LeaseLostError):
        await block(store, work)
    await store.start("work", thread="t")
    await store.recover()
    (info,) = await store.runs()
    assert (info.status, info.error) == ("cancelled", "stop")
    assert (await kinds(store)).count("run.cancelled") == 2


async def test_cancelling_and_ending_at_one_moment_are_told_apart(store: Any) -> None:
    async def one(thread: str) -> tuple[Any, ...]:
        async def code(run: Any) -> None:
            cancels.append(asyncio.create_task(store.cancel(thread)))
            await asyncio.sleep(0)  # it has looked, and is about to write

        cancels: list[asyncio.Task[Any]] = []
        ended = await asyncio.gather(block(store, code, thread), return_exceptions=True)
        return (*ended, *await asyncio.gather(*cancels, return_exceptions=True))

    for n in range(20):
        ended, cancelled = await one(f"t{n}")
        status = next(each for each in await store.runs() if each.thread == f"t{n}").status
        if status == "finished":
            assert isinstance(cancelled, NotFoundError)
        else:
            assert (status, type(ended)) == ("cancelled", LeaseLostError)


async def test_a_run_that_is_over_cannot_be_cancelled(store: Any, jobs: Jobs) -> None:
    await block(store, lambda run: run.step("one", jobs.job("one")))
    with pytest.raises(NotFoundError):
        await store.cancel("t")
    with pytest.raises(NotFoundError):
        await store.cancel("nobody")


async def test_a_cancelled_run_is_not_resumed(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.step("one", jobs.job("one", 1, dies=[1]))

    await dies(block(store, code, key="k"))
    await store.cancel("t")
    with pytest.raises(NotFoundError):
        await store.resume("t")
    with pytest.raises(RunFinishedError):
        await block(store, code, key="k")
    assert await block(store, code, key="other") == 1


async def test_cancelling_twice_at_once_is_cancelling(store: Any) -> None:
    await store.start("work", thread="t")
    done = await asyncio.gather(store.cancel("t"), store.cancel("t"), return_exceptions=True)
    assert {type(each).__name__ for each in done} <= {"RunInfo", "NotFoundError"}
    assert (await kinds(store)).count("run.cancelled") == 1
