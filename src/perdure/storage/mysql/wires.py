"""One connection, whichever driver it is of: a text of statements goes out, all their results come back."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, Protocol

from perdure.core.extras import check_releases, missing
from perdure.storage.mysql.address import Address
from perdure.storage.mysql.errors import TooLargeError, cause, in_step, of_connecting, of_driver
from perdure.storage.ports import loop_limit
from perdure.storage.sql.retrying import no_answer
from perdure.storage.sql.rows import Row
from perdure.storage.sql.transactions import ServerGone

_SESSION = b"""SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1,
  innodb_lock_wait_timeout = 5, sql_notes = 0, completion_type = 'NO_CHAIN';
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT @@max_allowed_packet, version()"""
_MULTI_STATEMENTS = 1 << 16
_DECIMALS = (0, 246)  # types of columns; ours are whole numbers
# A host that is gone without a word is noticed within half a minute.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}


class Result(NamedTuple):
    """What one statement gave."""

    rows: list[Row]
    changed: int


class Wire(Protocol):
    """A connection that is lent for one transaction."""

    lost: bool  # nobody knows what it would answer next
    compounds: bool  # whether its server takes several statements as one
    permit: Any  # what its borrower was let have it by, where that is counted

    async def ask(self, text: bytes) -> list[Result]:
        """Run the statements of a text and return the result of each; those after one that fails are not run.

        Errors are in our words: `ServerGone` when the connection was lost, whether or not the server got the text.
        """
        ...

    def allow(self, seconds: float | None) -> None:
        """Let every answer from now on take so long; None is for ever."""
        ...

    def close(self) -> None:
        """Take leave of the server, if it still listens, and close the socket; never waits."""
        ...


class _Wire:
    """What both drivers have in common."""

    def __init__(self, raw: Any, cursor: Any, place: str) -> None:
        self.lost = self.compounds = False
        self.permit: Any = None
        self._raw = raw
        self._cursor = cursor
        self._place = place
        self._most = 1 << 20  # bytes that the server takes at once

    def know_server(self, most: int, version: str) -> None:
        self._most = most
        self.compounds = "MariaDB" in version

    def _check_size(self, text: bytes) -> None:
        """Refuse here what the server would answer by hanging up, halfway through the text."""
        if len(text) >= self._most:
            raise TooLargeError(self._place, f"a write of {len(text):,} bytes, the server takes {self._most:,}")

    def _failed(self, exc: BaseException) -> BaseException:
        self.lost = not in_step(exc)
        return of_driver(self._place, exc)


class InPlaceWire(_Wire):
    """A connection of PyMySQL, used in place: its coroutines never wait."""

    async def ask(self, text: bytes) -> list[Result]:
        self._check_size(text)
        raw = self._raw
        try:
            raw.query(text)  # around the cursor, which keeps more of every result than there is in it
            results = [_of(raw._result)]
            while raw._result.has_next:
                raw.next_result()
                results.append(_of(raw._result))
        except BaseException as exc:
            told = self._failed(exc)
            raise told from cause(told, exc)
        return results

    def allow(self, seconds: float | None) -> None:
        self._raw._read_timeout = self._raw._write_timeout = seconds

    def close(self) -> None:
        with suppress(Exception):
            self._raw.close()


class LoopWire(_Wire):
    """A connection of asyncmy, for an event loop."""

    def __init__(self, raw: Any, cursor: Any, place: str, seconds: float | None) -> None:
        super().__init__(raw, cursor, place)
        self._seconds = seconds
        self._transport: Any = _transport(raw)

    async def ask(self, text: bytes) -> list[Result]:
        self._check_size(text)
        try:
            async with loop_limit(self._seconds):
                return await self._results(text)
        except TimeoutError as exc:
            self.lost = True
            raise ServerGone(self._place, no_answer(self._seconds)) from exc
        except BaseException as exc:
            told = self._failed(exc)
            raise told from cause(told, exc)

    async def _results(self, text: bytes) -> list[Result]:
        cursor = self._cursor
        await cursor.execute(text)
        results = [_result(cursor, await cursor.fetchall())]
        while await cursor.nextset():
            results.append(_result(cursor, await cursor.fetchall()))
        return results

    def allow(self, seconds: float | None) -> None:
        self._seconds = seconds

    def close(self) -> None:
        if self.lost and self._transport is not None:
            # Closed politely, it would first wait until a server that hangs has read all that was sent.
            self._transport.abort()
        leaving = self._raw.ensure_closed()
        with suppress(Exception):
            leaving.send(None)  # says farewell and closes; what is left is to wait until the loop has done it
        leaving.close()


def _of(result: Any) -> Result:
    return Result(list(result.rows or ()), result.affected_rows)


def _result(cursor: Any, rows: Any) -> Result:
    return Result(list(rows), cursor.rowcount)


def in_place_driver() -> Any:
    """PyMySQL; raise `MissingExtraError` where it is not installed."""
    try:
        import pymysql
    except ImportError as exc:
        raise missing("mysql://", "mysql") from exc
    check_releases("mysql://", "mysql")
    return pymysql


def loop_driver() -> Any:
    """asyncmy; raise `MissingExtraError` where it is not installed."""
    try:
        import asyncmy
        import asyncmy.converters  # pyright: ignore[reportUnusedImport]
    except ImportError as exc:
        raise missing("mysql://", "mysql") from exc
    check_releases("mysql://", "mysql")
    return asyncmy


async def connect_in_place(
    driver: Any, address: Address, password: str, seconds: float, call_timeout: float | None
) -> Wire:
    """A connection of PyMySQL; the whole way to it takes at most about so many seconds for each step."""
    encrypted = address.ssl_context()
    try:
        raw = driver.connect(
            **_arguments(driver, address, password),
            client_flag=_MULTI_STATEMENTS,
            connect_timeout=seconds,
            read_timeout=seconds,
            write_timeout=seconds,
            ssl=encrypted,
            ssl_disabled=encrypted is None,
        )
    except Exception as exc:
        raise of_connecting(address.place, exc) from exc
    _keep_alive(raw._sock)
    wire = InPlaceWire(raw, None, address.place)
    await _greeted(wire)
    wire.allow(call_timeout)  # from here on a statement may take its time
    return wire


async def connect_on_loop(
    driver: Any, address: Address, password: str, seconds: float, call_timeout: float | None
) -> Wire:
    """A connection of asyncmy; whoever calls it bounds the time."""
    encrypted = address.ssl_context()
    try:
        raw = await driver.connect(**_arguments(driver, address, password), connect_timeout=seconds, ssl=encrypted)
    except Exception as exc:
        raise of_connecting(address.place, exc) from exc
    transport = _transport(raw)
    _keep_alive(transport.get_extra_info("socket") if transport is not None else None)
    wire = LoopWire(raw, raw.cursor(_quiet_cursor(driver)), address.place, call_timeout)
    await _greeted(wire)
    return wire


def _transport(raw: Any) -> Any:
    """What asyncmy sends and receives with; older ones have a writer around it."""
    return getattr(raw, "_transport", None) or getattr(getattr(raw, "_writer", None), "transport", None)


@cache
def _quiet_cursor(driver: Any) -> Any:
    class QuietCursor(driver.cursors.Cursor):
        async def _show_warnings(self, conn: Any) -> None:
            """asyncmy would ask for them, a round trip of its own, and log them: ours are about newer syntax."""

    return QuietCursor


async def _greeted(wire: InPlaceWire | LoopWire) -> None:
    """Make the session what all others are."""
    try:
        wire.know_server(*(await wire.ask(_SESSION))[-1].rows[0])
    except BaseException:
        wire.close()
        raise


def _arguments(driver: Any, address: Address, password: str) -> dict[str, Any]:
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user or None,
        "password": password.encode(),
        "database": address.database,
        "unix_socket": address.options.get("unix_socket"),
        "charset": "utf8mb4",
        "autocommit": True,
        "conv": {**driver.converters.conversions, **dict.fromkeys(_DECIMALS, int)},
        "program_name": "perdure",
    }


def _keep_alive(link: Any) -> None:
    if link is None or link.family == getattr(socket, "AF_UNIX", None):
        return
    for name, value in _KEEPALIVE.items():
        with suppress(AttributeError, OSError):  # not every system has them all
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
