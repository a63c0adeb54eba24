"""A process that puts checkpoints until it is killed.

`run()` in a process with the arguments STAGE MODULE:FUNCTION TEXT … opens the database that the function gives. It
says a line after each acknowledged call, and at its stage waits for its end.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

from perdure.testing.langgraph.bench import Database, Face, face_of
from perdure.testing.langgraph.making import at, id_of, put

THREAD = "dying"
STAGES = ("put", "first writes", "second writes", "stream")


def database_of(again: tuple[str, ...]) -> Database:
    """The same database, in another process."""
    module, _, function = again[0].partition(":")
    return getattr(importlib.import_module(module), function)(*again[1:])


def state(step: int) -> dict[str, Any]:
    return {"log": [f"step {n}" for n in range(step + 1)], "step": step}


async def _turn(saver: Face, config: Any, step: int, stage: str) -> Any:
    """One step as the loop makes it: a checkpoint, then the writes of its two tasks."""
    config = await put(saver, config, state(step), {"log": step + 1, "step": step + 1}, step=step)
    await _say(f"put {id_of(config)}", ends=stage == "put" and step == 2)
    for number, name in enumerate(("first writes", "second writes")):
        await saver.put_writes(config, [("log", f"{step}.{number}")], f"task-{number}", f"~{number}")
        await _say(f"{name} {id_of(config)}", ends=stage == name and step == 2)
    return config


async def _say(line: str, *, ends: bool) -> None:
    print(line, flush=True)
    if ends:
        await asyncio.sleep(3600)


async def main(stage: str, again: tuple[str, ...]) -> None:
    async with database_of(again).open() as saver:
        face, config = await face_of(saver), at(THREAD)
        for step in range(100_000):
            config = await _turn(face, config, step, stage)


def run() -> None:
    asyncio.run(main(sys.argv[1], tuple(sys.argv[2:])))
