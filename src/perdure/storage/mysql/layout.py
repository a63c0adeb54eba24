"""Making and upgrading the layout where no transaction can: every statement of it commits by itself.

One process at a time does it, under a lock of the server that ends with its connection. A statement that finds its work
done goes on, and the numbers are written last: whoever dies halfway leaves the rest to the next.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress

from perdure.core.errors import NotAStorageError
from perdure.storage.contract import Schema
from perdure.storage.mysql.dialect import COLLATIONS, UserIdType
from perdure.storage.mysql.literals import spelled
from perdure.storage.sql import setup
from perdure.storage.sql.dialect import Dialect
from perdure.storage.sql.schema import SchemaStep, run_step
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.transactions import Transaction, TryAgain
from perdure.storage.steps import steps_after

_PATIENCE = 30  # seconds that a process waits while another one does it
_SESSION = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,NO_ENGINE_SUBSTITUTION'"
_INDEX = re.compile(r"CREATE (?P<kind>INDEX|UNIQUE INDEX) (?P<name>\w+) ON (?P<table>\w+) (?P<columns>.+)")
_COLUMN = re.compile(r"ALTER TABLE (?P<table>\w+) ADD COLUMN (?P<name>\w+) ")
_HAS_COLUMN = """SELECT 1 FROM information_schema.columns
WHERE table_schema = database() AND table_name = ? AND column_name = ? LIMIT 1"""
_HAS_INDEX = """SELECT 1 FROM information_schema.statistics
WHERE table_schema = database() AND table_name = ? AND index_name = ? LIMIT 1"""


class Layout:
    """The tables of one database."""

    def __init__(
        self,
        place: str,
        database: str,
        sql: Statements,
        users: UserIdType,
        call_timeout: float | None,
        steps: Sequence[SchemaStep],
    ) -> None:
        self._place = place
        self._sql = sql
        self._users = users
        self._steps = steps
        # The server has to answer before a call is given up, or waiting for the other process looked like an outage.
        self._patience = _PATIENCE if call_timeout is None else min(_PATIENCE, int(call_timeout / 2))
        # Names of locks belong to the whole server, and are short.
        self._lock = "perdure " + hashlib.sha256(database.encode()).hexdigest()[:40]

    async def found(self, tx: Transaction) -> Schema | None:
        """The layout that is there, if it is whole."""
        for (collation,) in await tx.rows(tx.sql.HAS_META):
            if collation not in COLLATIONS:
                reason = f"its tables compare texts by {collation}, which takes different ids for the same"
                raise NotAStorageError(self._place, f"{reason}; needed is one of {', '.join(COLLATIONS)}")
            numbers = {name for name, _ in await tx.rows(tx.sql.META)}
            return await setup.schema_of(tx) if "schema" in numbers else None
        return None

    async def upgrade(self, tx: Transaction) -> Schema:
        """Do what is missing. Of several processes one does it: the others wait, and find it done."""
        if (await tx.rows("SELECT GET_LOCK(?, ?)", (self._lock, self._patience)))[0][0] != 1:
            raise TryAgain(self._place, f"another process has been making its layout for {self._patience} s")
        try:
            upgraded = await self._upgraded(tx)
        except Exception:
            with suppress(Exception):
                await self._let_go(tx)
            raise
        await self._let_go(tx)
        return upgraded

    async def _let_go(self, tx: Transaction) -> None:
        await tx.rows("ROLLBACK; SELECT RELEASE_LOCK(?)", (self._lock,))

    async def _upgraded(self, tx: Transaction) -> Schema:
        found = await self.found(tx)
        for step in steps_after(self._steps, found):
            changes, marks = _parts(step, self._sql.dialect)
            for number, change in enumerate(changes):
                await self._do(tx, change)
                if number == 0:  # before there is a column for users: nobody must go on with another type
                    await self._keep_users(tx)
            await tx.run("; ".join(("START TRANSACTION", *marks, "COMMIT")))
            found = step.schema
        return found or self._steps[-1].schema

    async def _do(self, tx: Transaction, change: str) -> None:
        for kind, has in ((_INDEX, _HAS_INDEX), (_COLUMN, _HAS_COLUMN)):
            made = kind.match(change)
            if made is not None and await tx.rows(has, (made["table"], made["name"])):
                return
        await tx.run(change.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1))

    async def _keep_users(self, tx: Transaction) -> None:
        await tx.run(tx.sql.KEEP, ("user_id_type", self._users))
        await self.check_users(tx)

    async def check_users(self, tx: Transaction) -> None:
        """Raise when it was made for user ids of another type."""
        for (kind,) in await tx.rows(tx.sql.META_VALUE, ("user_id_type",)):
            if kind != self._users:
                reason = f"it was made with user_id_type={kind!r} and opened with {self._users!r}"
                raise NotAStorageError(self._place, reason)

    def script(self) -> Sequence[str]:
        """The statements for an empty database, as the client of the server takes them."""
        users = spelled(self._sql.KEEP, ("user_id_type", self._users)).decode()
        script = [_SESSION]
        for step in self._steps:
            changes, marks = _parts(step, self._sql.dialect)
            script += [*changes, "START TRANSACTION", users, *marks, "COMMIT"]
        return script


def _parts(step: SchemaStep, dialect: Dialect) -> tuple[list[str], list[str]]:
    """The changes of a step, and the statements that write its numbers. A new table comes with its indexes."""
    changes: list[str] = []
    *given, forget, remember = run_step(step, dialect)
    for text in given:
        index = _INDEX.match(text)
        table = f"CREATE TABLE {index['table']} (" if index else None
        made = next((at for at, change in enumerate(changes) if table and change.startswith(table)), None)
        if index is None or made is None:
            changes.append(text)
        else:
            columns, closing, rest = changes[made].rpartition("\n)")
            changes[made] = f"{columns},\n  {index['kind']} {index['name']} {index['columns']}{closing}{rest}"
    return changes, [forget, remember]
