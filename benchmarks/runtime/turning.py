"""Turns of a model with a checkpoint after each, beside the same turns without: what the checkpoints cost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.report import compared
from benchmarks.runtime.homes import Homes
from benchmarks.runtime.ours import TEXTS
from benchmarks.scale import Bench
from benchmarks.timing import Step, interleave
from perdure import Perdure, Triggers

WITH, WITHOUT = "event checkpoints", "none"
_MODEL = 0.01  # seconds that a model takes; real ones take longer


class Turns:
    """A run that takes turns as it is told to: a model is asked, and its answer recorded."""

    def __init__(self, url: str, triggers: Triggers, seconds: float) -> None:
        self._loop = asyncio.new_event_loop()
        self._store = Perdure.open(url, checkpoints=triggers)
        self._seconds = seconds
        self._asked: asyncio.Queue[int] = asyncio.Queue()
        self._took: asyncio.Queue[float] = asyncio.Queue()
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        await self._store.__aenter__()
        await self._store.thread("t").save({"messages": []})
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self._store.thread("t").run() as run:
            while (at := await self._asked.get()) >= 0:
                start = time.perf_counter()
                await run.model(self._model, ["a question", TEXTS[0]], turn=at)
                self._took.put_nowait(time.perf_counter() - start)

    async def _model(self, messages: list[Any], **settings: Any) -> str:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return TEXTS[settings["turn"] % len(TEXTS)]

    def turn(self, at: int) -> float:
        self._asked.put_nowait(at)
        return self._loop.run_until_complete(self._took.get())

    def close(self) -> int:
        """End it: how many checkpoints there are."""
        found = self._loop.run_until_complete(self._close())
        self._loop.close()
        return found

    async def _close(self) -> int:
        self._asked.put_nowait(-1)
        await self._task
        found = len(await self._store.thread("t").history(limit=10_000))
        await self._store.close()
        return found


def run(bench: Bench, homes: Homes) -> None:
    """With the time a model takes, which the bar is about, and without it."""
    _turns(bench, homes, _MODEL, 1.05)
    _turns(bench, homes, 0.0, None)


def _turns(bench: Bench, homes: Homes, seconds: float, bar: float | None) -> None:
    count = bench.scale.steps
    made = {
        WITH: Turns(homes.new("turns_with").url, Triggers(strategy="event"), seconds),
        WITHOUT: Turns(homes.new("turns_without").url, Triggers(), seconds),
    }
    sides: dict[str, Step] = {name: each.turn for name, each in made.items()}
    samples = interleave(f"turns of {seconds * 1000:g} ms", count, sides)
    found = {name: each.close() for name, each in made.items()}
    assert found == {WITH: count + 1, WITHOUT: 1}, found
    name = f"turn of a model of {seconds * 1000:g} ms with `event` checkpoints ÷ the same journaled turn without"
    bench.found(compared(name, WITH, WITHOUT, samples, bar=bar, judged=not bench.scale.quick))
