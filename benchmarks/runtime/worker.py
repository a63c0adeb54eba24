"""A worker in a process of its own.

    python -m benchmarks.runtime.worker URL

reads one command a line and answers with one line:

    woken    when the newest run went on after its pause, by the machine's clock
    asked    how many times a run came to its question
    traced   the bytes that Python holds
    close    stop
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from typing import Any

from benchmarks.peers.obeying import obey
from perdure import Perdure


class Serving:
    """A worker on a loop in a thread; commands come to the main one."""

    def __init__(self, url: str) -> None:
        self._woken = 0.0
        self._asked = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(url),))
        self._thread.start()
        self._ready.wait()

    async def _serve(self, url: str) -> None:
        self._stopped = asyncio.Event()
        async with Perdure.open(url) as store:

            @store.handler("asking")
            async def asking(run: Any) -> None:
                self._asked += 1
                await run.pause("go", ask="go on?")
                await run.step("after", self._after)

            async with store.worker(concurrency=20):
                self._ready.set()
                await self._stopped.wait()

    async def _after(self) -> None:
        self._woken = time.monotonic()

    def woken(self) -> float:
        return self._woken

    def asked(self) -> int:
        return self._asked

    def traced(self) -> int:
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    def close(self) -> int:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        return 0


if __name__ == "__main__":
    obey(Serving(sys.argv[1]))
