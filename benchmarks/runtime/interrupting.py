"""Leaves runs in the middle.

    python -m benchmarks.runtime.interrupting HANDLER URL RUNS DONE TOTAL LEASE

starts RUNS runs of TOTAL steps, and ends the process without a word when each has recorded DONE of them.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.runtime.ours import Cutting, register
from perdure import Perdure


async def interrupt(handler: str, url: str, runs: int, done: int, total: int, lease: float) -> None:
    """Start runs and take them up."""
    async with Perdure.open(url, lease_ttl=lease) as store:
        register(store, Cutting(runs, done))
        for at in range(runs):
            await store.start(handler, total, thread=f"w{at}")
        await store.recover(concurrency=runs)


if __name__ == "__main__":
    runs, done, total = (int(each) for each in sys.argv[3:6])
    asyncio.run(interrupt(sys.argv[1], sys.argv[2], runs, done, total, float(sys.argv[6])))
