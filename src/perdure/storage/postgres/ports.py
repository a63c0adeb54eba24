"""Where connections come from: a pool of psycopg's for each kind of caller, or the caller's own pool."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from perdure.core.errors import InvalidInputError, InvalidUrlError
from perdure.core.extras import check_releases, missing
from perdure.storage.ports import pause_in_place, pause_on_loop
from perdure.storage.postgres.kept import Kept, Lent, apart
from perdure.storage.postgres.limits import limit, unlimit
from perdure.storage.postgres.options import CONNECTING, Options, connection_arguments
from perdure.storage.postgres.refusals import Refusals, connections_in_place, connections_on_loop
from perdure.storage.postgres.wires import AsyncpgWire, AsyncPsycopgWire, Lender, PsycopgWire, Wire

_UNHEARD = logging.NullHandler()
_ATTEMPT = 1.0  # a pool that has nothing to lend is asked again after this long, so that it tries to connect anew


class Pool(Protocol):
    """Lends connections."""

    prepare: bool
    refusals: Refusals

    def at_hand(self) -> Any:
        """A connection that is lent without a question, or None."""
        ...

    async def get(self, seconds: float) -> Wire: ...

    def keep(self, wire: Any) -> Any:
        """Keep a connection for the next call; returns one that has to be `put` back instead, or None."""
        ...

    async def put(self, wire: Any) -> None:
        """Give a connection back."""
        ...

    async def distrust(self) -> None:
        """Close the connections that nobody uses, if they are ours: the server they lead to may be gone."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


def pool_for(url: str, mode: str, options: Options) -> Pool:
    """The pool that fits the caller; raise for one that cannot serve it."""
    if options.pool is None:
        check_url(url)
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


def check_url(url: str) -> None:
    """Raise `InvalidUrlError` for an address that libpq cannot read: what it says itself may repeat the password."""
    psycopg = driver()
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise InvalidUrlError(url, "the driver cannot read it; percent-encode special characters") from None


def connection_options(url: str) -> dict[str, Any]:
    """What every connection of ours is made with, but for a password."""
    # A database without an encoding (SQL_ASCII) would give its texts as bytes.
    return {"autocommit": True, "client_encoding": "UTF8", **connection_arguments(url)}


def driver() -> Any:
    """psycopg and its pool; raise `MissingExtraError` where they are not installed."""
    try:
        import psycopg
        import psycopg_pool  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as exc:
        raise missing("postgresql://", "postgres") from exc
    check_releases("postgresql://", "postgres")
    return psycopg


class GivenInPlacePool:
    """A `ConnectionPool` of psycopg, used in place."""

    def __init__(self, options: Options) -> None:
        self.prepare = options.prepare
        self.refusals = Refusals()
        self._pool = options.pool
        self._closes = options.close_pool
        self._call_timeout = options.call_timeout

    def at_hand(self) -> Any:
        return None

    async def get(self, seconds: float) -> PsycopgWire:
        return self._get(seconds)

    def _get(self, seconds: float) -> PsycopgWire:
        connection = self._pool.getconn(min(seconds, _ATTEMPT))
        limit(connection, self._call_timeout)
        borrowed = not connection.autocommit
        if borrowed:
            connection.autocommit = True
        return PsycopgWire(connection, self.prepare, Lender(self._call_timeout, borrowed))

    def keep(self, wire: PsycopgWire) -> Any:
        return wire

    async def put(self, wire: PsycopgWire) -> None:
        self._put(wire)

    def _put(self, wire: PsycopgWire) -> None:
        if wire.borrowed:
            with suppress(Exception):  # a connection that is broken goes back as it is
                wire.connection.autocommit = False
        unlimit(wire.connection)
        self._pool.putconn(wire.connection)

    async def distrust(self) -> None: ...

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
            fixed = connection_options(url)
            return fixed | ({"password": options.password()} if options.password else {})

        super().__init__(options)
        heard = connections_in_place(psycopg.Connection, self.refusals)
        self._pool = ConnectionPool(url, kwargs=arguments, connection_class=heard, **_pool_options(options))
        self._connect = lambda: psycopg.connect(url, **arguments())
        self._closes = True
        self._closed = False
        self._kept = Kept()
        self._lent = Lent()

    def at_hand(self) -> Any:
        return self._kept.take()

    async def get(self, seconds: float) -> PsycopgWire:
        if self._pool.closed:
            self._connect().close()
            self._pool.open()
        with self._kept.waiting():
            return self._kept.take() or apart(lambda: self._borrow(seconds), self._give_back)

    def _borrow(self, seconds: float) -> PsycopgWire:
        while (connection := self._lent.dropped()) is not None:
            connection.close()  # nobody knows what it would answer next
            self._pool.putconn(connection)
        wire = self._get(seconds)
        self._lent.add(wire)
        return wire

    async def put(self, wire: PsycopgWire) -> None:
        apart(lambda: self._give_back(wire))

    def _give_back(self, wire: PsycopgWire) -> None:
        self._lent.remove(wire)
        self._put(wire)

    def keep(self, wire: PsycopgWire) -> Any:
        return wire if self._closed else self._kept.keep(wire)

    async def distrust(self) -> None:
        while (wire := self._kept.take()) is not None:
            await wire.discard()
            await self.put(wire)
        self._pool.drain()

    async def close(self) -> None:
        self._closed = True
        while (wire := self._kept.take()) is not None:
            await self.put(wire)
        await super().close()


