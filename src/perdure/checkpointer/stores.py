"""The stores behind a checkpointer: one for asynchronous calls and one for synchronous ones, each opened when used."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from perdure.app.servers import Mode
from perdure.app.store import Perdure
from perdure.checkpointer.turns import InTurn
from perdure.core.errors import ForkedProcessError
from perdure.storage.baton import Baton

T = TypeVar("T")
_in_place: ContextVar[bool] = ContextVar("perdure_in_place", default=False)

Open = Callable[[Mode, Baton | None], Perdure]


class Stores:
    """Opens the store that fits the caller."""

    def __init__(self, open_store: Open, *, shared: bool) -> None:
        self._open = open_store
        self._shared = shared  # a storage in memory is one and the same, and never waits
        self._stores: dict[Mode, Perdure] = {}
        self._begin()

    def _begin(self) -> None:
        self._baton = Baton()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def store(self) -> Perdure:
        """The store for whoever is calling."""
        return self.opened("sync" if _in_place.get() else "async")

    def opened(self, mode: Mode) -> Perdure:
        """The store for callers of a kind; it is not reached yet."""
        mode = "async" if self._shared else mode
        self._check_process()
        with self._lock:
            if mode not in self._stores:
                self._stores[mode] = self._open(mode, self._baton if mode == "sync" else None)
            return self._stores[mode]

    def _check_process(self) -> None:
        """A checkpointer may be made before `os.fork`, and first used after it; connections do not survive it."""
        if self._pid == os.getpid():
            return
        if self._stores:
            raise ForkedProcessError("the checkpointer", f"used by process {self._pid}, then by {os.getpid()}")
        self._begin()  # a lock may be held by a thread that is not here

    def in_turn(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """The same work, one at a time where all share one store."""
        return InTurn(work, self._baton) if self._shared else work

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run an operation in place, one at a time."""
        try:
            self._check_process()
        except ForkedProcessError:
            work.close()
            raise
        token = _in_place.set(True)
        try:
            return self._baton.drive(work)
        finally:
            _in_place.reset(token)

    async def flush(self) -> None:
        """Wait for what the stores themselves write in the background."""
        for mode, store in list(self._stores.items()):
            await self._run(mode, store.flush())

    async def close(self) -> None:
        """Close what was opened; the next call opens it again."""
        stores, self._stores = self._stores, {}
        for mode, store in stores.items():
            await self._run(mode, store.close())

    async def _run(self, mode: Mode, work: Coroutine[Any, Any, None]) -> None:
        if mode == "sync":
            self.drive(work)
        else:
            await work

    def close_in_place(self) -> None:
        """Close from synchronous code: what was opened on an event loop closes without waiting for one."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            self.drive(store.close())
