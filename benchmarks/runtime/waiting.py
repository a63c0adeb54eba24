"""Runs that wait for a person: how soon they go on, and what they cost meanwhile."""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.peers.child import Peer
from benchmarks.report import Figure
from benchmarks.runtime.homes import Homes
from benchmarks.scale import Bench
from benchmarks.timing import progress, summary
from perdure import Perdure


def run(bench: Bench, homes: Homes) -> None:
    """Both with a worker in a process of its own."""
    _wake_ups(bench, homes)
    _memory(bench, homes)


def _worker(url: str) -> Peer:
    return Peer([sys.executable, "-m", "benchmarks.runtime.worker", url])


def _wake_ups(bench: Bench, homes: Homes) -> None:
    worker = _worker((home := homes.new("wake")).url)
    seconds = asyncio.run(_decided(home.url, worker, bench.scale.repeats))
    worker.close()
    found = summary(seconds)
    bar = 0.1 if bench.server is None else 0.05
    bench.found(
        Figure(
            name="wake-up after a decision in another process: from decide() to the first step after it",
            value=found.median * 1000, calm=found.p10 * 1000, unit="ms", bar=bar * 1000,
            judged=not bench.scale.quick, sides={"wake-up": found},
        )
    )  # fmt: skip


async def _decided(url: str, worker: Peer, count: int) -> list[float]:
    """The clock is the machine's, so that times of two processes can be compared."""
    seconds: list[float] = []
    async with Perdure.open(url) as store:
        for at in range(count):
            ticket = await store.start("asking", thread=f"w{at}")
            while (await ticket.info()).status != "input_required":
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.05)  # the worker has settled down
            pauses = await store.pauses(f"w{at}")
            start = time.monotonic()
            await store.decide(pauses[0].id, approved=True, by="bench")
            await ticket.result(timeout=30)
            seconds.append(worker.ask("woken") - start)
            progress("wake-up", at + 1, count)
    return seconds


def _memory(bench: Bench, homes: Homes) -> None:
    count = bench.scale.waiting
    worker = _worker((home := homes.new("waiting")).url)
    worker.ask("traced")
    asyncio.run(_paused(home.url, "warm", count, worker))  # so that caches have their size
    before = worker.ask("traced")
    asyncio.run(_paused(home.url, "w", count, worker))
    value = (worker.ask("traced") - before) / count
    worker.close()
    name = f"memory per waiting run ({count} pauses), in the worker"
    bench.found(
        Figure(name=name, value=value, unit="bytes", bar=1024, judged=not bench.scale.quick, note="tracemalloc")
    )  # fmt: skip


async def _paused(url: str, name: str, count: int, worker: Peer) -> None:
    asked = worker.ask("asked") + count
    async with Perdure.open(url) as store:
        for at in range(count):
            await store.start("asking", thread=f"{name}{at}")
        while worker.ask("asked") < asked:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)  # the last ones are let go
