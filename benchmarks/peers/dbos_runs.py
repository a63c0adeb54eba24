"""Workflows of DBOS, as a child process.

    python -m benchmarks.peers.dbos_runs serve
    python -m benchmarks.peers.dbos_runs interrupt URL RUNS DONE TOTAL

`interrupt` starts RUNS workflows of TOTAL steps, and ends the process without a word when each has recorded DONE of
them. `serve` reads one command a line and answers with one line: seconds, or a number.

    open URL RUNS    launch, and start workflows that wait to be told how many steps to run
    steps COUNT      so many steps of each workflow: the seconds of all of them
    finish           let those workflows end
    recover URL RUNS launch in a database with interrupted workflows: the seconds until all of them are finished
    replay           the same without what came before the first of them was called, in seconds
    close            let go of everything
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from dbos import DBOS

from benchmarks.peers.obeying import obey
from benchmarks.workload import step_texts

_LOOK = 0.002  # seconds between two looks whether the end of a workflow is recorded
_TEXTS = step_texts()


class _Told:
    """What the functions below and the commands tell each other."""

    batches: list[asyncio.Queue[int]]
    done: asyncio.Queue[int]
    stop_after = 0  # steps, when the process is to be cut off
    wanted = 0  # workflows
    arrived = 0
    ended = 0
    first = float("inf")  # when the first workflow was called


@DBOS.step()
async def work(at: int) -> str:
    return _TEXTS[at % len(_TEXTS)]


@DBOS.workflow()
async def told(which: int) -> None:
    """A workflow that runs steps as it is told to."""
    at = 0
    while count := await _Told.batches[which].get():
        for _ in range(count):
            await work(at)
            at += 1
        await _Told.done.put(which)


@DBOS.workflow()
async def counted(total: int) -> int:
    """A workflow of so many steps."""
    _Told.first = min(_Told.first, time.perf_counter())
    for at in range(total):
        if at and at == _Told.stop_after:
            await _cut_off()
        await work(at)
    _Told.ended += 1
    return total


async def _cut_off() -> None:
    _Told.arrived += 1
    if _Told.arrived == _Told.wanted:
        os._exit(9)
    await asyncio.Event().wait()


def launched(url: str) -> None:
    config: Any = {
        "name": "bench", "system_database_url": url, "application_version": "1", "log_level": "CRITICAL",
        "console_log_level": "CRITICAL",
    }  # fmt: skip
    DBOS(config=config)
    DBOS.launch()


class Runs:
    """One instance of DBOS at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._handles: list[Any] = []
        self._replay = 0.0

    def open(self, url: str, runs: str) -> int:
        launched(url)
        self._loop.run_until_complete(self._started(int(runs)))
        return 0

    async def _started(self, runs: int) -> None:
        _Told.batches, _Told.done = [asyncio.Queue() for _ in range(runs)], asyncio.Queue()
        self._handles = [await DBOS.start_workflow_async(told, which) for which in range(runs)]

    def steps(self, count: str) -> float:
        return self._loop.run_until_complete(self._batch(int(count)))

    async def _batch(self, count: int) -> float:
        start = time.perf_counter()
        for batch in _Told.batches:
            batch.put_nowait(count)
        for _ in _Told.batches:
            await _Told.done.get()
        return time.perf_counter() - start

    def finish(self) -> int:
        self._loop.run_until_complete(self._finished())
        DBOS.destroy()
        return 0

    async def _finished(self) -> None:
        for batch in _Told.batches:
            batch.put_nowait(0)
        for handle in self._handles:
            await handle.get_result()

    def recover(self, url: str, runs: str) -> float:
        _Told.ended, _Told.first = 0, float("inf")
        start = time.perf_counter()
        launched(url)
        while _Told.ended < int(runs) or DBOS.list_workflows(status=["PENDING", "ENQUEUED"], load_input=False):
            time.sleep(_LOOK)
        end = time.perf_counter()
        self._replay = end - _Told.first
        DBOS.destroy()
        return end - start

    def replay(self) -> float:
        return self._replay

    def close(self) -> int:
        return 0


def interrupt(url: str, runs: int, done: int, total: int) -> None:
    """Start workflows, and leave them in the middle."""
    _Told.wanted, _Told.stop_after = runs, done
    launched(url)

    async def start() -> None:
        for _ in range(runs):
            await DBOS.start_workflow_async(counted, total)
        await asyncio.Event().wait()

    asyncio.run(start())


if __name__ == "__main__":
    if sys.argv[1] == "interrupt":
        interrupt(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        obey(Runs())
