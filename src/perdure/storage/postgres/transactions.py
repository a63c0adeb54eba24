"""Transactions on a lent connection."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from perdure.core.errors import StorageError, StorageUnavailableError
from perdure.core.ports import Telemetry
from perdure.storage.baton import Baton
from perdure.storage.ports import check_usable
from perdure.storage.postgres.dialect import SERVER_NOW
from perdure.storage.postgres.errors import UNPREPARED, is_of_driver, refuses_login, sqlstate, translated, words
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.ports import Pool
from perdure.storage.postgres.wires import Wire
from perdure.storage.sql.retrying import Asking, Outage
from perdure.storage.sql.rows import Row
from perdure.storage.sql.schema import TABLES
from perdure.storage.sql.server_time import ServerTime
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.transactions import CommitUnknown, Job, ServerGone, T

_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_DISK = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c WHERE c.relkind = 'r' AND "


class PostgresTransaction:
    """An open transaction, or a connection for questions that need none."""

    __slots__ = ("_clock", "_schema", "_wire", "rows", "run", "sql")

    def __init__(self, wire: Wire, sql: Statements, schema: str, clock: ServerTime | None) -> None:
        self.sql = sql
        self.rows = wire.rows
        self.run = wire.run
        self._wire = wire
        self._schema = schema
        self._clock = clock  # None: the caller's counts

    async def fill(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        await self._wire.fill(self._schema, table, columns, rows)

    async def moment(self, given: int) -> int:
        if self._clock is None:
            return given
        asked = time.monotonic()
        now: int = (await self._wire.rows(f"SELECT {SERVER_NOW}"))[0][0]
        self._clock.hear(now, asked)
        return now


class PostgresPort:
    """Runs transactions on connections of a pool. There is no lock around it."""

    def __init__(
        self, pool: Pool, place: str, sql: Statements, options: Options, baton: Baton | None, telemetry: Telemetry
    ) -> None:
        self.place = place
        self.sql = sql
        self._reached = False  # whether the server has ever been there
        self.time = ServerTime() if options.server_time else None
        self._pool = pool
        self._options = options
        self._baton = baton
        self._pid = os.getpid()
        self._closed = False
        self._lent_now = 0
        self._outage = Outage(place, telemetry)

    async def write(self, job: Job[T]) -> T:
        return await self._lent(lambda wire: self._transaction(wire, job, _WRITE))

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        if alone:
            return await self._lent(lambda wire: job(self._on(wire)))
        return await self._lent(lambda wire: self._transaction(wire, job, _READ))

    async def glance(self, job: Job[T]) -> T:
        return await self.read(job, alone=True)

    async def unhurried(self, job: Job[T]) -> T:
        """A job alone whose statements may take longer than `call_timeout`: they work through whole tables."""

        async def slowly(wire: Wire) -> T:
            wire.allow(None)
            try:
                return await job(self._on(wire))
            finally:
                wire.allow(self._options.call_timeout)

        return await self._lent(slowly)

    def save(self, statement: Callable[[], tuple[str, Row]]) -> Awaitable[list[Row]]:
        """Run one statement that is its own transaction; it is made once there is a connection for it.

        One that was made before would bear a time of then: after a long wait for a connection the server refuses it.
        """
        return self._lent(lambda wire: wire.rows(*statement()), self._in_doubt)

    def _on(self, wire: Wire) -> PostgresTransaction:
        return PostgresTransaction(wire, self.sql, self._options.schema, self.time)

    async def _transaction(self, wire: Wire, job: Job[T], begin: str) -> T:
        await wire.run(begin)
        try:
            value = await job(self._on(wire))
        except Exception:
            with suppress(Exception):
                await wire.run("ROLLBACK")
            raise
        try:
            await wire.run("COMMIT")
        except Exception as exc:
            raise self._in_doubt(exc, value) from exc
        return value

    def _in_doubt(self, exc: BaseException, value: Any = None) -> BaseException:
        """A connection that is lost during a commit leaves open whether it was made."""
        if not is_of_driver(exc):
            return exc  # of the values, or a fault of ours: no row was read
        error = translated(self.place, exc)
        return CommitUnknown(self.place, error.reason, value) if isinstance(error, ServerGone) else error

    async def _lent(
        self, use: Callable[[Wire], Awaitable[T]], blamed: Callable[[BaseException], BaseException] | None = None
    ) -> T:
        check_usable(self.place, self._pid, self._closed)
        with Asking(self._baton, self._outage):
            wire = self._pool.at_hand() or await self._get()
            self._lent_now += 1
            self._reached = True
            try:
                return await use(wire)
            except Exception as exc:
                await self._note(wire, exc)
                raise (blamed or self._told)(exc) from exc
            except BaseException:
                with suppress(Exception):
                    await wire.discard()  # cancelled halfway: what it would answer next is anybody's guess
                raise
            finally:
                self._lent_now -= 1
                back = self._pool.keep(wire)
                if back is not None:
                    await self._pool.put(back)

    async def _note(self, wire: Wire, exc: Exception) -> None:
        """After an error: a pooler that mixes up prepared statements is not given any more of them.

        Where one connection is lost the others probably are, too: a server that hangs would be waited for on each.
        """
        cause = exc.__cause__ if isinstance(exc, StorageError) and exc.__cause__ else exc
        if sqlstate(cause) in UNPREPARED:
            self._pool.prepare = False
        gone = isinstance(translated(self.place, exc), (ServerGone, CommitUnknown))
        if gone or self._pool.prepare is False:
            with suppress(Exception):
                await wire.discard()
        if gone:
            with suppress(Exception):
                await self._pool.distrust()

    def _told(self, exc: BaseException) -> BaseException:
        return translated(self.place, exc)

    async def _get(self) -> Wire:
        """A connection, within the time that the options allow."""
        ends = time.monotonic() + self._options.pool_timeout
        while True:
            left = ends - time.monotonic()
            try:
                return await self._pool.get(max(left, 0.01))
            except Exception as exc:
                check_usable(self.place, self._pid, self._closed)
                if not self._reached and refuses_login(exc):  # later on, a password may just be rotating
                    raise StorageUnavailableError(self.place, words(exc)) from exc
                if type(exc).__name__ not in ("PoolTimeout", "TimeoutError"):
                    raise self._told(exc) from exc
                if left <= 0 or not self._lent_now:
                    raise self._nothing_free() from exc

    def _nothing_free(self) -> StorageError:
        """All connections are lent and stay so, or none can be made: the server is not there."""
        waited, most, refused = self._options.pool_timeout, self._options.pool_max, self._pool.refusals.newest
        if self._lent_now:
            return ServerGone(self.place, f"no connection became free within {waited} s (pool_max={most})")
        return ServerGone(self.place, words(refused) if refused else "the server does not answer")

    async def pause(self, seconds: float) -> None:
        await self._pool.pause(seconds)

    async def compact(self) -> None:
        for table in TABLES:
            text = f"VACUUM (FULL) {self.sql.dialect.table(table)}"
            await self.unhurried(lambda tx, text=text: tx.run(text))

    async def disk_bytes(self) -> int:
        tables = f"{_DISK}c.relnamespace = '\"{self._options.schema}\"'::regnamespace"
        return (await self.read(lambda tx: tx.rows(tables), alone=True))[0][0]

    async def close(self) -> None:
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        self._closed = True
        await self._pool.close()
