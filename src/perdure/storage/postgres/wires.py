"""One connection, whichever driver it is of: rows and counts, nothing else."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from perdure.storage.ports import loop_limit, renew
from perdure.storage.postgres.limits import limit, unlimit
from perdure.storage.postgres.naming import name_apart
from perdure.storage.sql.retrying import no_answer
from perdure.storage.sql.rows import Row

_IDLE = 0  # libpq's PQTRANS_IDLE


class Lender(NamedTuple):
    """Whose connection it is."""

    seconds: float | None  # how long it may take to answer
    borrowed: bool = False  # its owner wants it back without autocommit


class Wire(Protocol):
    """A connection that is lent for one transaction."""

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return all its rows."""
        ...

    async def run(self, sql: str, values: Row = ()) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    async def fill(self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Add many rows by COPY."""
        ...

    def allow(self, seconds: float | None) -> None:
        """Let every answer from now on take so long; None is for ever."""
        ...

    async def discard(self) -> None:
        """Close the connection: nobody knows what state it is in."""
        ...


class _Psycopg:
    """What both kinds of connections of psycopg have."""

    def __init__(self, connection: Any, cursor: Any, prepare: bool, lender: Lender) -> None:
        from psycopg.rows import tuple_row

        self.connection = connection
        self.borrowed = lender.borrowed
        self._seconds = lender.seconds
        self._prepare = None if prepare else False  # None: what is asked for again and again
        if self._prepare is None:
            name_apart(connection)
        self._cursor: Any = cursor(connection, row_factory=tuple_row)
        self._since = time.monotonic()

    def allow(self, seconds: float | None) -> None:
        """Let every answer from now on take so long; None is for ever."""
        unlimit(self.connection)
        limit(self.connection, seconds)
        self._seconds = seconds

    def is_idle(self) -> bool:
        """Whether it is in working order and in no transaction."""
        return self.connection.pgconn.transaction_status == _IDLE

    def stays(self, seconds: float) -> bool:
        """Whether it may be used again as it is: in working order, and taken from its pool no longer ago than that."""
        return self.connection.pgconn.transaction_status == _IDLE and time.monotonic() - self._since <= seconds


class PsycopgWire(_Psycopg):
    """A connection of psycopg, used in place: its coroutines never wait."""

    def __init__(self, connection: Any, prepare: bool, lender: Lender) -> None:
        from psycopg import RawCursor

        super().__init__(connection, RawCursor, prepare, lender)

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        return self._cursor.execute(sql, values, prepare=self._prepare, binary=True).fetchall()

    async def run(self, sql: str, values: Row = ()) -> int:
        return self._cursor.execute(sql, values or None, prepare=self._prepare).rowcount

    async def fill(self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        from psycopg import RawCursor

        with _for_copying(RawCursor(self.connection)).copy(_copy(schema, table, columns)) as copy:
            for row in rows:
                copy.write_row(row)

    async def discard(self) -> None:
        self.connection.close()


class AsyncPsycopgWire(_Psycopg):
    """A connection of psycopg for an event loop."""

    def __init__(self, connection: Any, prepare: bool, lender: Lender) -> None:
        from psycopg import AsyncRawCursor

        super().__init__(connection, AsyncRawCursor, prepare, lender)

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        await self._cursor.execute(sql, values, prepare=self._prepare, binary=True)
        return await self._cursor.fetchall()

    async def run(self, sql: str, values: Row = ()) -> int:
        await self._cursor.execute(sql, values or None, prepare=self._prepare)
        return self._cursor.rowcount

    async def fill(self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        from psycopg import AsyncRawCursor

        async with _for_copying(AsyncRawCursor(self.connection)).copy(_copy(schema, table, columns)) as copy:
            for row in rows:
                await copy.write_row(row)

    async def discard(self) -> None:
        await self.connection.close()


class AsyncpgWire:
    """A connection of asyncpg, from a pool that the caller made."""

    def __init__(self, connection: Any, seconds: float | None) -> None:
        self.connection = connection
        self._seconds = seconds

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        found = await self._answer(self.connection.fetch(sql, *values, timeout=self._seconds))
        return [tuple(record) for record in found]

    async def run(self, sql: str, values: Row = ()) -> int:
        said = await self._answer(self.connection.execute(sql, *values, timeout=self._seconds))
        told = said.rpartition(" ")[2]
        return int(told) if told.isdigit() else -1

    async def fill(self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        await self._answer(self._filled(schema, table, columns, rows))

    async def _filled(self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """The time is that of a row, not of them all: it begins anew whenever the server has room for the next."""
        async with loop_limit(self._seconds) as waiting:
            records = rows if self._seconds is None else _renewing(waiting, self._seconds, rows)
            await self.connection.copy_records_to_table(table, schema_name=schema, columns=columns, records=records)

    def allow(self, seconds: float | None) -> None:
        self._seconds = seconds

    async def _answer(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except TimeoutError as exc:
            await self.discard()  # at once, so that not even a ROLLBACK waits for it again
            raise TimeoutError(no_answer(self._seconds)) from exc

    async def discard(self) -> None:
        self.connection.terminate()


def _renewing(waiting: Any, seconds: float, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        renew(waiting, seconds)
        yield row


def _copy(schema: str, table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f'COPY "{schema}"."{table}" ({names}) FROM STDIN (FORMAT BINARY)'


def _for_copying(cursor: Any) -> Any:
    """A cursor that sends every number in eight bytes, as all our columns have it: COPY converts nothing."""
    from psycopg.types.numeric import Int8BinaryDumper

    cursor.adapters.register_dumper(int, Int8BinaryDumper)
    return cursor
