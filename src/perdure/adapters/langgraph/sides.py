"""One saver or long-term store for both kinds of callers: the store of each is opened when the first of them comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

from perdure import sync
from perdure.app.parts import Parts
from perdure.app.store import Perdure, parts_of
from perdure.core.errors import InvalidInputError
from perdure.storage.bounded import BoundedStorage
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.sync.store import inside


class Keeping(Protocol):
    """What keeps something of LangGraph's in one open store."""

    parts: Parts


T = TypeVar("T")
K = TypeVar("K", bound=Keeping)


class Sides(Generic[K]):
    """The store, or the address, that a saver was given; `name` is the class that users made it of."""

    def __init__(
        self,
        store: Perdure | sync.Perdure | None,
        url: str,
        options: dict[str, Any],
        make: Callable[[Parts, str], K],
        name: str = "PerdureSaver",
    ) -> None:
        self._name = name
        self._url = url
        self._options = options
        self._make = make
        self._lock = threading.Lock()
        self._owned: list[Perdure | sync.Perdure] = []
        self._sync: tuple[K, sync.Perdure] | None = None
        self._async: tuple[K, Perdure] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        if isinstance(store, sync.Perdure):
            self._sync = self._kept(inside(store)[0]), store
        elif isinstance(store, Perdure):
            self._async = self._kept(store), store
            self._loop = _running()
        elif store is not None:
            raise InvalidInputError(f"a {name} takes an open Perdure (or one of perdure.sync), not {store!r}")

    def _kept(self, store: Perdure) -> K:
        return self._make(parts_of(store), store.namespace)

    def run(self, work: Callable[[K], Coroutine[Any, Any, T]]) -> T:
        """Do something for a synchronous caller."""
        if self._sync is None and self._async is not None and not self._url:
            return self._on_loop(self._async[0], work)
        keeper, store = self._for_sync()
        return inside(store)[1](work(keeper))

    def _for_sync(self) -> tuple[K, sync.Perdure]:
        with self._lock:
            if self._sync is None:
                store = sync.Perdure.open(self._url, **self._options)
                self._owned.append(store)
                self._sync = self._kept(inside(store)[0]), store
        return self._sync

    def _on_loop(self, keeper: K, work: Callable[[K], Coroutine[Any, Any, T]]) -> T:
        """A synchronous call on a store for asynchronous code: it is done where that code runs."""
        if _is_memory(keeper.parts.storage):
            return drive(work(keeper))
        if self._loop is None or not self._loop.is_running() or self._loop is _running():
            other = f"use ainvoke, or make it with {self._name}.open(url)"
            raise InvalidInputError(f"this {self._name} has a store for asynchronous code: {other}")
        return asyncio.run_coroutine_threadsafe(work(keeper), self._loop).result()

    async def arun(self, work: Callable[[K], Coroutine[Any, Any, T]]) -> T:
        """Do something for an asynchronous caller."""
        if self._in_memory() or (self._async is None and not self._url):
            return await self._in_thread(work)
        keeper = await self._for_async()
        self._loop = self._loop or _running()
        return await work(keeper)

    def _in_memory(self) -> bool:
        return self._url.startswith("memory:")

    async def _in_thread(self, work: Callable[[K], Coroutine[Any, Any, T]]) -> T:
        keeper, store = self._for_sync()
        drive_in_turn = inside(store)[1]
        if _is_memory(keeper.parts.storage):
            return drive_in_turn(work(keeper))
        return await asyncio.to_thread(drive_in_turn, work(keeper))

    async def _for_async(self) -> K:
        with self._lock:
            if self._async is None:
                store = Perdure.open(self._url, **self._options)
                self._owned.append(store)
                self._async = self._kept(store), store
        return self._async[0]

    def close(self) -> None:
        """Close what was opened here; a store that was given stays open."""
        for store in self._owned:
            if isinstance(store, sync.Perdure):
                store.close()
            else:
                drive(parts_of(store).storage.close())
        self._owned.clear()

    async def aclose(self) -> None:
        """Close what was opened here, from asynchronous code."""
        for store in self._owned:
            if isinstance(store, sync.Perdure):
                store.close()
            else:
                await store.close()
        self._owned.clear()


class Closing:
    """What a saver and a long-term store have in common: the end."""

    _sides: Sides[Any]

    def close(self) -> None:
        """Close the store if it was opened by this one; a second call does nothing."""
        self._sides.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._sides.aclose()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _is_memory(storage: Storage) -> bool:
    return isinstance(storage, BoundedStorage) and isinstance(storage.inner, MemoryStorage)
