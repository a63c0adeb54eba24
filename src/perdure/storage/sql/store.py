"""The storage contract on a SQL database: each method is one transaction of its port."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.threads import Lease, ThreadQuery, ThreadRow
from perdure.core.writes import (
    Appended,
    Restored,
    RowChange,
    Sizes,
    Snapshot,
    Write,
    claimed,
    lease_of,
    released,
    renewed,
)
from perdure.storage.sql import reading, writing
from perdure.storage.sql.rows import StoredThread
from perdure.storage.sql.transactions import SqlPort

_KNOWN = 10_000  # directory lines remembered; each is checked by the database before it is built on


class SqlStorage:
    """Everything of the contract but `setup`, `migration` and `close`, which belong to each database."""

    def __init__(self, port: SqlPort) -> None:
        self._port = port
        self._known: dict[ThreadKey, StoredThread] = {}

    async def append(self, write: Write) -> Appended:
        known = self._known.get(write.key)
        appended, number = await self._port.write(lambda tx: writing.append(tx, write, known))
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[write.key] = StoredThread(number, appended.row)
        return appended

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        return await self._port.read(lambda tx: reading.restore(tx, key, at, after))

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        return await self._port.read(lambda tx: reading.entries(tx, key, after, limit, kinds))

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        return await self._port.read(lambda tx: reading.headers(tx, key, at, until, kinds, limit))

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        return await self._port.write(lambda tx: writing.put_snapshot(tx, key, uid, snapshot))

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        await self._port.write(lambda tx: writing.drop_snapshot(tx, key, version))

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._port.read(lambda tx: reading.checkpoints(tx, key, query))

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._port.read(lambda tx: reading.user_checkpoints(tx, namespace, user, query))

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        return await self._port.read(lambda tx: reading.checkpoint(tx, namespace, user, checkpoint_id))

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        stored = await self._port.read(lambda tx: reading.thread(tx, key))
        return stored.row if stored else None

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        return await self._port.read(lambda tx: reading.find(tx, namespace, thread_id))

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        return await self._port.read(lambda tx: reading.threads(tx, query))

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        return await self._port.write(lambda tx: writing.fork(tx, source, version, target))

    async def delete(self, key: ThreadKey) -> bool:
        return await self._port.write(lambda tx: writing.delete(tx, key))

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        return lease_of(await self._change(key, lambda row: claimed(row, owner, until, now, take_from)))

    async def renew(self, key: ThreadKey, epoch: int, *, until: int) -> Lease:
        return lease_of(await self._change(key, lambda row: renewed(row, epoch, until)))

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        await self._change(key, lambda row: released(row, epoch, wake_at))

    async def _change(self, key: ThreadKey, change: RowChange) -> ThreadRow:
        return await self._port.write(lambda tx: writing.change_line(tx, key, change))

    async def due(self, namespace: str, now: int, limit: int = 100) -> list[ThreadRow]:
        return await self._port.read(lambda tx: reading.due(tx, namespace, now, limit))

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._port.read(lambda tx: reading.blobs(tx, writing.scope_of(key), digests))

    async def sweep_blobs(self, now: int) -> int:
        return await self._port.write(lambda tx: writing.sweep_blobs(tx, now))

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        disk = await self._port.disk_bytes()
        return await self._port.read(lambda tx: reading.sizes(tx, key, disk))
