"""Where a transaction runs: in place for synchronous callers, on a thread of its own for asynchronous ones."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from perdure.core.errors import ForkedProcessError, StorageClosedError
from perdure.storage.baton import all_laid_down

T = TypeVar("T")
Settle = Callable[[Any, BaseException | None], None]
Handed = tuple[Callable[[], Any], Settle]
Pause = Callable[[float], Awaitable[None]]
POLL = 0.05  # seconds between two looks where nobody tells


class Port(Protocol):
    """Runs one whole transaction."""

    async def run(self, work: Callable[[], T]) -> T: ...

    async def pause(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class InPlace:
    """Runs work at once, one thread at a time; never waits for an event loop."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        check_usable(self._place, self._pid, self._closed)
        with self._lock:
            return work()

    async def pause(self, seconds: float) -> None:
        await pause_in_place(seconds)

    def close(self) -> None:
        self._closed = True


class Worker:
    """Runs work on one thread, in order of arrival, so that a sync to disk never holds up the event loop."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._pid = os.getpid()
        self._jobs: queue.SimpleQueue[Handed | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        answer = Answer()
        self.hand_over(lambda: work() if answer.wanted() else None, answer.settle)
        return await answer.future

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    def hand_over(self, work: Callable[[], Any], settle: Settle) -> None:
        """Run work on the thread, and call `settle` there with its value or its error."""
        check_usable(self._place, self._pid, self._closed)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"perdure {self._place}", daemon=True)
            self._thread.start()
        self._jobs.put((work, settle))

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, settle = job
            settle(*outcome(work))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._thread is not None and self._pid == os.getpid():
            self._jobs.put(None)
            self._thread.join()


class PollingWatch:
    """The watch of a storage that nobody calls: it says "look again" every so often."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._closed = False

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # the contract's; in place nothing can cancel it
        if self._closed:
            return False
        await self._pause(max(min(POLL, timeout), 0))
        return timeout > POLL and not self._closed

    async def close(self) -> None:
        self._closed = True


async def pause_in_place(seconds: float) -> None:
    """Sleep on the caller's thread; other threads of its store go on, whatever the storage: nothing is half done."""
    with all_laid_down():
        time.sleep(seconds)  # noqa: ASYNC251  # driven in place: there is no event loop to hold up


async def pause_on_loop(seconds: float) -> None:
    """Sleep while the event loop goes on."""
    await asyncio.sleep(seconds)


def loop_limit(seconds: float | None) -> asyncio.Timeout:
    """What is awaited inside has so many seconds, then it is a `TimeoutError`; None is for ever."""
    return asyncio.timeout(seconds)


def renew(limit: asyncio.Timeout, seconds: float) -> None:
    """Let the time of a limit begin anew."""
    limit.reschedule(asyncio.get_running_loop().time() + seconds)


async def stirred(fd: int, seconds: float | None, *, writing: bool = False) -> bool:
    """Wait until there is something to read, or with `writing` room to write; False when so long nothing happened."""
    loop = asyncio.get_running_loop()
    happened: asyncio.Future[bool] = loop.create_future()
    timer = None if seconds is None else loop.call_later(seconds, _set, happened, False)
    loop.add_reader(fd, _set, happened, True)
    if writing:
        loop.add_writer(fd, _set, happened, True)
    try:
        return await happened
    finally:
        loop.remove_reader(fd)
        if writing:
            loop.remove_writer(fd)
        if timer is not None:
            timer.cancel()


def _set(happened: asyncio.Future[bool], value: bool) -> None:
    if not happened.done():
        happened.set_result(value)


async def pause_anywhere(seconds: float) -> None:
    """Sleep on the event loop that runs on this thread, or else in place; for a storage without a port."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        await pause_in_place(seconds)
    else:
        await pause_on_loop(seconds)


class Answer:
    """A future of the caller's event loop that another thread settles."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def soon(self, call: Callable[[], None]) -> None:
        """Call on this event loop, after what is ready to run now."""
        self.loop.call_soon(call)

    def soon_from_elsewhere(self, call: Callable[[], None]) -> None:
        """The same, from another thread."""
        with suppress(RuntimeError):  # a loop that is gone has nobody left to serve
            self.loop.call_soon_threadsafe(call)

    def wanted(self) -> bool:
        """Whether the caller still waits; work that was cancelled before it began is not begun."""
        return not self.future.cancelled()

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Hand the outcome to the caller; a loop that is gone has nobody left to tell."""
        self.soon_from_elsewhere(lambda: self.set(value, error))

    def set(self, value: Any, error: BaseException | None) -> None:
        """Settle on the event loop itself."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


def settle_together(answers: Sequence[Answer], results: Sequence[tuple[Any, BaseException | None]]) -> None:
    """Hand over the outcomes of a group, all of one event loop, with one wake-up instead of one each."""

    def settle() -> None:
        for answer, result in zip(answers, results, strict=True):
            answer.set(*result)

    for answer in answers[:1]:
        answer.soon_from_elsewhere(settle)


def outcome(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Run `work` and return its value or its error."""
    try:
        return work(), None
    except BaseException as exc:  # handed to the caller, whatever it is
        return None, exc


def check_usable(place: str, pid: int, closed: bool) -> None:
    """Raise when a storage is closed or was inherited through os.fork."""
    if closed:
        raise StorageClosedError(place, "the storage is closed")
    if pid != os.getpid():
        raise ForkedProcessError(place, f"opened by process {pid}, used by {os.getpid()}")
