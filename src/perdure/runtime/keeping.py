"""Keeping a lease while its run works: a task beside an asynchronous run, a thread beside a synchronous one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from perdure.core.errors import LeaseLostError, PerdureError
from perdure.core.ports import Telemetry
from perdure.runtime.leases import Held, Leases

LATE = "perdure.leases.renewed_late"
_HELD_UP = (
    "the event loop was held up, and a lease was renewed late: call what blocks with run.options(blocking=True).step"
)
Drive = Callable[[Coroutine[Any, Any, Any]], Any]


class Keeper(Protocol):
    """Renews a lease until it is told to stop."""

    async def stop(self) -> None: ...


class TaskKeeper:
    """Renews on the event loop, and cancels the task that runs when the lease is another's."""

    def __init__(self, leases: Leases, held: Held, telemetry: Telemetry) -> None:
        self._leases = leases
        self._held = held
        self._telemetry = telemetry
        self._running = asyncio.current_task()
        self.cancelled = False
        self._task = asyncio.create_task(self._renew(), name=f"perdure lease {held.key.id}")

    async def _renew(self) -> None:
        while True:
            await self._wait()
            try:
                await self._leases.renew(self._held)
            except LeaseLostError:
                return self._cancel()
            except PerdureError:
                continue  # the storage may be back before the lease runs out

    async def _wait(self) -> None:
        """Wait for a third of the lease. Code that holds up the event loop makes it longer: then somebody is told."""
        loop, third = asyncio.get_running_loop(), self._held.ttl / 3
        began = loop.time()
        await asyncio.sleep(third)
        late = loop.time() - began - third
        if late > third:
            self._telemetry.count(LATE)
            self._telemetry.log("warning", _HELD_UP, thread=self._held.key.id, seconds=round(late, 3))

    def _cancel(self) -> None:
        if self._running is not None and not self._running.done():
            self.cancelled = True
            self._running.cancel("the lease was lost")

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


class ThreadKeeper:
    """Renews on a thread of its own; a run that lost its lease is told at its next call."""

    def __init__(self, leases: Leases, held: Held, drive: Drive) -> None:
        self._leases = leases
        self._held = held
        self._drive = drive
        self._stopped = threading.Event()
        threading.Thread(target=self._renew, name=f"perdure lease {held.key.id}", daemon=True).start()

    def _renew(self) -> None:
        while not self._stopped.wait(self._held.ttl / 3):
            try:
                self._drive(self._leases.renew(self._held))
            except LeaseLostError:
                return
            except PerdureError:
                continue

    async def stop(self) -> None:
        self._stopped.set()
