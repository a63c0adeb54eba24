"""Where connections come from: a pool of psycopg's for each kind of caller, or the caller's own pool."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from perdure.core.errors import InvalidInputError, MissingExtraError
from perdure.storage.ports import pause_in_place, pause_on_loop
from perdure.storage.postgres.options import Options, connection_arguments
from perdure.storage.postgres.wires import AsyncpgWire, AsyncPsycopgWire, PsycopgWire, Wire

_LENT_FOR = 600.0  # seconds after which a connection goes back to its pool, which may replace it
_ATTEMPT = 1.0  # a pool that has nothing to lend is asked again after this long, so that it tries to connect anew


class Pool(Protocol):
    """Lends connections."""

    prepare: bool

    async def get(self, seconds: float) -> Wire: ...

    async def put(self, wire: Any) -> None: ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


def pool_for(url: str, mode: str, options: Options) -> Pool:
    """The pool that fits the caller; raise for one that cannot serve it."""
    if options.pool is None:
        return InPlacePool(url, options) if mode == "sync" else LoopPool(url, options)
    kind = type(options.pool).__module__.partition(".")[0]
    waits = hasattr(options.pool, "getconn") and inspect.iscoroutinefunction(options.pool.getconn)
    if kind == "asyncpg":
        return _asyncpg(options, mode)
    if kind != "psycopg_pool":
        raise InvalidInputError(f"pool must be a psycopg or asyncpg pool, not {options.pool!r}")
    if waits != (mode == "async"):
        wanted = "AsyncConnectionPool" if mode == "async" else "ConnectionPool"
        raise InvalidInputError(f"pool must be a psycopg_pool.{wanted} here, not {type(options.pool).__name__}")
    return GivenLoopPool(options) if waits else GivenInPlacePool(options)


def _asyncpg(options: Options, mode: str) -> Pool:
    if mode == "sync":
        raise InvalidInputError(
            "an asyncpg pool cannot serve synchronous calls; give the address instead: "
            'perdure.sync.Perdure.open("postgresql://…") (postgres_dsn= of PgCheckpointer)'
        )
    return AsyncpgPool(options)


def _connection_options(url: str) -> dict[str, Any]:
    return {"autocommit": True, **connection_arguments(url)}


def driver() -> Any:
    """psycopg and its pool; raise `MissingExtraError` where they are not installed."""
    try:
        import psycopg
        import psycopg_pool  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as exc:
        raise MissingExtraError("postgresql://", "postgres") from exc
    return psycopg


class GivenInPlacePool:
    """A `ConnectionPool` of psycopg, used in place."""

    def __init__(self, options: Options, pool: Any = None) -> None:
        self.prepare = options.prepare
        self._pool = pool if pool is not None else options.pool
        self._closes = options.close_pool

    async def get(self, seconds: float) -> PsycopgWire:
        connection = self._pool.getconn(min(seconds, _ATTEMPT))
        borrowed = not connection.autocommit
        if borrowed:
            connection.autocommit = True
        return PsycopgWire(connection, self.prepare, borrowed)

    async def put(self, wire: PsycopgWire) -> None:
        if wire.borrowed:
            with suppress(Exception):  # a connection that is broken goes back as it is
                wire.connection.autocommit = False
        self._pool.putconn(wire.connection)

    async def pause(self, seconds: float) -> None:
        await pause_in_place(seconds)

    async def close(self) -> None:
        if self._closes:
            self._pool.close()


class InPlacePool(GivenInPlacePool):
    """A pool of our own for synchronous callers; opened by the first call, which is told the server's own words."""

    def __init__(self, url: str, options: Options) -> None:
        psycopg = driver()
        from psycopg_pool import ConnectionPool

        def arguments() -> dict[str, Any]:
            fixed = _connection_options(url)
            return fixed | ({"password": options.password()} if options.password else {})

        pool = ConnectionPool(url, kwargs=arguments, **_pool_options(options))
        super().__init__(options, pool)
        self._connect = lambda: psycopg.connect(url, **arguments())
        self._closes = True
        self._kept = Kept()

    async def get(self, seconds: float) -> PsycopgWire:
        kept = self._kept.take()
        if kept is not None:
            return kept
        if self._pool.closed:
            self._connect().close()
            self._pool.open()
        with self._kept.waiting():
            return self._kept.take() or await super().get(seconds)

    async def put(self, wire: PsycopgWire) -> None:
        for back in self._kept.put(wire):
            await super().put(back)

    async def close(self) -> None:
        for wire in self._kept.give_up():
            await super().put(wire)
        await super().close()


