"""A block of code whose process is asked to end: it gives its thread back when the process ends by an exception."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import sync

_ASYNC = """
import asyncio, signal, sys
from perdure import Perdure
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
async def main():
    async with Perdure.open(sys.argv[1]) as store:
        async with store.thread("t").run() as run:
            await run.step("one", lambda: 1)
            print("ready", flush=True)
            await asyncio.sleep(60)
asyncio.run(main())
"""
_SYNC = """
import signal, sys, time
from perdure.sync import Perdure
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with Perdure.open(sys.argv[1]) as store:
    with store.thread("t").run() as run:
        run.step("one", lambda: 1)
        print("ready", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("code", [_ASYNC, _SYNC], ids=["async", "sync"])
def test_a_handler_that_exits_gives_the_thread_back(code: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.wait(60) == 0
    with sync.Perdure.open(url) as store:
        (info,) = store.runs()
        assert (info.status, info.owner) == ("interrupted", None)
        with store.thread("t").run(wait=0) as run:
            assert run.resumed
