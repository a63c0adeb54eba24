"""One worker of the chaos campaign.

    python -m tests.chaos.worker URL SCHEMA FOLDER TTL CONCURRENCY STEPS PACE

It serves until it is killed or told to stop, and writes a line into FOLDER/ready when it begins, and one into
FOLDER/lost whenever the storage refuses it because a run was taken from it.
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


def stepping(steps: int, pace: float) -> Any:
    """A handler of so many steps; each takes a while, and gives its number."""

    async def work(number: int) -> int:
        await asyncio.sleep(random.uniform(0.2, 1.8) * pace)
        return number

    async def handler(run: Any) -> int:
        return sum([await run.step("work", work, number) for number in range(steps)])

    return handler


def note_refusals(storage: Any, folder: Path) -> None:
    """Not in the handler: a worker that froze between its claim and its handler is refused outside of it."""
    for name in ("append", "renew", "release"):
        setattr(storage, name, _noting(getattr(storage, name), folder))


def _noting(call: Any, folder: Path) -> Any:
    async def noting(*args: Any, **words: Any) -> Any:
        try:
            return await call(*args, **words)
        except LeaseLostError:
            _note(folder, "lost")
            raise

    return noting


def _note(folder: Path, what: str) -> None:
    with Path(folder, what).open("a") as file:
        file.write(f"{os.getpid()}\n")


async def serve(url: str, schema: str, folder: str, ttl: str, concurrency: str, steps: str, pace: str) -> None:
    """Take up runs until SIGTERM."""
    async with Perdure.open(url, schema=schema, lease_ttl=float(ttl), pool_max=4) as store:
        store.handler(HANDLER, retry=1_000_000)(stepping(int(steps), float(pace)))
        note_refusals(store._parts.storage, Path(folder))
        await store.threads(1)
        _note(Path(folder), "ready")
        await store.worker(concurrency=int(concurrency), grace=1.0).run()


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the pool complains about every restart of the database
    asyncio.run(serve(*sys.argv[1:]))
