"""What a check works at: databases that can be opened again, and one way to call a saver, whichever face it offers."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

FaceName = Literal["sync", "async"]


class NotOffered(Exception):
    """The saver does not offer what a check is about; the text says what."""


def _nothing() -> None: ...


@dataclass(frozen=True, kw_only=True)
class Database:
    """One database of one kind of saver. Only `open` is needed; what is missing is reported as not offered."""

    open: Callable[..., AbstractAsyncContextManager[Any]]
    """`open()` or `open(serde=…)`: another saver object on the same data, each time."""
    again: tuple[str, ...] | None = None
    """`("module:function", *texts)`: called with the texts in another process, it gives this same database."""
    stored: Callable[[], bytes] | None = None
    """Everything that is at rest, as bytes."""
    size: Callable[[], int] | None = None
    """How many bytes the data takes at rest."""
    clear: Callable[[], None] = _nothing
    """Called once everything is closed."""


Make = Callable[[], Database]


class Face:
    """A saver, called through its synchronous or its asynchronous methods."""

    def __init__(self, saver: Any, name: FaceName) -> None:
        self.saver = saver
        self.name: FaceName = name

    async def call(self, method: str, *args: Any, **named: Any) -> Any:
        if self.name == "async":
            return await getattr(self.saver, f"a{method}")(*args, **named)
        return await asyncio.to_thread(getattr(self.saver, method), *args, **named)

    async def put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        return await self.call("put", config, checkpoint, metadata, versions)

    async def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await self.call("put_writes", config, writes, task_id, task_path)

    async def get(self, config: Any) -> Any:
        return await self.call("get_tuple", config)

    async def delete(self, thread: str) -> None:
        await self.call("delete_thread", thread)

    async def history(self, config: Any, channels: list[str]) -> Any:
        return await self.call("get_delta_channel_history", config=config, channels=channels)

    async def list(self, config: Any = None, **given: Any) -> list[Any]:
        if self.name == "async":
            return [each async for each in self.saver.alist(config, **given)]
        return await asyncio.to_thread(lambda: list(self.saver.list(config, **given)))

    async def invoke(self, graph: Any, given: Any, config: Any, **named: Any) -> Any:
        if self.name == "async":
            return await graph.ainvoke(given, config, **named)
        return await asyncio.to_thread(graph.invoke, given, config, **named)

    async def state(self, graph: Any, config: Any) -> Any:
        if self.name == "async":
            return await graph.aget_state(config)
        return await asyncio.to_thread(graph.get_state, config)


async def faces_of(saver: Any) -> frozenset[FaceName]:
    """The faces that answer at all: LangGraph's way of not offering one is to raise `NotImplementedError`."""
    nobody = {"configurable": {"thread_id": "nobody", "checkpoint_ns": ""}}
    offered: set[FaceName] = set()
    for name in ("sync", "async"):
        with contextlib.suppress(NotImplementedError):
            await Face(saver, name).get(nobody)
            offered.add(name)
    return frozenset(offered)


async def face_of(saver: Any) -> Face:
    """The asynchronous face, or the synchronous one of a saver that has only that."""
    offered = await faces_of(saver)
    if not offered:
        raise NotOffered("neither get_tuple nor aget_tuple is implemented")
    return Face(saver, "async" if "async" in offered else "sync")


class Bench:
    """Databases of the saver under examination, and names that were not used before."""

    def __init__(self, make: Make) -> None:
        self._make, self._made = make, list[Database]()
        self._numbers = itertools.count(1)

    @property
    def shared(self) -> Database:
        """The database that checks share; they keep to threads of their own."""
        return self._made[0] if self._made else self.empty()

    def empty(self) -> Database:
        """A database of the check's own, with nothing in it."""
        self._made.append(self._make())
        return self._made[-1]

    def thread(self) -> str:
        return f"thread-{next(self._numbers)}"

    @asynccontextmanager
    async def saver(self, database: Database | None = None, **options: Any) -> AsyncIterator[Face]:
        """Another saver object, on the shared database unless one is given."""
        async with (database or self.shared).open(**options) as saver:
            yield await face_of(saver)

    @asynccontextmanager
    async def both_faces(self) -> AsyncIterator[tuple[Face, Face]]:
        """The synchronous and the asynchronous face of one saver object."""
        async with self.shared.open() as saver:
            missing = {"sync", "async"} - await faces_of(saver)
            if missing:
                raise NotOffered(f"no {missing.pop()} methods")
            yield Face(saver, "sync"), Face(saver, "async")

    def clear(self) -> None:
        while self._made:
            self._made.pop().clear()
