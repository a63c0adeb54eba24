"""A worker: takes up what is due as it becomes due, many at once, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from perdure.core.errors import PerdureError
from perdure.core.threads import ThreadRow
from perdure.runtime.recovery import Recovery, Tried
from perdure.runtime.runtime import Runtime
from perdure.runtime.stalled import Stalled

_POLL = 1.0  # seconds between two looks at timers and leases, which nobody announces
_ORPHANS = 5.0  # … at owners that died on this machine
_UNTOLD = 30.0  # … at questions of processes that have nobody to tell
_QUESTIONS = 50  # looked after at once
_STALLED = 600.0  # … without a word of a run that somebody holds: it is told of
_TROUBLE = 0.5  # seconds to wait for a storage that could not be reached


class Worker:
    """Serves the handlers of a store. Use it as an async context manager, or await `run()`."""

    def __init__(
        self, runtime: Runtime, recovery: Recovery, namespace: str, *, concurrency: int = 10, grace: float = 30.0
    ) -> None:
        self._runtime = runtime
        self._recovery = recovery
        self._namespace = namespace
        self._concurrency = concurrency
        self._grace = grace
        self._poll = min(_POLL, runtime.leases.ttl / 3)
        self._stopping = asyncio.Event()
        self._running: dict[str, asyncio.Task[Tried]] = {}
        self._attended: dict[str, asyncio.Task[None]] = {}  # a slow receiver of news must not hold up runs
        self._stalled = Stalled(runtime, namespace)
        self._looked_for_orphans = self._looked_at_questions = self._looked_for_untold = float("-inf")
        self._serving: asyncio.Task[None] | None = None

    @property
    def busy(self) -> int:
        """How many runs it works on."""
        return len(self._running)

    def stop(self) -> None:
        """Take up nothing more; `run()` ends when what is under way is done, or the grace is over."""
        self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Serve until `stop()`, or until SIGTERM or SIGINT come, then let runs end for up to `grace` seconds.

        Runs that are not done by then are given back: another worker goes on with them at once.
        """
        handled = self._handle_signals() if signals else []
        try:
            await self._serve()
        finally:
            for each in handled:
                asyncio.get_running_loop().remove_signal_handler(each)
            await self._drain()

    def _handle_signals(self) -> list[int]:
        handled: list[int] = []
        for each in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError, NotImplementedError, RuntimeError):  # not the main thread, or no such signals
                asyncio.get_running_loop().add_signal_handler(each, self.stop)
                handled.append(each)
        return handled

    async def _serve(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        watch = self._runtime.storage.watch(self._namespace)
        told: asyncio.Task[Any] | None = None
        try:
            while not self._stopping.is_set():
                told = told if told and not told.done() else asyncio.create_task(watch.wait(self._poll))
                full = not await self._take_up()
                awake = {stopping, *self._running.values()} | (set() if full else {told})
                await asyncio.wait(awake, timeout=self._poll, return_when=asyncio.FIRST_COMPLETED)
                self._forget_done()
        finally:
            for task in (stopping, told):
                await _ended(task)
            with suppress(PerdureError):
                await watch.close()

    async def _take_up(self) -> bool:
        """Take up what is due, and say whether there is room for more."""
        try:
            for row in await self._due():
                self._start(row)
            await self._look_after_questions()
            await self._recovery.look_for_strangers()
        except PerdureError as exc:
            self._runtime.telemetry.log("warning", "a worker cannot reach the storage", error=str(exc))
            await asyncio.sleep(_TROUBLE)
        return self.busy < self._concurrency

    async def _due(self) -> list[ThreadRow]:
        room = self._concurrency - self.busy
        if room <= 0:
            return []
        rows = await self._recovery.due(room + self.busy)
        now = asyncio.get_running_loop().time()
        if now - self._looked_for_orphans > _ORPHANS:
            rows += await self._recovery.orphans()
            await self._stalled.tell(_STALLED)
            self._looked_for_orphans = now
        fresh = {row.uid: row for row in rows if row.uid not in self._running}
        return list(fresh.values())[:room]

    async def _look_after_questions(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at_questions < self._poll:
            return
        self._looked_at_questions = now
        for row in await self._recovery.asked(_QUESTIONS + len(self._attended)):
            self._look_after(row)
        rows = await self._recovery.untold() if now - self._looked_for_untold > _UNTOLD else None
        if rows is not None and all(self._look_after(row, untold=True) for row in rows):
            self._looked_for_untold = now  # else there was no room: the rest is looked at next time

    def _look_after(self, row: ThreadRow, *, untold: bool = False) -> bool:
        """Look after the questions of a thread, beside all else; False when there is no room."""
        if row.uid not in self._attended:
            if len(self._attended) >= _QUESTIONS:
                return False
            work = self._attend(row, untold)
            self._attended[row.uid] = asyncio.create_task(work, name=f"perdure pause {row.key.id}")
        return True

    async def _attend(self, row: ThreadRow, untold: bool) -> None:
        try:
            if await self._recovery.attend(row, untold=untold) and row.uid not in self._running:
                self._start(row)
        except PerdureError as exc:
            self._runtime.telemetry.log("warning", "a question was not looked after", thread=row.key.id, error=str(exc))
        finally:
            self._attended.pop(row.uid, None)

    def _start(self, row: ThreadRow) -> None:
        self._running[row.uid] = asyncio.create_task(self._recovery.take_up(row), name=f"perdure run {row.key.id}")

    def _forget_done(self) -> None:
        self._running = {uid: task for uid, task in self._running.items() if not task.done()}

    async def _drain(self) -> None:
        for task in list(self._attended.values()):
            await _ended(task)  # whoever looks next does the rest
        tasks = list(self._running.values())
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=self._grace)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        self._running.clear()

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self.run(signals=False))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._serving is not None:
            await self._serving


async def _ended(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, PerdureError):
            await task
