"""A process that works under an allowance, killed after its nth write: arguments URL FILE NTH."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure import Perdure
from perdure.app.store import parts_of


def register(store: Any, effects: Path) -> None:
    """The handler, as every process has it; what it deploys stands in a file."""

    @perdure.tool(require_approval=True, repeatable=True)
    def deploy(name: str) -> str:
        with effects.open("a") as file:
            file.write(f"{name}\n")
        return name

    async def deploying(run: Any) -> Any:
        return await run.tool("deploy", deploy, name=run.input)

    store.handler("deploying", retry=50)(deploying)  # it is killed more often than runs are tried by themselves


async def main(url: str, effects: str, nth: str) -> None:
    async with Perdure.open(url) as store:
        register(store, Path(effects))
        await store.runs()
        storage: Any = parts_of(store).storage
        append, writes = storage.append, 0

        async def dying(write: Any) -> Any:
            nonlocal writes
            done = await append(write)
            writes += 1
            if writes == int(nth):
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        storage.append = dying
        await store.recover()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
