"""Leases: one owner at a time, kept while it works, given back at the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.errors import LeaseHeldError, LeaseLostError, UnfinishedRunError
from perdure.runtime.owner import is_dead, owner
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import TTL, Jobs, block, clock, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def lease(store: Any) -> tuple[Any, int]:
    """Who has the thread, and how often it was claimed."""
    (row,) = await store._parts.storage.find("", "t")
    return row.lease_owner, row.epoch


async def test_a_run_owns_its_thread_and_gives_it_back(store: Any) -> None:
    async with store.thread("t").run():
        mine, epoch = await lease(store)
        assert (is_dead(mine), epoch) == (False, 1)
    assert await lease(store) == (None, 1)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, asyncio.CancelledError])
async def test_it_is_given_back_however_the_run_ends(store: Any, error: type[BaseException]) -> None:
    async def code(run: Any) -> None:
        raise error

    with pytest.raises(error):
        await block(store, code)
    assert (await lease(store))[0] is None


async def test_a_live_owner_is_waited_for_then_refused(store: Any) -> None:
    async with store.thread("t").run():
        with pytest.raises(LeaseHeldError):
            await block(store, lambda run: run.now(), wait=0)


async def test_a_lease_that_ran_out_is_taken_and_the_late_owner_is_refused(store: Any, clock: ManualClock) -> None:
    async def late(run: Any) -> None:
        clock.advance(timedelta(seconds=TTL + 1))
        assert await block(store, lambda run: run.step("new", lambda: "new owner")) == "new owner"
        await run.step("late", lambda: "late")

    with pytest.raises(LeaseLostError):
        await block(store, late)
    assert (await kinds(store))[-1] == "run.finished"


async def test_a_dead_owner_of_this_machine_is_succeeded_at_once(store: Any) -> None:
    child = subprocess.run(
        [sys.executable, "-c", "from perdure.runtime.owner import owner; print(owner('x'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    gone = child.stdout.strip()
    await store.thread("t").save({})
    storage, (row,) = store._parts.storage, await store._parts.storage.find("", "t")
    await storage.claim(row.key, gone, until=1 << 60, now=0)
    assert (is_dead(gone), is_dead(owner("x")), is_dead("elsewhere/1/2/x")) == (True, False, False)
    assert await block(store, lambda run: run.step("one", lambda: 1), wait=0) == 1


async def test_losing_the_lease_cancels_the_running_step(tmp_path: Path) -> None:
    stopped: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append("step")

    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url, lease_ttl=0.3) as one, Perdure.open(url) as two:
        working = asyncio.create_task(block(one, lambda run: run.step("forever", forever)))
        while "run.started" not in await kinds(two) or (await lease(two))[0] is None:
            await asyncio.sleep(0.01)
        await two._parts.running.take_away((await two._parts.storage.find("", "t"))[0].key)
        with pytest.raises(LeaseLostError):
            await asyncio.wait_for(working, 30)
    assert stopped == ["step"]


async def test_a_long_step_keeps_its_lease_beyond_the_ttl(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url, lease_ttl=0.6) as one, Perdure.open(url, lease_ttl=0.6) as two:
        working = asyncio.create_task(block(one, lambda run: run.step("long", asyncio.sleep, 2, "done")))
        while (await kinds(two)) == [] or (await lease(two))[0] is None:
            await asyncio.sleep(0.01)
        for _ in range(3):
            with pytest.raises(LeaseHeldError):
                await block(two, lambda run: run.now(), wait=0.4)
        assert await working == "done"


async def test_a_run_in_vain_leaves_the_timer_of_a_sleeping_one(store: Any, clock: ManualClock, jobs: Jobs) -> None:
    @store.handler("sleeper")
    async def sleeper(run: Any) -> str:
        await run.sleep(3600)
        return "awake"

    await store.start("sleeper", thread="t")
    await store.recover()
    with pytest.raises(UnfinishedRunError):
        await block(store, lambda run: run.now(), input="another turn")
    clock.advance(timedelta(hours=1))
    assert [info.result for info in await store.recover()] == ["awake"]


async def test_somebody_can_take_a_run_over_from_an_owner_that_seems_alive(store: Any, jobs: Jobs) -> None:
    begun = asyncio.Event()

    @store.handler("work")
    async def work(run: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return "done"

    await store.start("work", thread="t")
    stalled = asyncio.create_task(store.resume("t"))
    await begun.wait()
    with pytest.raises(LeaseHeldError):
        await store._parts.running.executor.run(
            (await store._parts.storage.find("", "t"))[0].key, _resume(), 0
        )  # fmt: skip
    assert (await store.resume("t", take_over=True)).result == "done"
    stalled.cancel()
    with pytest.raises((asyncio.CancelledError, LeaseLostError)):
        await stalled
    assert (await store.runs())[0].status == "finished"


def _resume() -> Any:
    from perdure.runtime.recovery import RESUME

    return RESUME
