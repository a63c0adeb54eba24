"""Runs that do not get on although somebody holds them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.errors import InvalidInputError
from perdure.core.ports import Silence
from perdure.runtime.stalled import STALLED, Stalled
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import block, clock, jobs, store

__all__ = ["clock", "jobs", "store"]

TEN = timedelta(minutes=10)


class Heard(Silence):
    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        self.counted.append(name)


async def test_a_run_whose_log_does_not_grow_is_stalled_though_its_lease_is_renewed(
    store: Any, clock: ManualClock
) -> None:
    leases = store._parts.running.runtime.leases
    async with store.thread("t").run() as run:
        await run.step("one", lambda: 1)
        assert await store.stalled(TEN) == []
        clock.advance(TEN)
        await leases.renew(run.journal.held)
        (info,) = await store.stalled(TEN)
        assert (info.thread, info.id, info.status) == ("t", run.id, "running")
        await run.step("two", lambda: 2)
        assert await store.stalled(TEN) == []
    assert await store.stalled(timedelta(0)) == []


async def test_so_is_one_whose_lease_ran_out_and_nobody_took_it(store: Any, clock: ManualClock) -> None:
    async with store.thread("t").run():
        clock.advance(TEN)
        assert [info.status for info in await store.stalled(TEN)] == ["interrupted"]


async def test_what_waits_or_is_over_is_not_stalled(store: Any, clock: ManualClock) -> None:
    async def asking(run: Any) -> None:
        await run.pause("ok", ask="ok?")

    await block(store, asking, "paused")
    await store.start("work", thread="queued")
    clock.advance(TEN)
    assert await store.stalled(TEN) == []
    with pytest.raises(InvalidInputError, match="timedelta"):
        await store.stalled(600)


async def test_each_is_told_of_once_until_it_gets_on(store: Any, clock: ManualClock) -> None:
    runtime = store._parts.running.runtime
    runtime.telemetry = heard = Heard()
    stalled = Stalled(runtime, "")
    async with store.thread("t").run() as run:
        for _ in range(2):
            clock.advance(TEN)
            await runtime.leases.renew(run.journal.held)
            assert [[row.key.id for row in await stalled.tell(600)] for _ in range(2)] == [["t"], []]
            await run.step("on", lambda: 1)
    assert heard.counted.count(STALLED) == 2
