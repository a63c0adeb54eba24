"""The PostgreSQL storage: opening, set-up, and the save in one statement."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from perdure.core.errors import NotAStorageError, StorageDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Silence, Telemetry
from perdure.core.writes import Appended, Snapshot, Write, wakes
from perdure.storage.baton import Baton
from perdure.storage.contract import Migrate, Schema, Watch
from perdure.storage.postgres.dialect import dialect
from perdure.storage.postgres.integrity import CHECKS
from perdure.storage.postgres.options import Options, check, place_of
from perdure.storage.postgres.ports import pool_for
from perdure.storage.postgres.save_statement import MOST, SaveStatement, Saving
from perdure.storage.postgres.snapshots import Snapshots
from perdure.storage.postgres.transactions import PostgresPort
from perdure.storage.postgres.watching import Announcer, Listening
from perdure.storage.sql import setup
from perdure.storage.sql.rows import Row, StoredThread
from perdure.storage.sql.schema import STEPS, SchemaStep, run_step
from perdure.storage.sql.server_store import ServerStorage
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.writing import Answer, append_slowly
from perdure.storage.steps import complete, usable

Mode = Literal["sync", "async"]
_ANY_TEXT = ("UTF8", "SQL_ASCII")  # encodings of databases that keep whatever is sent


class PostgresStorage(ServerStorage):
    """Tables in a schema of their own; any number of processes and hosts may share them."""

    reuses_room = False  # dead rows stay until a vacuum
    packs_from = packs_records_from = 0
    _port: PostgresPort

    def __init__(
        self,
        url: str,
        options: Options | None = None,
        *,
        mode: Mode,
        baton: Baton | None = None,
        telemetry: Telemetry | None = None,
        steps: Sequence[SchemaStep] = STEPS,
    ) -> None:
        self._options = check(options or Options())
        self._steps = steps
        self._sql = Statements(dialect(self._options.schema, self._options.user_id_type))
        place = place_of(url, self._options.schema)
        pool, told = pool_for(url, mode, self._options), telemetry or Silence()
        port = PostgresPort(pool, place, self._sql, self._options, baton, told)
        super().__init__(port, port.time, retry_seconds=self._options.retry_seconds)
        self._save_statement = SaveStatement(self._sql, port.time)
        self._snapshots = Snapshots(self._sql)
        self._announcer = Announcer(self._options.schema)
        self._listening = Listening(url, mode, self._options, told)

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        place = self._port.place
        found = complete(place, await self._run.read(setup.schema_of), self._steps, migrate)
        found = found or usable(place, await self._run.write(self._upgrade), self._steps)
        await self._run.read(self._check_users, alone=True)
        return found

    async def _upgrade(self, tx: Transaction) -> Schema:
        """Of several processes one does it: the others wait for the lock and find it done."""
        await tx.rows("SELECT pg_advisory_xact_lock($1)::text", (self._lock_number(),))
        await self._check_encoding(tx)
        if not await tx.rows("SELECT 1 FROM pg_namespace WHERE nspname = $1::text", (self._options.schema,)):
            await tx.run(self._make_schema())
        upgraded = await setup.upgrade(tx, self._steps)
        await tx.run(tx.sql.KEEP, ("user_id_type", self._options.user_id_type))
        return upgraded

    async def _check_encoding(self, tx: Transaction) -> None:
        ((encoding,),) = await tx.rows("SELECT current_setting('server_encoding')")
        if encoding not in _ANY_TEXT:
            told = f"its encoding is {encoding}, which cannot keep every text: CREATE DATABASE … ENCODING 'UTF8'"
            raise NotAStorageError(self._port.place, told)

    def _make_schema(self) -> str:
        return f'CREATE SCHEMA "{self._options.schema}"'

    def _lock_number(self) -> int:
        name = f"perdure {self._options.schema}".encode()
        return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)

    async def _check_users(self, tx: Transaction) -> None:
        for (kind,) in await tx.rows(tx.sql.META_VALUE, ("user_id_type",)):
            if kind != self._options.user_id_type:
                asked = self._options.user_id_type
                raise NotAStorageError(
                    self._port.place, f"it was made with user_id_type={kind!r} and opened with {asked!r}"
                )

    async def integrity(self) -> list[str]:
        found: list[str] = []
        for asked in await self._run.read(self._amcheck, alone=True):
            try:
                rows = await self._run.read(lambda tx, asked=asked: tx.rows(asked), alone=True)
            except StorageDamagedError as exc:
                rows = [(exc.reason,)]
            found += [told for (told,) in rows if told]
        return found

    async def _amcheck(self, tx: Transaction) -> list[str]:
        """One statement for each table and index, where amcheck is installed and may be used."""
        schema = (self._options.schema,)
        return [text for (text,) in await tx.rows(CHECKS, schema)]

    def migration(self) -> Sequence[str]:
        meta, kind = self._sql.dialect.table("meta"), self._options.user_id_type
        kept = f"INSERT INTO {meta} (name, value) VALUES ('user_id_type', '{kind}')"  # noqa: S608  # words of ours
        first, *others = [run_step(step, self._sql.dialect) for step in self._steps]
        steps = [[self._make_schema(), *first, kept], *others]
        return [text for step in steps for text in ("BEGIN", *step, "COMMIT")]

    def compacting(self) -> str:
        return "readers and writers of a table wait while it is written anew (VACUUM FULL, ACCESS EXCLUSIVE)"

    def watch(self, namespace: str) -> Watch:
        return self._listening.watch(namespace, self._port.pause)

    def _fits(self, write: Write) -> bool:
        # Many entries make a long text, and who waits for a write is told within its transaction.
        return super()._fits(write) and not write.patches and len(write.entries) <= MOST and not wakes(write)

    async def _save(self, write: Write, known: StoredThread) -> Appended | None:
        sent: Saving | None = None

        def statement() -> tuple[str, Row]:
            nonlocal sent
            sent = self._save_statement.build(write, known)
            return sent.text, sent.values

        rows = await self._port.save(statement)
        if rows and sent is not None:
            return sent.answer
        if self._time is not None:
            self._time.doubt()
        return None

    async def _step_by_step(self, tx: Transaction, write: Write) -> Answer:
        answer = await append_slowly(tx, write)
        if wakes(write):
            await self._announce(tx, write.key.namespace)
        return answer

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        if snapshot.base or snapshot.blobs:
            return await super().put_snapshot(key, uid, snapshot)
        values = self._snapshots.put_values(key, uid, snapshot)
        return bool((await self._statement(self._snapshots.put, values))[0][0])

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        forked = await self._statement(self._snapshots.drop, (bytes.fromhex(key.digest()), version))
        if forked[0][0]:
            await super().drop_snapshot(key, version)

    async def _statement(self, text: str, values: Row) -> list[Row]:
        """A statement that may be run twice; its transaction is its own."""
        return await self._run.read(lambda tx: tx.rows(text, values), alone=True)

    async def _announce(self, tx: Transaction, namespace: str) -> None:
        await self._announcer.announce(tx, namespace)

    async def close(self) -> None:
        await self._listening.close()
        await super().close()
