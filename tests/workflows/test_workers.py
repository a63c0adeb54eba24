"""Several workflows on two workers, one of which is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.testing.servers import require, shared_postgres
from perdure.workflows import parse_workflow
from tests.workflows.scenes import World
from tests.workflows.worker import ORDER, executor

COUNT = 8


async def answered(store: Perdure, world: World) -> None:
    """Answer what waits, as a person would who looks at the world."""
    for pause in await store.pauses():
        if pause.name == "approve":
            await store.decide(pause, approved=True, by="ann")
            continue
        args = pause.args or {}  # a tool that may have run before the kill
        name = f"{args['id']} fetch {args['part']}" if "part" in args else f"{args['id']} ship"
        ran = world.counts()[name] > 0
        result = f"{args['id']}{args['part']}" if "part" in args else "+".join(args["parts"])
        await store.decide(pause, approved=not ran, by="ann", answer=result if ran else None)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_workflows_of_a_killed_worker_are_ended_by_the_other(backend: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    if backend == "postgres":
        url = require(shared_postgres).database(f"workflow_workers_{os.getpid()}")
    world = World(tmp_path)
    command = [sys.executable, "-m", "tests.workflows.worker", url, str(tmp_path)]
    async with Perdure.open(url, lease_ttl=1.0) as store:
        name = executor(store, world).register(parse_workflow(ORDER))
        tickets = [await store.start(name, {"inputs": {"id": f"o{at}"}}, thread=f"o{at}") for at in range(COUNT)]
        workers = [subprocess.Popen(command) for _ in range(2)]
        try:
            async with asyncio.timeout(120):
                while len(world.marks()) < COUNT:
                    await asyncio.sleep(0.02)
                workers[0].send_signal(signal.SIGKILL)
                while {each.status for each in await store.runs()} != {"finished"}:
                    await answered(store, world)
                    await asyncio.sleep(0.1)
        finally:
            for each in workers:
                each.kill()
                each.wait()
        results = [(await each.info()).result for each in tickets]
    assert results == [f"o{at}a+o{at}b+o{at}c" for at in range(COUNT)]
    assert set(world.counts().values()) == {1}
    assert len(world.counts()) == COUNT * 4
