"""Kill a workflow after each of its writes, and look whether the next process ends it as an undisturbed run does.

    python -m tests.workflows.kills URL FOLDER [EVERY]

Prints one line of JSON: how many writes an undisturbed run makes, how many kills there were, and what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from perdure import Perdure
from perdure.app.store import parts_of
from perdure.workflows import parse_workflow
from tests.workflows.scenes import MARKS, OUTPUT, RELEASE, World, answered, executor

TTL = 0.5


def killed_after(store: Perdure, writes: int | None) -> list[int]:
    """Count the appends of a store, and kill this process when one of them is acknowledged."""
    storage: Any = parts_of(store).storage
    count, append = [0], storage.append

    async def counted(*args: Any, **named: Any) -> Any:
        done = await append(*args, **named)
        count[0] += 1
        if count[0] == writes:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    storage.append = counted
    return count


async def life(url: str, folder: Path, thread: str, writes: int | None) -> int:
    """Run or resume the workflow until it ends, answering its questions; return how many writes that took."""
    world, workflow = World(folder), parse_workflow(RELEASE)
    async with Perdure.open(url, lease_ttl=TTL) as store:
        count = killed_after(store, writes)
        runner = executor(store, world)
        for _ in range(20):
            result = await runner.run(workflow, {"service": "api"}, thread=thread, key="api-1")
            if result:
                assert result.output == OUTPUT, result.output
                return count[0]
            await answered(store, thread, world)
    raise AssertionError(f"it did not end: {result}")


def in_child(url: str, folder: Path, thread: str, writes: int | None) -> tuple[int, int]:
    """The same in a process of its own; its exit status, and how many writes it made."""
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        try:
            made = asyncio.run(life(url, folder, thread, writes))
            (folder / "writes").write_text(str(made))
            os._exit(0)
        except BaseException as exc:
            (folder / "error").write_text(repr(exc))
            os._exit(1)
    _, status = os.waitpid(child, 0)
    made = folder / "writes"
    return status, int(made.read_text()) if made.exists() else 0


def campaign(url: str, folder: Path, every: int = 1) -> dict[str, Any]:
    status, writes = in_child(url, folder / "calm", "calm", None)
    wrong = [] if status == 0 else [f"undisturbed: {(folder / 'calm' / 'error').read_text()}"]
    if World(folder / "calm").counts() != MARKS:
        wrong.append(f"undisturbed: {World(folder / 'calm').counts()}")
    kills = 0
    for at in range(1, writes + 1, every):
        own = folder / f"k{at}"
        status, _ = in_child(url, own, f"t{at}", at)
        if not os.WIFSIGNALED(status):
            wrong.append(f"write {at}: not killed, {status}")
            continue
        kills += 1
        status, _ = in_child(url, own, f"t{at}", None)
        if status != 0:
            wrong.append(f"after write {at}: {(own / 'error').read_text()}")
        # A branch that works beside the one whose write was the last may have run, and not been recorded.
        counts = World(own).counts()
        counts["Linter"] = min(counts["Linter"], 1)
        if counts != MARKS:
            wrong.append(f"after write {at}: {counts - MARKS} too much, {MARKS - counts} too little")
    return {"writes": writes, "kills": kills, "wrong": wrong}


if __name__ == "__main__":
    arguments = sys.argv[1:]
    print(json.dumps(campaign(arguments[0], Path(arguments[1]), int(arguments[2]) if len(arguments) > 2 else 1)))
