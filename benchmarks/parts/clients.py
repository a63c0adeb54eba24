"""Many asynchronous clients of one SQLite file, each with a thread of its own."""

from __future__ import annotations

import asyncio
import random
import time

from benchmarks.databases import OurDatabase, RawCommits
from benchmarks.report import compared
from benchmarks.scale import Bench
from benchmarks.timing import progress
from perdure import Perdure, Thread

_BARS = {8: 0.7, 64: 0.4}
_RAW = 16  # raw commits in a round


def run(bench: Bench) -> None:
    """Eight clients, then sixty-four."""
    for clients, bar in _BARS.items():
        asyncio.run(_measure(bench, clients, bar))


async def _measure(bench: Bench, clients: int, bar: float) -> None:
    """Rounds of all clients at once and rounds of serial raw commits take turns in random order."""
    path, rng = bench.path("clients"), random.Random(clients)
    each = bench.scale.each
    database, raw = OurDatabase(path), RawCommits(bench.path("raw"))
    mine: list[float] = []
    theirs: list[float] = []
    async with Perdure.open(f"sqlite:///{path}") as store:
        threads = [store.thread(f"client-{at}", user="bench") for at in range(clients)]
        await _round(threads, -1, each)
        size = database.newest_payload()
        for turn in range(bench.scale.rounds):
            for side in rng.sample(("mine", "raw"), 2):
                if side == "mine":
                    mine.append(await _round(threads, turn, each))
                else:
                    theirs += [raw.commit(size) for _ in range(_RAW)]
            progress(f"{clients} clients", turn + 1, bench.scale.rounds)
    raw.close()
    database.close()
    name = f"async update, {clients} clients, per save ÷ raw serial commit"
    note = f"each sample {clients * each} saves"
    bench.found(compared(name, "save", "raw", {"save": mine, "raw": theirs}, bar=bar, note=note))


async def _round(threads: list[Thread], turn: int, each: int) -> float:
    """All clients at once; the seconds of the whole round, per save."""
    start = time.perf_counter()
    await asyncio.gather(*(_client(thread, turn, each) for thread in threads))
    return (time.perf_counter() - start) / (len(threads) * each)


async def _client(thread: Thread, turn: int, each: int) -> None:
    for at in range(each):
        await thread.update(set={"turn": turn, "step": at, "note": f"{turn:050}"})
