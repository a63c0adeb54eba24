"""Functions that block: the event loop and the lease go on beside them, or somebody is told that they did not."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.errors import InvalidInputError
from perdure.core.ports import Silence
from perdure.runtime.keeping import LATE
from tests.runtime.scenes import Jobs, block, clock, jobs, store

__all__ = ["clock", "jobs", "store"]


class Heard(Silence):
    def __init__(self) -> None:
        self.counted: list[str] = []
        self.logged: list[dict[str, object]] = []

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        self.counted.append(name)

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.logged.append({"message": message, **fields})


async def test_the_loop_goes_on_beside_a_blocking_step(store: Any) -> None:
    async def code(run: Any) -> Any:
        go = threading.Event()
        asyncio.get_running_loop().call_later(0.01, go.set)  # only a loop that goes on gets there
        return await run.options(blocking=True).step("wait", lambda: go.wait(30))

    assert await block(store, code) is True


async def test_a_blocking_step_knows_its_run_and_key(store: Any) -> None:
    async def code(run: Any) -> Any:
        found = await run.options(blocking=True).tool("pay", lambda idempotency_key: idempotency_key)
        return found, await run.options(blocking=True).step("seen", lambda: run.idempotency_key)

    paid, seen = await block(store, code)
    assert len({None, paid, seen}) == 3


async def test_what_a_blocking_step_raises_is_recorded_and_raised(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        with pytest.raises(ValueError, match="invalid literal"):
            await run.options(blocking=True).step("parse", int, "x")
        return await run.options(blocking=True).step("async", jobs.job("async", 7))

    assert await block(store, code) == 7


async def test_a_blocking_step_that_raises_stop_iteration_ends(store: Any) -> None:
    async def code(run: Any) -> Any:
        async with asyncio.timeout(20):
            await run.options(blocking=True).step("first", lambda: next(iter(())))

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await block(store, code)


async def test_a_blocking_step_with_a_timeout_is_refused(store: Any) -> None:
    async with store.thread("t").run() as run:
        with pytest.raises(InvalidInputError, match="cannot be stopped"):
            run.options(blocking=True, timeout=1)


async def test_code_that_holds_up_the_loop_is_told_of(tmp_path: Path) -> None:
    heard = Heard()

    async def code(run: Any) -> None:
        await run.step("let the keeper begin", asyncio.sleep, 0.01)
        await run.step("block", time.sleep, 0.5)
        await run.step("let it renew", asyncio.sleep, 0.2)

    async with (
        Perdure.open(f"sqlite:///{tmp_path}/a.db", telemetry=heard, lease_ttl=0.3) as store,
        store.thread("t").run() as run,
    ):
        await code(run)
    assert heard.counted.count(LATE) == 1
    (told,) = [each for each in heard.logged if "held up" in str(each["message"])]
    assert ("thread" in told, told["lease_of"], "any other code" in str(told["message"])) == (False, "t", True)
