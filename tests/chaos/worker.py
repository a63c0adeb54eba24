"""One worker of the chaos campaign.

    python -m tests.chaos.worker URL SCHEMA FOLDER TTL CONCURRENCY STEPS PACE

It serves until it is killed or told to stop, and writes a line into FOLDER/ready when it begins, and one into
FOLDER/lost for every run that was taken from it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

from perdure import Perdure
from perdure.core.errors import LeaseLostError

HANDLER = "chaos"


def stepping(folder: Path, steps: int, pace: float) -> Any:
    """A handler of so many steps; each takes a while, and gives its number."""

    async def work(number: int) -> int:
        await asyncio.sleep(random.uniform(0.2, 1.8) * pace)
        return number

    async def handler(run: Any) -> int:
        try:
            return sum([await run.step("work", work, number) for number in range(steps)])
        except BaseException:
            if isinstance(run.journal.held.lost, LeaseLostError):
                _note(folder, "lost", run.id)
            raise

    return handler


def _note(folder: Path, what: str, run: str = "") -> None:
    with Path(folder, what).open("a") as file:
        file.write(f"{os.getpid()} {run}\n")


async def serve(url: str, schema: str, folder: str, ttl: str, concurrency: str, steps: str, pace: str) -> None:
    """Take up runs until SIGTERM."""
    async with Perdure.open(url, schema=schema, lease_ttl=float(ttl), pool_max=4) as store:
        store.handler(HANDLER, retry=1_000_000)(stepping(Path(folder), int(steps), float(pace)))
        await store.threads(1)
        _note(Path(folder), "ready")
        await store.worker(concurrency=int(concurrency), grace=1.0).run()


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the pool complains about every restart of the database
    asyncio.run(serve(*sys.argv[1:]))
