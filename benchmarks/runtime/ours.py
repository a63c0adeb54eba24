"""Our side: runs that take steps as they are told to, and runs that a process leaves in the middle."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks.peers.child import ROOT
from benchmarks.workload import step_texts
from perdure import Perdure

TEXTS = step_texts()
KILLED = 9
SHORT = 3.0  # seconds of a lease that is waited for


async def work(at: int) -> str:
    """A step."""
    return TEXTS[at % len(TEXTS)]


class Runs:
    """Runs that wait to be told how many steps to take."""

    def __init__(self, url: str, runs: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._batches: list[asyncio.Queue[int]] = [asyncio.Queue() for _ in range(runs)]
        self._done: asyncio.Queue[int] = asyncio.Queue()
        self._store = Perdure.open(url)
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        await self._store.__aenter__()
        self._tasks = [asyncio.create_task(self._run(which)) for which in range(len(self._batches))]
        await self._batch(0)

    async def _run(self, which: int) -> None:
        async with self._store.thread(f"w{which}").run() as run:
            at = 0
            while (count := await self._batches[which].get()) >= 0:
                for _ in range(count):
                    await run.step("work", work, at)
                    at += 1
                self._done.put_nowait(which)

    def steps(self, count: int) -> float:
        """So many steps of each run: the seconds of all of them."""
        return self._loop.run_until_complete(self._batch(count))

    async def _batch(self, count: int) -> float:
        start = time.perf_counter()
        for batch in self._batches:
            batch.put_nowait(count)
        for _ in self._batches:
            await self._done.get()
        return time.perf_counter() - start

    def close(self) -> None:
        self._loop.run_until_complete(self._finish())
        self._loop.close()

    async def _finish(self) -> None:
        for batch in self._batches:
            batch.put_nowait(-1)
        await asyncio.gather(*self._tasks)
        await self._store.close()


class Cutting:
    """Ends the process when so many runs have come so far; without a number it lets them go on."""

    def __init__(self, runs: int = 0, done: int = 0) -> None:
        self._runs = runs
        self._done = done
        self._arrived = 0

    async def at(self, step: int) -> None:
        if not self._done or step != self._done:
            return
        self._arrived += 1
        if self._arrived == self._runs:
            os._exit(KILLED)
        await asyncio.Event().wait()


def register(store: Perdure, cutting: Cutting) -> None:
    """The handlers: one asks for all its steps again, the other keeps its place in the state."""

    @store.handler("counted")
    async def counted(run: Any) -> int:
        total = run.input
        for at in range(total):
            await cutting.at(at)
            await run.step("work", work, at)
        return total

    @store.handler("placed")
    async def placed(run: Any) -> int:
        state, total = await run.load(default={"i": 0}, fresh=True), run.input
        for at in range(state["i"], total):
            await cutting.at(at)
            await run.step("turn", turn, run, at)
        return total

    async def turn(run: Any, at: int) -> str:
        await run.update(set={"i": at + 1})  # in the step: which write it is does not depend on those before it
        return await work(at)


def interrupted(handler: str, url: str, runs: int, done: int, total: int, *, lease: float = 30.0) -> None:
    """Let a child leave runs in the middle. A lease that is shorter than usual has run out afterwards."""
    given = [url, str(runs), str(done), str(total), str(lease)]
    child = [sys.executable, "-m", "benchmarks.runtime.interrupting", handler, *given]
    code = subprocess.run(child, cwd=ROOT, check=False).returncode
    assert code == KILLED, f"the child ended with {code}"
    if lease <= SHORT:
        time.sleep(lease + 0.5)


async def recovered(url: str, runs: int) -> float:
    """Open a store and finish everything: the seconds of both."""
    start = time.perf_counter()
    async with Perdure.open(url) as store:
        register(store, Cutting())
        done = await store.recover(concurrency=max(runs, 1))
        seconds = time.perf_counter() - start
    assert [each.status for each in done] == ["finished"] * runs, done
    return seconds


async def resumed(url: str) -> float:
    """Resume one run in an open store: the seconds until it is finished."""
    async with Perdure.open(url) as store:
        register(store, Cutting())
        await store.threads(limit=1)
        start = time.perf_counter()
        info = await store.resume("w0")
        seconds = time.perf_counter() - start
    assert info.status == "finished", info
    return seconds
