"""A process that runs handlers, to be stopped and killed.

    python -m tests.runtime.child WHAT URL FOLDER

Each handler writes into the folder what it does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from perdure import Perdure, sync

ROOT = Path(__file__).parents[2]
WAIT = 60.0


def register(store: Any, folder: Path) -> None:
    """The handlers, as every process has them."""

    @store.handler("poison", retry=3)
    async def poison(run: Any) -> None:
        _note(folder, "poison")
        os.kill(os.getpid(), signal.SIGKILL)

    @store.handler("slow")
    async def slow(run: Any) -> str:
        _note(folder, "slow")
        if _noted(folder).count("slow") == 1:
            await asyncio.sleep(WAIT)
        return "done"


def _note(folder: Path, word: str) -> None:
    with Path(folder, "noted").open("a") as file:
        file.write(f"{word}\n")


def _noted(folder: Path) -> list[str]:
    path = Path(folder, "noted")
    return path.read_text().split() if path.exists() else []


async def recover(url: str, folder: str) -> None:
    """Take up what is due."""
    async with Perdure.open(url) as store:
        register(store, Path(folder))
        await store.recover()


async def work(url: str, folder: str) -> None:
    """Serve until somebody stops it."""
    async with Perdure.open(url) as store:
        register(store, Path(folder))
        await store.worker(grace=0.1).run()
    _note(Path(folder), "stopped")


async def turn(url: str, folder: str) -> None:
    """One turn under a key that others use too."""
    async with Perdure.open(url) as store, store.thread("t").run(key="turn", input=1) as run:
        run.result = await run.step("answer", lambda: _note(Path(folder), "answer") or "hi")


def turn_in_place(url: str, folder: str) -> None:
    """The same by synchronous code, which is killed in its step."""
    with sync.Perdure.open(url) as store, store.thread("t").run() as run:
        run.step("die", lambda: os.kill(os.getpid(), signal.SIGKILL))


def spawned(what: str, url: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start such a process."""
    return subprocess.Popen([sys.executable, "-m", "tests.runtime.child", what, url, str(folder)], cwd=ROOT)


def await_note(folder: Path, word: str, times: int = 1) -> None:
    """Wait until a process wrote a word so many times."""
    end = time.monotonic() + WAIT
    while _noted(folder).count(word) < times:
        assert time.monotonic() < end, f"nobody noted {word}: {_noted(folder)}"
        time.sleep(0.01)


def noted(folder: Path) -> list[str]:
    """What processes wrote."""
    return _noted(folder)


if __name__ == "__main__":
    job = {"recover": recover, "work": work, "turn": turn, "turn_in_place": turn_in_place}[sys.argv[1]]
    done = job(*sys.argv[2:])
    if asyncio.iscoroutine(done):
        asyncio.run(done)
