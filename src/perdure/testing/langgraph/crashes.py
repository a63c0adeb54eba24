"""The process is killed between `put` and `put_writes`: what was acknowledged is there, and nothing is half there."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any

from perdure.testing.langgraph import dying
from perdure.testing.langgraph.bench import Bench, Database, Face, NotOffered
from perdure.testing.langgraph.dying import THREAD, state
from perdure.testing.langgraph.examining import each_of
from perdure.testing.langgraph.making import at, id_of, parent_of

ENOUGH = 60  # lines, when it is killed in the middle of things
PUT, FIRST, SECOND = "put", "first writes", "second writes"


async def _killed(database: Database, stage: str) -> list[str]:
    """Let a process put until it waits at `stage` or has said enough, kill it, and return what it had said."""
    if database.again is None:
        raise NotOffered("another process cannot open it")
    path = os.pathsep.join(each for each in sys.path if each)
    command = (sys.executable, "-c", f"from {dying.__name__} import run; run()", stage, *database.again)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    assert process.stdout is not None
    try:
        said = await _heard(process, stage)
    finally:
        _kill(process)
    said += (await process.stdout.read()).decode().splitlines()  # said before it died
    await process.wait()
    return said


def _kill(process: Process) -> None:
    # Not `Process.kill`, which looks whether it has ended, and would take its end from whoever waits for it.
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


async def _heard(process: Process, stage: str) -> list[str]:
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    while len(said) < ENOUGH and not (len(said) >= 7 and said[-1].startswith(f"{stage} ")):
        line = (await process.stdout.readline()).decode().strip()
        if not line:
            error = (await process.stderr.read()).decode().strip().splitlines()
            raise AssertionError(f"the process ended by itself: {error[-1] if error else 'no reason given'}")
        said.append(line)
    return said


async def _expect(saver: Face, said: list[str]) -> None:
    """Every acknowledged checkpoint with its state, its parent and its acknowledged writes."""
    before: str | None = None
    acknowledged = [line.rpartition(" ")[2] for line in said if line.startswith(f"{PUT} ")]
    for step, checkpoint_id in enumerate(acknowledged):
        found = await saver.get(at(THREAD, id=checkpoint_id))
        assert found is not None, f"checkpoint {step + 1} was acknowledged and is gone"
        assert found.checkpoint["channel_values"] == state(step), f"checkpoint {step + 1} has another state"
        assert parent_of(found) == before, f"checkpoint {step + 1} has another parent"
        _expect_writes(found, step, [line for line in said if line.endswith(checkpoint_id)])
        before = checkpoint_id


def _expect_writes(found: Any, step: int, said: list[str]) -> None:
    whole = [(f"task-{n}", "log", f"{step}.{n}") for n in (0, 1)]
    acknowledged = len(said) - 1
    assert found.pending_writes in [whole[:n] for n in range(acknowledged, 3)], (
        f"{found.pending_writes} after {acknowledged} acknowledged writes"
    )


async def killed(bench: Bench, stage: str) -> str:
    database = bench.empty()
    said = await _killed(database, stage)
    async with bench.saver(database) as saver:
        await _expect(saver, said)
        latest = await saver.get(at(THREAD))
        await _goes_on(saver, latest)
    return ""


async def _goes_on(saver: Face, latest: Any) -> None:
    """The next run writes where the killed one had been."""
    await saver.put_writes(latest.config, [("log", "again")], "task-0", "~0")
    await saver.put_writes(latest.config, [("log", "again")], "task-9", "~9")
    found = [value for _, _, value in (await saver.get(latest.config)).pending_writes]
    assert found.count("again") == (1 if latest.pending_writes else 2), f"{found}"
    assert id_of((await saver.get(at(THREAD))).config) == id_of(latest.config)


CHECKS = each_of(
    "kill -9",
    killed,
    {
        "between put and put_writes": PUT,
        "between the writes of two tasks": FIRST,
        "after put_writes": SECOND,
        "in the middle of many": "stream",
    },
)
