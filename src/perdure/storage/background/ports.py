"""Where queued writes are applied: on a thread for synchronous callers, in tasks for asynchronous ones."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any, Literal, Protocol

from perdure.storage.baton import Baton
from perdure.storage.drive import drive
from perdure.storage.ports import Answer

Met = Callable[[], bool]
Work = Callable[[], Coroutine[Any, Any, None]]

IDLE = 5.0  # seconds after which a thread that has nothing to do ends
LOOK = 0.1  # seconds between two looks at whether another event loop was closed with its work undone
WRITERS = 32  # threads of one event loop whose writes are applied at once, so that they can share commits


def _nothing() -> None: ...


class Queue(Protocol):
    """Lets callers wait, and has the queued writes applied meanwhile."""

    @property
    def lock(self) -> threading.RLock:
        """Held around every look at what is queued, never while anything is waited for."""
        ...

    async def until(self, met: Met, take: Callable[[], None] = _nothing) -> None:
        """Wait until `met`, and `take` in that same moment. Both are called under the lock."""
        ...

    def tell(self) -> None:
        """Let those who wait look again; called under the lock."""
        ...

    def serve(self, work: Work) -> None:
        """See to it that `work` is done soon, again if it is being done; called under the lock."""
        ...

    def alive(self) -> Met:
        """Tells later whether whoever asks now can still go on."""
        ...

    async def end(self, empty: Met, close: Work) -> None:
        """Wait until `empty`, then `close`.

        A finaliser cannot wait: it leaves the closing to the thread or event loop that works on the queue, or closes at
        once where there is none.
        """
        ...


class ThreadQueue:
    """One thread applies what is queued. It is started when needed, and ended by idleness."""

    def __init__(self, baton: Baton | None = None) -> None:
        self.lock = threading.RLock()  # a finaliser may run where it is held
        self._changed = threading.Condition(self.lock)
        self._asked = threading.Condition(self.lock)
        self._baton = baton or Baton()
        self._thread: threading.Thread | None = None
        self._wanted = self._busy = False
        self._work: Work | None = None
        self._close: Work | None = None

    async def until(self, met: Met, take: Callable[[], None] = _nothing) -> None:
        with self.lock:
            if met():
                return take()
        with self._baton.laid_down(), self.lock:
            if self._work is not None:
                self.serve(self._work)  # an interrupt may have come between queueing a write and saying so
            self._changed.wait_for(met)
            take()

    def tell(self) -> None:
        self._changed.notify_all()

    def serve(self, work: Work) -> None:
        self._work, self._wanted = work, True
        if self._thread is not None:
            self._asked.notify()
            return
        self._thread = threading.Thread(target=self._serve, args=(work,), name="perdure background", daemon=True)
        try:
            self._thread.start()
            atexit.register(self._at_exit, os.getpid())
        except RuntimeError:  # the interpreter is ending, and starts no thread any more
            self._thread, self._wanted = None, False
            drive(work())

    def _serve(self, work: Work) -> None:
        try:
            while self._next():
                drive(work())
        except BaseException:  # a defect: nobody is to wait for this thread for ever
            self._leave()
            raise
        if self._close is not None:
            drive(self._close())

    def _next(self) -> bool:
        """Wait for something to do; False when it is time to go."""
        with self.lock:
            self._busy = False
            self._changed.notify_all()
            self._asked.wait_for(lambda: self._wanted or self._close is not None, IDLE)
            self._busy, self._wanted = self._wanted, False
            if not self._busy:
                self._leave()
            return self._busy

    def _leave(self) -> None:
        with self.lock:
            self._thread, self._busy = None, False
            self._changed.notify_all()
            atexit.unregister(self._at_exit)

    def _at_exit(self, pid: int) -> None:
        """A program that ends waits for what it was told is done; a forked child has nothing to wait for."""
        if pid == os.getpid():
            with self.lock:
                self._changed.wait_for(lambda: not self._busy and not self._wanted)

    def alive(self) -> Met:
        return lambda: True

    async def end(self, empty: Met, close: Work) -> None:
        if threading.current_thread() is self._thread:
            self._close = close  # the garbage collector ran here: waiting would be for this very thread
            return
        await self.until(empty)
        await close()


class LoopQueue:
    """Tasks of the callers' event loops apply what is queued; each ends when nothing is left."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # event loops of several threads may share a storage
        self._waiting: dict[Answer, Met] = {}
        self._tasks: dict[asyncio.AbstractEventLoop, set[asyncio.Task[None]]] = {}
        self._work: Work | None = None
        self._pid = os.getpid()

    async def until(self, met: Met, take: Callable[[], None] = _nothing) -> None:
        while True:
            with self.lock:
                if met():
                    return take()
                answer = Answer()
                self._waiting[answer] = met
            await self._woken(answer)

    async def _woken(self, answer: Answer) -> None:
        timer = answer.loop.call_later(LOOK, self._look, answer)
        try:
            await answer.future
        finally:
            timer.cancel()
            with self.lock:
                self._waiting.pop(answer, None)

    def _look(self, answer: Answer) -> None:
        """A loop that was closed tells nobody: whoever waits for its work does it."""
        answer.set(None, None)
        with self.lock:
            if self._work is not None:
                self.serve(self._work)

    def tell(self) -> None:
        here = _running_loop()
        for answer in [answer for answer, met in self._waiting.items() if met()]:
            del self._waiting[answer]
            answer.set(None, None) if answer.loop is here else answer.settle(None, None)

    def serve(self, work: Work) -> None:
        self._work = work
        loop = asyncio.get_running_loop()
        if len(self._tasks.get(loop, ())) < WRITERS:
            self._start(loop, work)

    def _start(self, loop: asyncio.AbstractEventLoop, work: Work) -> None:
        begun = self._to_the_end(work)
        begun.send(None)  # up to where it hears of a cancellation: before its first step, one would end it unheard
        task = loop.create_task(begun)
        with self.lock:
            self._tasks = {each: tasks for each, tasks in self._tasks.items() if not each.is_closed()}
            self._tasks.setdefault(loop, set()).add(task)
        task.add_done_callback(lambda done: self._finished(loop, done))

    def _finished(self, loop: asyncio.AbstractEventLoop, done: asyncio.Task[None]) -> None:
        with self.lock:
            tasks = self._tasks.get(loop, set())
            tasks.discard(done)
            if not tasks:
                self._tasks.pop(loop, None)

    async def _to_the_end(self, work: Work) -> None:
        """Work, even when the loop is ending: `asyncio.run` cancels every task, and waits for it."""
        step: Callable[[], Awaitable[None]] = _begin
        while True:
            try:
                await step()
            except asyncio.CancelledError:
                if self._pid != os.getpid():
                    raise  # what is queued is the parent's
                _this_task().uncancel()
            else:
                if step is work:
                    # Here and not in a callback: what is queued before that ran would find nobody, and start nobody.
                    return self._finished(asyncio.get_running_loop(), _this_task())
            step = work

    def alive(self) -> Met:
        loop = asyncio.get_running_loop()
        return lambda: not loop.is_closed()

    async def end(self, empty: Met, close: Work) -> None:
        loop = _running_loop()
        if loop is None:
            return await close()
        try:
            await self.until(empty)
        except GeneratorExit:  # driven by a finaliser: the loop that runs here goes on with it
            if loop.is_running():
                self._start(loop, lambda: self.end(empty, close))
            raise
        await close()


@coroutine
def _begin() -> Generator[None, None, None]:
    yield


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  # started as one
    return task


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def open_queue(mode: Literal["sync", "async"], baton: Baton | None = None) -> ThreadQueue | LoopQueue:
    """The queue that fits the caller. Threads that share a synchronous store go on while one of them waits."""
    return ThreadQueue(baton) if mode == "sync" else LoopQueue()
