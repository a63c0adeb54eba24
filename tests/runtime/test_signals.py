"""Signals: values from outside, in the order they were sent."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.core.errors import NotFoundError
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


def listening(store: Any, count: int = 1) -> None:
    @store.handler("listen")
    async def listen(run: Any) -> list[Any]:
        return [await run.signal("news") for _ in range(count)]


async def test_a_signal_sent_before_the_wait_is_there(store: Any) -> None:
    listening(store)
    await store.start("listen", thread="t")
    await store.signal("t", "news", {"n": 1})
    assert (await store.resume("t")).result == [{"n": 1}]


async def test_a_run_that_waits_lets_go_and_is_woken_by_the_signal(store: Any) -> None:
    listening(store)
    await store.start("listen", thread="t")
    (info,) = await store.recover()
    assert (info.status, info.owner, await store.recover()) == ("waiting", None, [])
    await store.signal("t", "news", 1)
    (info,) = await store.recover()
    assert (info.status, info.result) == ("finished", [1])


async def test_signals_come_in_order_and_each_once(store: Any) -> None:
    listening(store, 3)
    await store.start("listen", thread="t")
    for value in (1, "other", 2):
        await store.signal("t", "news" if value != "other" else "other", value)
    await store.recover()
    await store.signal("t", "news", 3)
    (info,) = await store.recover()
    assert info.result == [1, 2, 3]


async def test_the_same_key_is_one_signal(store: Any) -> None:
    listening(store, 2)
    await store.start("listen", thread="t")
    await store.signal("t", "news", 1, key="a")
    await store.signal("t", "news", 1, key="a")
    assert (await store.resume("t")).status == "waiting"
    assert (await kinds(store)).count("signal.received") == 1


async def test_after_a_crash_the_same_signals_are_there(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        got = [await run.signal("news"), await run.signal("news")]
        await run.step("die", jobs.job("die", dies=[1]))
        return got

    async def sent(run: Any) -> Any:
        await store.signal("t", "news", 1)
        await store.signal("t", "news", 2)
        return await code(run)

    await dies(block(store, sent))
    assert await block(store, code) == [1, 2]


async def test_a_block_of_code_waits_for_the_signal(store: Any) -> None:
    waiting = asyncio.create_task(block(store, lambda run: run.signal("news")))
    while "run.started" not in await kinds(store):
        await asyncio.sleep(0.01)
    await store.signal("t", "news", 5)
    assert await asyncio.wait_for(waiting, 30) == 5


async def test_a_signal_to_nobody_is_refused(store: Any) -> None:
    with pytest.raises(NotFoundError):
        await store.signal("nobody", "news", 1)


async def test_a_signal_does_not_start_a_run_before_its_time(store: Any, clock: ManualClock) -> None:
    listening(store)
    await store.start("listen", thread="t", at=datetime(2026, 1, 2, tzinfo=UTC))
    await store.signal("t", "news", 1)
    assert await store.recover() == []
    clock.advance(timedelta(days=1))
    assert [info.result for info in await store.recover()] == [[1]]


async def test_a_signal_does_not_raise_the_dead(store: Any) -> None:
    @store.handler("bad", retry=1)
    async def bad(run: Any) -> None:
        raise ValueError("no")

    await store.start("bad", thread="t")
    assert [info.status for info in await store.recover()] == ["dead"]
    await store.signal("t", "news", 1)
    assert await store.recover() == []
