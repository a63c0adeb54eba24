"""Where the code of a run is run: on the event loop, or in place for synchronous callers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, Protocol

from perdure.core.errors import InvalidInputError
from perdure.core.ports import Telemetry
from perdure.runtime.keeping import Drive, Keeper, TaskKeeper, ThreadKeeper
from perdure.runtime.leases import Held, Leases
from perdure.storage.baton import all_laid_down
from perdure.storage.ports import pause_in_place, pause_on_loop

Job = Callable[[], Any]


class Work(Protocol):
    """Calls functions, waits, and keeps leases meanwhile."""

    async def call(self, job: Job, timeout: float | None, blocking: bool = False) -> Any: ...  # noqa: ASYNC109

    async def pause(self, seconds: float) -> None: ...

    def keep(self, leases: Leases, held: Held, telemetry: Telemetry) -> Keeper: ...

    def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Bring work of a plain function to its end; raise where that would hold up an event loop."""
        ...


class OnLoop:
    """Awaits what can be awaited."""

    async def call(self, job: Job, timeout: float | None, blocking: bool = False) -> Any:  # noqa: ASYNC109
        async with asyncio.timeout(timeout):
            made = await asyncio.to_thread(job) if blocking else job()  # the context goes along
            return await made if inspect.isawaitable(made) else made

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    def keep(self, leases: Leases, held: Held, telemetry: Telemetry) -> Keeper:
        return TaskKeeper(leases, held, telemetry)

    def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        work.close()
        raise InvalidInputError("a durable plain function needs a synchronous run; make it async, or use run.step")


class InPlace:
    """Calls plain functions; other threads of the store go on meanwhile."""

    def __init__(self, drive: Drive) -> None:
        self._driven = drive

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
            raise InvalidInputError("a synchronous run calls plain functions; use perdure.Perdure for async ones")
        return made

    async def pause(self, seconds: float) -> None:
        await pause_in_place(seconds)

    def keep(self, leases: Leases, held: Held, telemetry: Telemetry) -> Keeper:
        return ThreadKeeper(leases, held, self.drive)


@lru_cache(1024)
def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