class GivenLoopPool:
    """An `AsyncConnectionPool` of psycopg."""

    def __init__(self, options: Options) -> None:
        self.prepare = options.prepare
        self.refusals = Refusals()
        self._given = options.pool
        self._closes = options.close_pool
        self._call_timeout = options.call_timeout

    async def _pool(self) -> Any:
        return self._given

    def at_hand(self) -> Any:
        return None

    async def get(self, seconds: float) -> AsyncPsycopgWire:
        connection = await (await self._pool()).getconn(min(seconds, _ATTEMPT))
        limit(connection, self._call_timeout)
        borrowed = not connection.autocommit
        if borrowed:
            await connection.set_autocommit(True)
        return AsyncPsycopgWire(connection, self.prepare, Lender(self._call_timeout, borrowed))

    def keep(self, wire: AsyncPsycopgWire) -> Any:
        return wire

    async def put(self, wire: AsyncPsycopgWire) -> None:
        if wire.borrowed:
            with suppress(Exception):  # a connection that is broken goes back as it is
                await wire.connection.set_autocommit(False)
        unlimit(wire.connection)
        await (await self._pool()).putconn(wire.connection)

    async def distrust(self) -> None: ...

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
        self._connections: WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = WeakKeyDictionary()
        self._closed = False
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, Kept] = WeakKeyDictionary()

    def at_hand(self) -> Any:
        return self._kept_here().take()

    def _kept_here(self) -> Kept:
        loop = asyncio.get_running_loop()
        return self._kept.get(loop) or self._kept.setdefault(loop, Kept())

    async def get(self, seconds: float) -> AsyncPsycopgWire:
        with self._kept_here().waiting():
            return await super().get(seconds)

    def keep(self, wire: AsyncPsycopgWire) -> Any:
        return wire if self._closed else self._kept_here().keep(wire)

    async def distrust(self) -> None:
        kept = self._kept[asyncio.get_running_loop()]
        while (wire := kept.take()) is not None:
            await wire.discard()
            await self.put(wire)
        await (await self._pool()).drain()

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
        heard = connections_on_loop(self._psycopg.AsyncConnection, self.refusals)
        asked: dict[str, Any] = {"connection_class": heard, "configure": self._remember, **_pool_options(self._options)}
        pool = AsyncConnectionPool(self._url, kwargs=self._arguments, **asked)
        await pool.open()
        return pool

    async def _arguments(self) -> dict[str, Any]:
        return await secret_arguments(self._url, self._options)

    async def _remember(self, connection: Any) -> None:
        self._connections[connection] = asyncio.get_running_loop()

    async def close(self) -> None:
        self._closed = True
        loop = running_loop()
        pool = self._pools.get(loop) if loop is not None else None
        if loop is not None and pool is not None:
            kept = self._kept.pop(loop, Kept())
            while (wire := kept.take()) is not None:
                await self.put(wire)
            del self._pools[loop]
            await pool.close()
        for connection, loop in list(self._connections.items()):
            with suppress(Exception):  # it was closed already, as a rule
                _hang_up(connection.pgconn, loop)


def _hang_up(libpq: Any, loop: asyncio.AbstractEventLoop) -> None:
    """End a connection that somebody uses: on a loop that runs its user hears of it, and closes it.

    Closing it from here would leave that task waiting for a socket that is gone, or soon is somebody else's.
    """
    if not loop.is_running():
        return libpq.finish()
    with socket.socket(fileno=os.dup(libpq.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)


async def secret_arguments(url: str, options: Options) -> dict[str, Any]:
    """What a connection on an event loop is made with."""
    fixed = connection_options(url)
    if options.password is None:
        return fixed
    password = options.password()
    return fixed | {"password": password if isinstance(password, str) else await password}


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _pool_options(options: Options) -> dict[str, Any]:
    # Where nobody set up logging, Python prints warnings itself: a program's own stderr filled up during an outage,
    # which callers are told of anyway. Whoever sets up logging, before or after, reads them as ever.
    logging.getLogger("psycopg.pool").addHandler(_UNHEARD)
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
        self.refusals = Refusals()
        self._pool = options.pool
        self._closes = options.close_pool
        self._call_timeout = options.call_timeout

    def at_hand(self) -> Any:
        return None

    async def get(self, seconds: float) -> AsyncpgWire:
        connection = await self._pool.acquire(timeout=min(seconds, CONNECTING))
        return AsyncpgWire(connection, self._call_timeout)

    def keep(self, wire: AsyncpgWire) -> Any:
        return wire

    async def put(self, wire: AsyncpgWire) -> None:
        # asyncpg asks the server to reset the session. One that is gone by then has answered the call already: its
        # caller must not be told otherwise. The connection is closed.
        with suppress(Exception):
            await self._pool.release(wire.connection, timeout=CONNECTING)

    async def distrust(self) -> None: ...

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    async def close(self) -> None:
        if self._closes:
            await self._pool.close()
