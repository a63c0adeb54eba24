"""Transactions on a lent connection."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from perdure.core.ports import Telemetry
from perdure.storage.baton import Baton
from perdure.storage.mysql.dialect import DISK_BYTES, SERVER_NOW
from perdure.storage.mysql.errors import cause, of_job
from perdure.storage.mysql.literals import spelled
from perdure.storage.mysql.ports import Pool
from perdure.storage.mysql.wires import Result, Wire
from perdure.storage.ports import check_usable
from perdure.storage.sql.filling import fill_in_batches
from perdure.storage.sql.retrying import Asking, Outage, Retrying
from perdure.storage.sql.rows import Row
from perdure.storage.sql.schema import TABLES
from perdure.storage.sql.server_time import ServerTime
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.transactions import CommitUnknown, Job, ServerGone, T

_WRITE = b"START TRANSACTION;"
_READ = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;"
_NOTHING = b""  # each question stands for itself
_INHERITED: list[Pool] = []


class MysqlTransaction:
    """A transaction that begins with its first statement, in one round trip with it."""

    __slots__ = ("_begin", "_begun", "_time", "_wire", "sql")

    def __init__(self, wire: Wire, sql: Statements, begin: bytes, time: ServerTime | None) -> None:
        self.sql = sql
        self._wire = wire
        self._begin = begin
        self._begun = False
        self._time = time  # None: the caller's counts

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        return (await self._ask(sql, values)).rows

    async def run(self, sql: str, values: Row = ()) -> int:
        return (await self._ask(sql, values)).changed

    async def fill(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        await fill_in_batches(self, table, columns, rows)

    async def moment(self, given: int) -> int:
        if self._time is None:
            return given
        asked = monotonic()
        now: int = (await self.rows(f"SELECT {SERVER_NOW}"))[0][0]
        self._time.hear(now, asked)
        return now

    async def _ask(self, sql: str, values: Row) -> Result:
        text = spelled(sql, values)
        if self._begin and not self._begun:
            self._begun = True
            text = self._begin + text
        return (await self._wire.ask(text))[-1]

    async def commit(self) -> None:
        """Make it durable. `ServerGone` leaves open whether it is."""
        if self._begun:
            await self._wire.ask(b"COMMIT")

    async def roll_back(self) -> None:
        """Undo it; a server that is gone has done so."""
        if self._begun and not self._wire.lost:
            with suppress(Exception):
                await self._wire.ask(b"ROLLBACK")


class MysqlPort:
    """Runs transactions on connections of a pool. There is no lock around it."""

    def __init__(
        self,
        pool: Pool,
        place: str,
        sql: Statements,
        *,
        server_time: bool,
        retry_seconds: float,
        call_timeout: float | None,
        baton: Baton | None,
        telemetry: Telemetry,
    ) -> None:
        self.place = place
        self.sql = sql
        self.time = ServerTime()
        self._pool = pool
        self._server_time = server_time
        self._call_timeout = call_timeout
        self._retrying = Retrying(self, retry_seconds)
        self._baton = baton
        self._outage = Outage(place, telemetry)
        self._pid = os.getpid()
        self._closed = False

    async def write(self, job: Job[T]) -> T:
        return await self._lent(lambda wire: self._transaction(wire, job, _WRITE))

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        return await self._lent(lambda wire: self._transaction(wire, job, _NOTHING if alone else _READ))

    async def glance(self, job: Job[T]) -> T:
        return await self.read(job, alone=True)

    async def unhurried(self, job: Job[T]) -> T:
        """A job alone whose statements may take longer than `call_timeout`: they work through whole tables."""

        async def slowly(wire: Wire) -> T:
            wire.allow(None)
            try:
                return await self._transaction(wire, job, _NOTHING)
            finally:
                wire.allow(self._call_timeout)

        return await self._lent(slowly)

    async def save(self, statements: Callable[[], Sequence[bytes]], *, results: bool = True) -> list[Result]:
        """Run statements as a whole transaction, in one round trip; they are made once there is a connection for them.

        Where nobody wants to be told the result of each, they are one statement to a server that knows such: with
        each answer it would wake us for nothing.
        """

        async def whole(wire: Wire) -> list[Result]:
            text = b"; ".join((b"START TRANSACTION", *statements(), b"COMMIT"))
            try:
                return await wire.ask(text if results or not wire.compounds else b"BEGIN NOT ATOMIC %b; END" % text)
            except Exception as exc:
                if not wire.lost:
                    await wire.ask(b"ROLLBACK")
                told = self._in_doubt(exc, None)
                raise told from cause(told, exc)

        return await self._lent(whole)

    async def _transaction(self, wire: Wire, job: Job[T], begin: bytes) -> T:
        transaction = MysqlTransaction(wire, self.sql, begin, self.time if self._server_time else None)
        try:
            value = await job(transaction)
        except Exception:
            await transaction.roll_back()
            raise
        try:
            await transaction.commit()
        except Exception as exc:
            await transaction.roll_back()
            told = self._in_doubt(exc, value)
            raise told from cause(told, exc)
        return value

    def _in_doubt(self, exc: Exception, value: Any) -> Exception:
        """A connection that is lost during a commit leaves open whether it was made."""
        return CommitUnknown(self.place, exc.reason, value) if isinstance(exc, ServerGone) else exc

    async def _lent(self, use: Callable[[Wire], Awaitable[T]]) -> T:
        check_usable(self.place, self._pid, self._closed)
        with Asking(self._baton, self._outage):
            wire = await self._pool.take()
            try:
                return await use(wire)
            except Exception as exc:
                told = of_job(self.place, exc)
                raise told from cause(told, exc)
            except BaseException:
                wire.lost = True  # cancelled halfway: what it would answer next is anybody's guess
                raise
            finally:
                self._pool.give(wire)

    def distrust(self) -> None:
        """Connect anew from here on."""
        self._pool.distrust()

    async def pause(self, seconds: float) -> None:
        await self._pool.pause(seconds)

    async def compact(self) -> None:
        for table in TABLES:
            text = f"OPTIMIZE TABLE {self.sql.dialect.table(table)}"
            await self.unhurried(lambda tx, text=text: tx.rows(text))

    async def disk_bytes(self) -> int:
        return (await self._retrying.read(lambda tx: tx.rows(DISK_BYTES), alone=True))[0][0]

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pid == os.getpid():
            self._pool.close()
        else:
            _INHERITED.append(self._pool)  # its sockets are the parent's: a farewell from here would end its sessions
