"""Keeping a lease while its run works: a task beside an asynchronous run, a thread beside a synchronous one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self

from perdure.core.errors import LeaseLostError, PerdureError
from perdure.core.ports import Telemetry
from perdure.runtime.leases import Held, Leases

LATE = "perdure.leases.renewed_late"
_HELD_UP = (
    "the event loop was held up, by this run or by any other code, and a lease was renewed late: call what blocks with "
    "run.options(blocking=True).step"
)
Drive = Callable[[Coroutine[Any, Any, Any]], Any]


class Keeper(Protocol):
    """Renews a lease from its creation until `async with` is left."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TaskKeeper:
    """Renews on the event loop, and cancels the task that runs when the lease is another's."""

    def __init__(self, leases: Leases, held: Held, telemetry: Telemetry) -> None:
        self._leases = leases
        self._held = held
        self._telemetry = telemetry
        self._running = asyncio.current_task()
        self._cancellations = self._running.cancelling() if self._running is not None else 0  # by others, before us
        self._cancelled = self._stopped = False
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
            self._telemetry.log("warning", _HELD_UP, lease_of=self._held.key.id, seconds=round(late, 3))

    def _cancel(self) -> None:
        if self._running is not None and not self._running.done() and not self._stopped:
            self._cancelled = True
            self._running.cancel("the lease was lost")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and raise `LeaseLostError` instead of the cancellation that the loss of the lease caused."""
        self._stopped = True
        self._task.cancel()
        try:
            await asyncio.wait([self._task])  # always suspends: a cancellation that is still under way arrives here
        except asyncio.CancelledError:
            if not self._take_back():
                raise
        else:
            if self._take_back() and isinstance(error, asyncio.CancelledError) and self._held.lost is not None:
                raise self._held.lost from None

    def _take_back(self) -> bool:
        """Undo our cancellation. False where there was none, or where somebody else cancelled the task as well."""
        if not self._cancelled or self._running is None:
            return False
        self._cancelled = False
        return self._running.uncancel() <= self._cancellations


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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
