"""Recovering: what is due is found and taken up; what fails too often ends in the dead letter."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.errors import HandlerMissingError, NotFoundError, UnknownHandlerWarning
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.runtime.options import Retry
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import TTL, Jobs, Killed, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def test_queued_runs_are_taken_up_and_what_became_of_them_is_told(store: Any) -> None:
    """S4.18: what is pending is resumed when a process starts."""
    store.handler("double")(lambda run: run.step("double", lambda n: 2 * n, run.input))
    tickets = [await store.start("double", n, thread=f"t{n}") for n in range(3)]
    infos = await store.recover()
    assert sorted((info.thread, info.status, info.result) for info in infos) == [
        ("t0", "finished", 0), ("t1", "finished", 2), ("t2", "finished", 4),
    ]  # fmt: skip
    assert [await ticket.result(timeout=5) for ticket in tickets] == [0, 2, 4]
    assert await store.recover() == []


async def test_an_interrupted_run_is_taken_up_when_its_lease_ran_out(
    store: Any, jobs: Jobs, clock: ManualClock
) -> None:
    hangs = asyncio.Event()

    @store.handler("work")
    async def work(run: Any) -> int:
        await run.step("one", jobs.job("one"))
        if not run.resumed or (jobs.count("one") == 1 and not hangs.is_set()):
            hangs.set()
            await asyncio.sleep(60)
        return await run.step("two", jobs.job("two", 2))

    await store.start("work", thread="t")
    frozen = asyncio.create_task(store.recover())
    await hangs.wait()
    assert await store.recover() == []
    clock.advance(timedelta(seconds=TTL + 1))
    assert [info.result for info in await store.recover()] == [2]
    frozen.cancel()
    await asyncio.gather(frozen, return_exceptions=True)
    assert (jobs.ran, (await kinds(store)).count("run.finished")) == (["one", "two"], 1)


async def test_a_run_that_was_started_for_later_is_due_then(store: Any, clock: ManualClock) -> None:
    store.handler("work")(lambda run: 1)
    await store.start("work", thread="t", at=datetime(2026, 1, 2, tzinfo=UTC))
    assert await store.recover() == []
    clock.advance(timedelta(days=1))
    assert [info.result for info in await store.recover()] == [1]


async def test_only_runs_of_handlers_that_are_known_here_are_taken_up(store: Any) -> None:
    store.handler("known")(lambda run: 1)
    await store.start("known", thread="a")
    with pytest.warns(UnknownHandlerWarning, match="did you mean 'known'"):
        await store.start("unknown", thread="b")
    assert [info.thread for info in await store.recover()] == ["a"]
    assert [info.status for info in await store.runs(agent="unknown")] == ["queued"]


async def test_a_handler_that_fails_is_tried_again_later_and_later_then_dead(store: Any, clock: ManualClock) -> None:
    @store.handler("bad", retry=Retry(attempts=3, wait=10, longest=15))
    async def bad(run: Any) -> None:
        raise ValueError(f"attempt {run.attempt}")

    await store.start("bad", thread="t")
    waits: list[Any] = []
    while (info := (await store.recover())[0]).status == "failed":
        waits.append((info.attempts, info.wake_at - datetime.fromtimestamp(clock.now() / 1e6, UTC)))
        assert await store.recover() == []
        clock.advance(waits[-1][1])
    assert waits == [(1, timedelta(seconds=10)), (2, timedelta(seconds=15))]
    assert (info.status, info.error, info.attempts) == ("dead", "ValueError: attempt 3", 3)
    clock.advance(timedelta(days=1))
    assert await store.recover() == []


async def test_somebody_can_resume_a_dead_run_and_it_may_fail_again_as_often(store: Any, clock: ManualClock) -> None:
    wrong = [True]

    @store.handler("bad", retry=2)
    async def bad(run: Any) -> str:
        if wrong:
            raise ValueError("no")
        return "mended"

    await store.start("bad", thread="t")
    for _ in range(2):
        await store.recover()
        clock.advance(timedelta(minutes=1))
    assert (await store.runs())[0].status == "dead"
    with pytest.raises(ValueError, match="no"):
        await store.resume("t")
    assert (await store.runs())[0].status == "failed"
    wrong.clear()
    assert (await store.resume("t")).result == "mended"


async def test_getting_on_makes_the_next_failure_the_first_again(store: Any, clock: ManualClock, jobs: Jobs) -> None:
    @store.handler("bumpy", retry=2)
    async def bumpy(run: Any) -> int:
        for n in range(4):
            await run.step(f"s{n}", jobs.fails(f"s{n}", OSError("no"), 1))
        return 4

    await store.start("bumpy", thread="t")
    for _ in range(5):
        (info,) = await store.recover()
        clock.advance(timedelta(minutes=10))
    assert (info.status, info.result) == ("finished", 4)


async def test_a_run_that_kills_its_process_ends_dead_with_its_reason(
    store: Any, clock: ManualClock, jobs: Jobs
) -> None:
    @store.handler("poison", retry=3)
    async def poison(run: Any) -> None:
        jobs.ran.append("poison")
        raise Killed

    await store.start("poison", thread="t")
    store._parts.running.runtime.leases.release = _never  # it is killed: it gives nothing back
    for _ in range(3):
        await dies(store.recover())
        clock.advance(timedelta(seconds=TTL + 1))
    (info,) = await store.recover()
    assert (info.status, jobs.count("poison")) == ("dead", 3)
    assert "3 times" in info.error


async def _never(*args: Any) -> None:
    """A process that was killed gives no lease back."""


async def test_being_stopped_politely_is_no_failure(store: Any, jobs: Jobs) -> None:
    @store.handler("long", retry=2)
    async def long(run: Any) -> str:
        jobs.ran.append("long")
        if jobs.count("long") <= 5:
            raise Killed  # SIGTERM: the lease is given back
        return "done"

    await store.start("long", thread="t")
    for _ in range(5):
        await dies(store.recover())
    assert [info.result for info in await store.recover()] == ["done"]


async def test_a_process_that_died_right_after_the_end_of_a_run_leaves_nothing_to_do(
    store: Any, clock: ManualClock
) -> None:
    store.handler("work")(lambda run: 1)
    await store.start("work", thread="t")
    leases = store._parts.running.runtime.leases
    release, leases.release = leases.release, _never
    await store.recover()
    leases.release = release
    clock.advance(timedelta(seconds=TTL + 1))
    for _ in range(2):
        assert await store.recover() == []
        clock.advance(timedelta(minutes=1))
    (row,) = await store._parts.storage.find("", "t")
    assert (row.lease_owner, row.wake_at, row.status) == (None, None, "finished")


@pytest.mark.parametrize("asks", [True, False])
async def test_without_auto_resume_what_was_cut_off_stays_also_beside_a_question(
    store: Any, clock: ManualClock, jobs: Jobs, asks: bool
) -> None:
    """S4.18"""

    @store.handler("work")
    async def work(run: Any) -> str:
        if asks:
            await asyncio.gather(run.pause("go", ask="Go?"), run.step("one", jobs.job("one", dies=[1])))
        return await run.step("two", jobs.job("two", "done", dies=[1]))

    running = store._parts.running.runtime
    running.recovery_policy = RecoveryPolicy(auto_resume=False)
    await store.start("work", thread="t")
    release, running.leases.release = running.leases.release, _never
    await dies(store.recover())
    running.leases.release = release
    did = list(jobs.ran)
    for _ in range(2):
        assert (await store.recover(), jobs.ran) == ([], did)
        clock.advance(timedelta(seconds=TTL + 1))
    assert (await store.resume("t")).status == ("input_required" if asks else "finished")


async def test_resuming_what_is_not_there_makes_nothing(store: Any) -> None:
    with pytest.raises(NotFoundError):
        await store.resume("nobody")
    assert await store.threads() == []


async def test_resuming_where_the_handler_is_missing_leaves_the_run_to_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url) as without, Perdure.open(url) as store:
        store.handler("work")(lambda run: 1)
        await without.start("work", thread="t")
        with pytest.raises(HandlerMissingError, match="work"):
            await without.resume("t")
        assert [info.result for info in await store.recover()] == [1]


async def test_a_run_can_be_resumed_with_a_new_input(store: Any, jobs: Jobs) -> None:
    @store.handler("work")
    async def work(run: Any) -> Any:
        first = await run.step("first", lambda: run.input)
        await run.step("die", jobs.job("die", dies=[1, 2]))
        return [first, run.input]

    await store.start("work", "old", thread="t")
    await dies(store.resume("t"))
    await dies(store.resume("t", "new"))
    assert (await store.resume("t")).result == ["old", "new"]


async def test_recovering_takes_up_so_many_at_once(store: Any) -> None:
    at_once, most, full = [0], [0], asyncio.Event()

    @store.handler("work")
    async def work(run: Any) -> None:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        if at_once[0] == 3:
            full.set()
        await asyncio.wait_for(full.wait(), 30)  # nobody goes on before three are at work
        await asyncio.sleep(0.02)
        at_once[0] -= 1

    for n in range(9):
        await store.start("work", thread=f"t{n}")
    assert len(await store.recover(concurrency=3)) == 9
    assert most[0] == 3


async def test_recovering_from_two_stores_at_once_runs_everything_once(tmp_path: Path, jobs: Jobs) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url) as one, Perdure.open(url) as two:
        for store in (one, two):
            store.handler("work")(lambda run: run.step("one", jobs.job("one", 1)))
        for n in range(10):
            await one.start("work", thread=f"t{n}")
        infos = await asyncio.gather(one.recover(), two.recover())
        assert len(infos[0]) + len(infos[1]) == 10
    assert jobs.count("one") == 10


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("served_before", [True, False])
async def test_what_was_cut_off_beside_a_question_that_was_answered_goes_on_by_auto_resume(
    store: Any, clock: ManualClock, jobs: Jobs, resume: bool, served_before: bool
) -> None:
    """S4.18, S4.20: its owner died, whatever was answered; `auto_resume_hitl` is about runs that only waited."""
    running = store._parts.running.runtime
    running.recovery_policy = RecoveryPolicy(auto_resume=resume)
    release, running.leases.release = running.leases.release, _never

    async def answered() -> None:
        while not jobs.ran and not (pauses := await store.pauses()):
            await asyncio.sleep(0)
        if not jobs.ran:
            await store.decide(pauses[0], approved=True, by="ann")
        await jobs.job("one", dies=[1])()

    @store.handler("work")
    async def work(run: Any) -> str:
        await asyncio.gather(run.pause("go", ask="Go?"), run.step("one", answered))
        return "done"

    await store.start("work", thread="t")
    await dies(store.recover())
    running.leases.release = release
    assert (await store.thread("t").info()).status == "decided"
    recovery = store._parts.running.recovery("") if served_before else None
    clock.advance(timedelta(seconds=TTL + 1))
    went_on = await recovery.sweep(1) if recovery else await store.recover()
    assert (len(went_on), jobs.count("one")) == ((1, 2) if resume else (0, 1))
