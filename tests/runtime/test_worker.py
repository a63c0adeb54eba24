"""A worker: takes up what is due as it becomes due, until it is told to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.errors import InvalidInputError
from tests.runtime.scenes import Jobs, jobs

__all__ = ["jobs"]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url, lease_ttl=1) as made:
        yield made


async def test_a_worker_takes_up_what_was_there_and_what_comes(store: Any) -> None:
    store.handler("double")(lambda run: run.step("double", lambda n: 2 * n, run.input))
    before = await store.start("double", 1, thread="a")
    async with store.worker():
        after = await store.start("double", 2, thread="b")
        assert [await before.result(timeout=30), await after.result(timeout=30)] == [2, 4]


async def test_a_worker_works_on_so_many_at_once(store: Any) -> None:
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

    tickets = [await store.start("work", thread=f"t{n}") for n in range(7)]
    async with store.worker(concurrency=3):
        await asyncio.gather(*(ticket.result(timeout=30) for ticket in tickets))
    assert most[0] == 3


async def test_a_worker_goes_on_at_once_after_a_decision_and_after_a_signal(store: Any) -> None:
    @store.handler("ask")
    async def ask(run: Any) -> Any:
        return [(await run.pause("ok", ask="ok?")).answer, await run.signal("news")]

    ticket = await store.start("ask", thread="t")
    async with store.worker():
        while not (pauses := await store.pauses()):
            await asyncio.sleep(0.01)
        await store.decide(pauses[0], approved=True, by="ann", answer=1)
        while (await ticket.info()).status != "waiting":
            await asyncio.sleep(0.01)
        await store.signal("t", "news", 2)
        assert await ticket.result(timeout=30) == [1, 2]


async def test_the_next_run_can_be_started_as_soon_as_the_result_is_there(store: Any) -> None:
    store.handler("work")(lambda run: run.input)
    async with store.worker():
        for n in range(10):
            assert await (await store.start("work", n, thread="t")).result(timeout=30) == n


async def test_what_fails_is_tried_again_by_the_worker(store: Any, jobs: Jobs) -> None:
    from perdure.runtime.options import Retry

    flaky = jobs.fails("flaky", OSError("no"), 2)
    store.handler("flaky", retry=Retry(attempts=5, wait=0.01))(lambda run: flaky())
    ticket = await store.start("flaky", thread="t")
    async with store.worker():
        assert await ticket.result(timeout=30) == 3


async def test_a_worker_that_stops_lets_runs_end(store: Any) -> None:
    begun = asyncio.Event()

    @store.handler("slow")
    async def slow(run: Any) -> str:
        begun.set()
        await asyncio.sleep(0.2)
        return "done"

    ticket = await store.start("slow", thread="t")
    async with store.worker() as worker:
        await begun.wait()
        assert worker.busy == 1
    assert (await ticket.info()).status == "finished"


async def test_what_is_not_done_in_time_is_given_back_and_due_at_once(store: Any) -> None:
    begun = asyncio.Event()

    @store.handler("slow")
    async def slow(run: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return "done"

    await store.start("slow", thread="t")
    async with store.worker(grace=0.05):
        await begun.wait()
    (info,) = await store.runs()
    assert (info.status, info.owner) == ("interrupted", None)
    assert [info.result for info in await store.recover()] == ["done"]


async def test_a_worker_lives_on_when_the_storage_fails_for_a_while(store: Any) -> None:
    from perdure.core.errors import StorageUnavailableError

    store.handler("work")(lambda run: 1)
    storage = store._parts.running.runtime.storage
    due, troubles = storage.due, [True, True]

    async def failing(*args: Any, **named: Any) -> Any:
        if troubles and troubles.pop():
            raise StorageUnavailableError("here", "gone")
        return await due(*args, **named)

    storage.due = failing
    ticket = await store.start("work", thread="t")
    async with store.worker():
        assert await ticket.result(timeout=30) == 1
    assert troubles == []


@pytest.mark.parametrize("concurrency", [0, True, "3"])
async def test_how_many_at_once_must_be_a_number_from_one_on(store: Any, concurrency: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.worker(concurrency=concurrency)
