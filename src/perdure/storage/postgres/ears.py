"""Connections of their own that hear NOTIFY, in place or on an event loop."""

from __future__ import annotations

import time
from typing import Any

from perdure.storage.baton import all_laid_down
from perdure.storage.postgres.limits import limit, unlimit
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.ports import connection_options, driver, running_loop, secret_arguments


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
        arguments = connection_options(self._url) | secret
        with all_laid_down():
            self._connection = driver().connect(self._url, **arguments)
            limit(self._connection, self._options.call_timeout)
            self._connection.execute(f'LISTEN "{self._channel}"')
        unlimit(self._connection)  # a server that has nothing to tell is not one that hangs

    async def hears(self, namespace: str, seconds: float) -> bool:
        """Whether somebody told of this namespace within so many seconds."""
        ends = time.monotonic() + seconds
        with all_laid_down():
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
        arguments = await secret_arguments(self._url, self._options)
        self._connection = await driver().AsyncConnection.connect(self._url, **arguments)
        limit(self._connection, self._options.call_timeout)
        await self._connection.execute(f'LISTEN "{self._channel}"')
        unlimit(self._connection)

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
        if running_loop() is None:
            self._connection.pgconn.finish()
        else:
            await self._connection.close()
