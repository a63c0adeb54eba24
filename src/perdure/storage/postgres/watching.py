"""Waking those who wait: NOTIFY with the transaction, LISTEN on a connection of its own, or a poll."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from perdure.core.ports import Telemetry
from perdure.storage.contract import Watch
from perdure.storage.ports import Pause, PollingWatch
from perdure.storage.postgres.ears import listener
from perdure.storage.postgres.options import Options
from perdure.storage.sql.transactions import Transaction

_PATIENCE = 5.0  # a notification that a pooler swallowed is made up for by a look after this long


def channel(schema: str) -> str:
    """The name under which a schema announces."""
    return f"perdure_{schema}"


class Announcer:
    """Tells waiters, when the transaction commits."""

    def __init__(self, schema: str) -> None:
        self._channel = channel(schema)

    async def announce(self, tx: Transaction, namespace: str) -> None:
        """Tell those who wait for this namespace."""
        await tx.rows("SELECT pg_notify($1::text, $2::text)::text", (self._channel, namespace))


class Listening:
    """Makes watches, and closes those that are left."""

    def __init__(self, url: str, mode: str, options: Options, telemetry: Telemetry) -> None:
        self._url = url
        self._mode = mode
        self._options = options
        self._telemetry = telemetry
        self._watches: WeakSet[NotifiedWatch] = WeakSet()

    def watch(self, namespace: str, pause: Pause) -> Watch:
        """A watch by LISTEN, or by polling where only a pool of the caller's is known."""
        if self._options.pool is not None:
            return PollingWatch(pause)
        watch = NotifiedWatch(self, namespace, PollingWatch(pause))
        self._watches.add(watch)
        return watch

    def connect(self) -> Any:
        """A connection that listens; not yet open."""
        return listener(self._url, self._mode, self._options, channel(self._options.schema))

    def tell(self, reason: BaseException) -> None:
        """Somebody should know that waiting is slower now."""
        self._telemetry.log("warning", "LISTEN is not available, polling instead", error=str(reason))
        self._telemetry.count("perdure.postgres.polling")

    async def close(self) -> None:
        """Close every watch."""
        for watch in list(self._watches):
            await watch.close()


class NotifiedWatch:
    """Hears NOTIFY. The first wait only starts to listen and says "look": nothing committed before is missed."""

    def __init__(self, listening: Listening, namespace: str, polling: PollingWatch) -> None:
        self._listening = listening
        self._namespace = namespace
        self._polling = polling
        self._ear: Any = None
        self._closed = False

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # the contract's
        if self._closed:
            return False
        try:
            return await self._heard(timeout)
        except Exception as exc:  # the server went away: look, and listen again at the next wait
            await self._let_go()
            self._listening.tell(exc)
            return await self._polling.wait(timeout)

    async def _heard(self, timeout: float) -> bool:  # noqa: ASYNC109
        if self._ear is None:
            self._ear = self._listening.connect()
            await self._ear.open()
            return True
        heard = await self._ear.hears(self._namespace, min(timeout, _PATIENCE))
        return heard or (timeout > _PATIENCE and not self._closed)

    async def _let_go(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            await ear.close()

    async def close(self) -> None:
        self._closed = True
        await self._let_go()
