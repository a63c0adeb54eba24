"""The storage on MySQL and MariaDB: opening, set-up, and the save in one round trip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, cast

from perdure.core.errors import InvalidInputError
from perdure.core.ports import Silence, Telemetry
from perdure.core.writes import Appended, Write
from perdure.storage.baton import Baton
from perdure.storage.contract import Migrate, Schema, Watch
from perdure.storage.mysql.address import read_address
from perdure.storage.mysql.dialect import UserIdType, dialect
from perdure.storage.mysql.layout import Layout
from perdure.storage.mysql.ports import InPlacePool, LoopPool
from perdure.storage.mysql.save_text import MOST, SaveText
from perdure.storage.mysql.transactions import MysqlPort
from perdure.storage.ports import PollingWatch
from perdure.storage.sql.retrying import CALL_TIMEOUT, check_call_timeout
from perdure.storage.sql.rows import StoredThread
from perdure.storage.sql.schema import STEPS, TABLES, SchemaStep
from perdure.storage.sql.server_store import ServerStorage
from perdure.storage.sql.statements import Statements
from perdure.storage.steps import complete, usable

Mode = Literal["sync", "async"]


class MysqlStorage(ServerStorage):
    """Tables in one database of MariaDB (from 10.6) or MySQL (from 8.0.17); any number of hosts may share them.

    `server_time=False` has the caller's clock count, for tests. `password` is asked for every new connection and wins
    over the one in the address; for asynchronous callers it may return an awaitable. What else the address can say is
    in `perdure.storage.mysql.address`.
    """

    _port: MysqlPort

    def __init__(
        self,
        url: str,
        *,
        mode: Mode,
        server_time: bool = True,
        pool_max: int = 8,
        pool_timeout: float = 30.0,
        connect_timeout: float = 5.0,
        password: Callable[[], str] | Callable[[], Awaitable[str]] | None = None,
        retry_seconds: float = 10.0,
        call_timeout: float | None = CALL_TIMEOUT,
        user_id_type: UserIdType = "string",
        baton: Baton | None = None,
        telemetry: Telemetry | None = None,
        steps: Sequence[SchemaStep] = STEPS,
    ) -> None:
        _check(pool_max, password, user_id_type)
        check_call_timeout(call_timeout)
        address, told = read_address(url), telemetry or Silence()
        sql = Statements(dialect(user_id_type))
        pool = (InPlacePool if mode == "sync" else LoopPool)(
            address,
            most=pool_max,
            patience=pool_timeout,
            connect_timeout=connect_timeout,
            call_timeout=call_timeout,
            password=cast("Any", password),
            telemetry=told,
        )
        port = MysqlPort(
            pool, address.place, sql, server_time=server_time,
            retry_seconds=retry_seconds, call_timeout=call_timeout, baton=baton, telemetry=told,
        )  # fmt: skip
        super().__init__(port, port.time if server_time else None, retry_seconds=retry_seconds)
        self._steps = steps
        self._layout = Layout(address.place, address.database, sql, user_id_type, call_timeout, steps)
        self._text = SaveText(sql, port, server_time=server_time)

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        port = self._port
        port.distrust()  # whoever sets up again wants to know what the server says to somebody new
        found = complete(port.place, await self._run.read(self._layout.found, alone=True), self._steps, migrate)
        found = found or usable(port.place, await self._run.read(self._layout.upgrade, alone=True), self._steps)
        await self._run.read(self._layout.check_users, alone=True)
        return found

    async def integrity(self) -> list[str]:
        tables = ", ".join(self._port.sql.dialect.table(name) for name in TABLES)
        rows = await self._run.read(lambda tx: tx.rows(f"CHECK TABLE {tables}"), alone=True)
        return [f"{table}: {told}" for table, _, kind, told in rows if kind.lower() == "error" or _is_bad(kind, told)]

    def migration(self) -> Sequence[str]:
        return self._layout.script()

    def compacting(self) -> str:
        return "tables are written anew (OPTIMIZE TABLE); writers wait for a moment at its beginning and at its end"

    def watch(self, namespace: str) -> Watch:
        return PollingWatch(self._port.pause)

    def _fits(self, write: Write) -> bool:
        return super()._fits(write) and len(write.entries) <= MOST

    async def _save(self, write: Write, known: StoredThread) -> Appended | None:
        return await self._text.save(write, known)


def _is_bad(kind: str, told: str) -> bool:
    return kind == "status" and told not in ("OK", "Table is already up to date")


def _check(pool_max: int, password: object, user_id_type: str) -> None:
    if user_id_type not in ("string", "int", "bigint"):
        raise InvalidInputError(f'user_id_type must be "string", "int" or "bigint", not {user_id_type!r}')
    if pool_max < 1:
        raise InvalidInputError(f"pool_max must be 1 or more, not {pool_max}")
    if password is not None and not callable(password):
        raise InvalidInputError("password must be a function that returns the password")