class Kept:
    """Connections that stay lent between two calls: a pool's own bookkeeping costs as much as a small statement.

    Whoever waits for the pool is served first, and a connection goes back from time to time to be looked after.
    """

    def __init__(self) -> None:
        self._wires: list[Any] = []
        self._waiting: list[None] = []  # counted by its length: adding and removing are atomic between threads

    def take(self) -> Any:
        """A connection that is kept, if there is one."""
        try:
            return self._wires.pop()
        except IndexError:
            return None

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Tell others that somebody waits for the pool."""
        self._waiting.append(None)
        try:
            yield
        finally:
            self._waiting.pop()

    def put(self, wire: Any) -> list[Any]:
        """Keep a connection; returns those that have to go back to the pool."""
        if not wire.is_idle() or wire.age() > _LENT_FOR:
            return [wire]
        self._wires.append(wire)
        return [back] if self._waiting and (back := self.take()) is not None else []

    def give_up(self) -> list[Any]:
        """All that are kept."""
        wires, self._wires = self._wires, []
        return wires


class GivenLoopPool:
    """An `AsyncConnectionPool` of psycopg."""

    def __init__(self, options: Options) -> None:
        self.prepare = options.prepare
        self._given = options.pool
        self._closes = options.close_pool

    async def _pool(self) -> Any:
        return self._given

    async def get(self, seconds: float) -> AsyncPsycopgWire:
        connection = await (await self._pool()).getconn(min(seconds, _ATTEMPT))
        borrowed = not connection.autocommit
        if borrowed:
            await connection.set_autocommit(True)
        return AsyncPsycopgWire(connection, self.prepare, borrowed)

    async def put(self, wire: AsyncPsycopgWire) -> None:
        if wire.borrowed:
            with suppress(Exception):  # a connection that is broken goes back as it is
                await wire.connection.set_autocommit(False)
        await (await self._pool()).putconn(wire.connection)

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    async def close(self) -> None:
        if self._closes:
            await self._given.close()


class LoopPool(GivenLoopPool):
    """Pools of our own, one for each event loop that uses the storage."""

    def __init__(self, url: str, options: Options) -> None:
        super().__init__(options)
        self._psycopg = driver()
        self._url = url
        self._options = options
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Any]] = WeakKeyDictionary()
        self._connections: WeakSet[Any] = WeakSet()
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, Kept] = WeakKeyDictionary()

    async def get(self, seconds: float) -> AsyncPsycopgWire:
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop) or self._kept.setdefault(loop, Kept())
        wire = kept.take()
        if wire is not None:
            return wire
        with kept.waiting():
            return await super().get(seconds)

    async def put(self, wire: AsyncPsycopgWire) -> None:
        for back in self._kept[asyncio.get_running_loop()].put(wire):
            await super().put(back)

    async def _pool(self) -> Any:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            task = self._opening.get(loop)
            if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
                self._opening[loop] = task = loop.create_task(self._opened())
            self._pools[loop] = pool = await asyncio.shield(task)
        return pool

    async def _opened(self) -> Any:
        from psycopg_pool import AsyncConnectionPool

        connection = await self._psycopg.AsyncConnection.connect(self._url, **await self._arguments())
        await connection.close()
        pool = AsyncConnectionPool(
            self._url, kwargs=self._arguments, configure=self._remember, **_pool_options(self._options)
        )
        await pool.open()
        return pool

    async def _arguments(self) -> dict[str, Any]:
        return await _arguments(self._url, self._options)

    async def _remember(self, connection: Any) -> None:
        self._connections.add(connection)

    async def close(self) -> None:
        loop = _running_loop()
        pool = self._pools.get(loop) if loop is not None else None
        if loop is not None and pool is not None:
            for wire in self._kept.pop(loop, Kept()).give_up():
                await super().put(wire)
            del self._pools[loop]
            await pool.close()
        for connection in list(self._connections):
            with suppress(Exception):  # of a loop that is gone: the socket is all that is left to close
                connection.pgconn.finish()


async def _arguments(url: str, options: Options) -> dict[str, Any]:
    fixed = _connection_options(url)
    if options.password is None:
        return fixed
    password = options.password()
    return fixed | {"password": password if isinstance(password, str) else await password}


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _pool_options(options: Options) -> dict[str, Any]:
    return {
        "open": False,
        "min_size": options.pool_min,
        "max_size": options.pool_max,
        "timeout": options.pool_timeout,
        "reconnect_timeout": _ATTEMPT / 2,  # who waits asks again: nobody waits for a back-off that grows
        "num_workers": 2,
        "name": "perdure",
    }


class AsyncpgPool:
    """A pool of asyncpg that the caller made."""

    prepare = True

    def __init__(self, options: Options) -> None:
        self._pool = options.pool
        self._closes = options.close_pool

    async def get(self, seconds: float) -> AsyncpgWire:
        return AsyncpgWire(await self._pool.acquire(timeout=seconds))

    async def put(self, wire: AsyncpgWire) -> None:
        await self._pool.release(wire.connection)

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    async def close(self) -> None:
        if self._closes:
            await self._pool.close()


def listener(url: str, mode: str, options: Options, channel: str) -> InPlaceEar | LoopEar:
    """A connection of its own that listens on a channel."""
    return InPlaceEar(url, options, channel) if mode == "sync" else LoopEar(url, options, channel)


class InPlaceEar:
    """Listens in place."""

    def __init__(self, url: str, options: Options, channel: str) -> None:
        self._url, self._options, self._channel = url, options, channel
        self._connection: Any = None

    async def open(self) -> None:
        """Connect, and begin to listen."""
        secret = {"password": self._options.password()} if self._options.password else {}
        arguments = _connection_options(self._url) | secret
        self._connection = driver().connect(self._url, **arguments)
        self._connection.execute(f'LISTEN "{self._channel}"')

    async def hears(self, namespace: str, seconds: float) -> bool:
        """Whether somebody told of this namespace within so many seconds."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            for note in self._connection.notifies(timeout=left, stop_after=1):
                if note.payload == namespace:
                    return True
        return False

    async def close(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.close()


class LoopEar:
    """Listens on an event loop."""

    def __init__(self, url: str, options: Options, channel: str) -> None:
        self._url, self._options, self._channel = url, options, channel
        self._connection: Any = None

    async def open(self) -> None:
        """Connect, and begin to listen."""
        arguments = await _arguments(self._url, self._options)
        self._connection = await driver().AsyncConnection.connect(self._url, **arguments)
        await self._connection.execute(f'LISTEN "{self._channel}"')

    async def hears(self, namespace: str, seconds: float) -> bool:
        """Whether somebody told of this namespace within so many seconds."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            async for note in self._connection.notifies(timeout=left, stop_after=1):
                if note.payload == namespace:
                    return True
        return False

    async def close(self) -> None:
        """Stop listening; without an event loop the socket is all there is to close."""
        if self._connection is None:
            return
        if _running_loop() is None:
            self._connection.pgconn.finish()
        else:
            await self._connection.close()
