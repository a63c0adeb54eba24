"""An agent of eight steps and four tools whose effects are counted outside the storage, and a process to kill it in."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from perdure import Perdure, RecoveryPolicy

CALLS = ("s1", "s2", "t1", "s3", "s4", "t2", "s5", "s6", "t3", "s7", "s8", "t4")
PACE = 0.003  # seconds that each call takes
TTL = 0.5

When = Literal["before", "after"]  # the effect: the tool said that it starts, and nobody recorded what it gave


@dataclass(frozen=True)
class Death:
    """Where an agent kills itself: at the n-th tool that it runs."""

    when: When
    nth: int


class World:
    """A plain file: a line for each effect, on the disk before the tool returns."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects"
        self._path.touch()

    def act(self, run: str, tool: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{run} {tool}\n")
            file.flush()
            os.fsync(file.fileno())

    def effects(self) -> Counter[tuple[str, str]]:
        """How often each tool of each run had its effect."""
        return Counter(tuple(line.split()) for line in self._path.read_text().splitlines())  # pyright: ignore


class Agent:
    """The handler."""

    def __init__(self, world: World, death: Death | None) -> None:
        self._world = world
        self._death = death
        self._tools = 0

    async def __call__(self, run: Any) -> list[str]:
        found: list[str] = []
        for name in CALLS:
            call = self._look(name) if name.startswith("s") else self._act(run.id, name)
            found.append(await (run.step if name.startswith("s") else run.tool)(name, call))
            await run.append("done", name)
        return found

    def _look(self, name: str) -> Any:
        async def look() -> str:
            await asyncio.sleep(PACE)
            return result(name)

        return look

    def _act(self, run: str, name: str) -> Any:
        async def act() -> str:
            self._tools += 1
            self._die("before")
            await asyncio.sleep(PACE / 2)
            self._world.act(run, name)
            await asyncio.sleep(PACE / 2)
            self._die("after")
            return result(name)

        return act

    def _die(self, when: When) -> None:
        if self._death == Death(when, self._tools):
            os.kill(os.getpid(), signal.SIGKILL)


def result(name: str) -> str:
    """What a call gives."""
    return f"result of {name}"


async def live(url: str, world: World, death: Death | None) -> None:
    """One life of a process: it goes on with every run as far as that goes, those whose owner died included."""
    policy = RecoveryPolicy(auto_resume_hitl=True)  # a decision is given while nothing runs
    async with Perdure.open(url, lease_ttl=TTL, recovery=policy) as store:
        store.handler("agent", retry=1_000_000)(Agent(world, death))
        await store.recover(concurrency=2)
        while any(info.status == "interrupted" for info in await store.runs(2)):
            await asyncio.sleep(TTL / 10)
            await store.recover(concurrency=2)
