"""Where the code of a run is run: on the event loop, or in place for synchronous callers."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import lru_cache
from types import FunctionType
from typing import Any, Protocol

from perdure.core.errors import InvalidInputError, PerdureError
from perdure.core.ports import Telemetry
from perdure.runtime.keeping import Drive, Keeper, TaskKeeper, ThreadKeeper
from perdure.runtime.leases import Held, Leases
from perdure.storage.baton import all_laid_down
from perdure.storage.ports import pause_in_place, pause_on_loop

Job = Callable[[], Any]


class OnlyAwaitableError(InvalidInputError):
    """A synchronous run was given a function whose result has to be awaited: nothing of it ran."""


def check_plain(function: Callable[..., Any], what: str) -> None:
    """Raise for a function that synchronous code cannot call."""
    if is_async(function):
        raise OnlyAwaitableError(
            f"{what} is asynchronous, and synchronous code cannot await it: make it a plain function, or use "
            "perdure.Perdure"
        )


class Work(Protocol):
    """Calls functions, waits, and keeps leases meanwhile."""

    async def call(self, job: Job, timeout: float | None, blocking: bool = False) -> Any: ...  # noqa: ASYNC109

    async def pause(self, seconds: float) -> None: ...

    def keep(self, leases: Leases, held: Held, telemetry: Telemetry) -> Keeper: ...

    def beside(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin something that nobody waits for, until the store is closed."""
        ...

    async def finish(self, seconds: float) -> None:
        """Give what was begun beside so many seconds, then stop it."""
        ...

    @property
    def in_place(self) -> bool: ...

    def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Bring work of a plain function to its end; raise where that would hold up an event loop."""
        ...


class OnLoop:
    """Awaits what can be awaited."""

    in_place = False

    def __init__(self) -> None:
        self._beside: set[asyncio.Task[None]] = set()

    def beside(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(_quiet(job()))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def finish(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        ours = [task for task in self._beside if task.get_loop() is loop]  # a store may outlive a loop
        if ours:
            _, late = await asyncio.wait(ours, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def call(self, job: Job, timeout: float | None, blocking: bool = False) -> Any:  # noqa: ASYNC109
        if timeout is None:
            return await _made(job, blocking)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await _made(job, blocking)
        except TimeoutError as exc:
            if limit.expired() and not exc.args:
                raise TimeoutError(f"no answer within {timeout:g} s") from exc
            raise

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    def keep(self, leases: Leases, held: Held, telemetry: Telemetry) -> Keeper:
        return TaskKeeper(leases, held, telemetry)

    def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        work.close()
        raise InvalidInputError("a durable plain function needs a synchronous run; make it async, or use run.step")


async def _made(job: Job, blocking: bool) -> Any:
    if blocking:
        return await in_thread(job)
    made = job()
    return await made if inspect.isawaitable(made) else made


class InPlace:
    """Calls plain functions; other threads of the store go on meanwhile."""

    in_place = True

    def __init__(self, drive: Drive) -> None:
        self._driven = drive
        self._beside: list[threading.Thread] = []

    def beside(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        thread = threading.Thread(target=lambda: self._driven(_quiet(job())), name="perdure beside", daemon=True)
        self._beside = [*(each for each in self._beside if each.is_alive()), thread]
        thread.start()

    async def finish(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with all_laid_down():
            for thread in self._beside:
                thread.join(max(0.0, end - time.monotonic()))

    def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._driven(work)

    async def call(self, job: Job, timeout: float | None, blocking: bool = False) -> Any:  # noqa: ASYNC109
        if timeout is not None:
            raise InvalidInputError("a synchronous step cannot be stopped after a timeout; use perdure.Perdure")
        with all_laid_down():
            made = job()
        if inspect.isawaitable(made):
            if isinstance(made, Coroutine):
                made.close()
            raise OnlyAwaitableError("a synchronous run calls plain functions; use perdure.Perdure for async ones")
        return made

    async def pause(self, seconds: float) -> None:
        await pause_in_place(seconds)

    def keep(self, leases: Leases, held: Held, telemetry: Telemetry) -> Keeper:
        return ThreadKeeper(leases, held, self.drive)


async def _quiet(work: Coroutine[Any, Any, None]) -> None:
    """What is done beside a run never harms it: it is found in the log again, and done by whoever looks next."""
    with suppress(PerdureError):
        await work


async def in_thread(function: Callable[..., Any], /, **named: Any) -> Any:
    """Call a plain function in a thread of its own; the context goes along."""

    def call() -> Any:
        try:
            return function(**named)
        except StopIteration as exc:  # no future takes one: whoever waits for it would wait for ever
            raise RuntimeError(f"{_name_of(function)} raised StopIteration") from exc

    made = await asyncio.to_thread(call)
    return await made if inspect.isawaitable(made) else made


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling a function gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "<lambda>")
    return "the function" if name == "<lambda>" else name


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name."""
    if type(function) is FunctionType and not vars(function):  # a lambda is another one at each call
        code = function.__code__
        return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return _has_parameter(function, name)


@lru_cache(1024)
def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
