"""The long play: `python -m tests.checkpoints.soak --lives 20000`, new lives of threads on every storage each time."""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from tests.checkpoints.places import PLACES, opened
from tests.checkpoints.survivors import play
from tests.checkpoints.test_survivors import STEPS

ROUND = 50  # lives in one store, between two lines of progress
# Where a step costs a commit on a disk or a trip to a server, there are fewer of them.
SHARES = {"memory": 16, "sqlite": 8, "file": 4, "hot_sqlite": 2, "postgres": 1, "mysql": 1, "hot_postgres": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=20_000, help="of all storages together")
    parser.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 40))
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    total = sum(SHARES[place] for place in asked.places)
    for place in asked.places:
        asyncio.run(soak(place, max(asked.lives * SHARES[place] // total, 2), asked.seed))


async def soak(place: str, lives: int, seed: int) -> None:
    """Play so many lives on one storage, half of them by each face."""
    began, done = time.monotonic(), 0
    while done < lives:
        mode = ("sync", "async")[done // ROUND % 2]
        with tempfile.TemporaryDirectory() as folder:
            async with opened(PLACES[place](Path(folder)), mode) as store:
                for number in range(done, min(done + ROUND, lives)):
                    await play(store, seed + number, STEPS)
        done += ROUND
        print(
            f"{place:12} {mode:6} {min(done, lives):>6} of {lives} lives, {time.monotonic() - began:6.1f} s", flush=True
        )


if __name__ == "__main__":
    main()
