"""The storage contract on a SQL database: each method is one transaction of its port."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.derived import Derived
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies
from perdure.core.pruning import Record, WholeLog
from perdure.core.seams import Seams
from perdure.core.threads import ANY_STATUS, Lease, ThreadQuery, ThreadRow, Which
from perdure.core.transfer import ThreadCopy, check
from perdure.core.verification import Damage
from perdure.core.writes import (
    Appended,
    Restored,
    Sizes,
    Snapshot,
    Write,
    claimed,
    lease_of,
    released,
    renewed,
)
from perdure.storage.contract import NEVER, Leftovers
from perdure.storage.sql import doubts, finding, history, indexes, messages, reading, transfers, writing
from perdure.storage.sql.rows import StoredThread, scope_of
from perdure.storage.sql.transactions import Job, Runner, SqlPort, Transaction
from perdure.storage.sql.writing import LineChange

T = TypeVar("T")
_KNOWN = 10_000  # directory lines remembered; each is checked by the database before it is built on


class SqlStorage(ABC):
    """Everything of the contract but `setup`, `migration` and `watch`, which belong to each database."""

    reuses_room = True
    packs_from = packs_records_from = NEVER

    def __init__(self, port: SqlPort, run: Runner) -> None:
        self._port = port
        self._run = run
        self._known: dict[ThreadKey, StoredThread] = {}

    @abstractmethod
    async def append(self, write: Write) -> Appended: ...

    def _remember(self, key: ThreadKey, stored: StoredThread) -> None:
        """The line as it was seen last: a write that builds on it needs no look first."""
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[key] = stored

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        return await self._run.glance(lambda tx: history.keyed(tx, key, idem_key))

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        return await self._run.read(lambda tx: history.under(tx, key, prefix))

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        found = None
        if at is None and after is not None:
            found = await self._run.glance(lambda tx: history.since(tx, key, after))
        if found is None:
            found = await self._run.read(lambda tx: history.restore(tx, key, at, after))
        if found is None:
            return None
        self._remember(key, found[0])
        return found[1]

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        return await self._run.read(lambda tx: history.entries(tx, key, after, limit, kinds))

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        return await self._run.read(lambda tx: reading.log(tx, key, after, kinds, checkpoints))

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        return await self._run.read(lambda tx: history.headers(tx, key, at, until, kinds, limit))

    async def seams(self, key: ThreadKey) -> Seams:
        return await self._run.read(lambda tx: history.seams(tx, key), alone=True)

    async def records(self, key: ThreadKey) -> list[Record]:
        return await self._run.read(lambda tx: history.records(tx, key))

    async def forks(self, key: ThreadKey) -> list[int]:
        return await self._run.read(lambda tx: history.forks(tx, key))

    async def derived(self, key: ThreadKey) -> Derived | None:
        return await self._run.read(lambda tx: indexes.derived(tx, key))

    async def reindex(self, seen: ThreadRow, made: Derived) -> bool:
        self._known.pop(seen.key, None)
        return await self._run.write(lambda tx: indexes.reindex(tx, seen, made))

    async def strays(self) -> dict[str, int]:
        return await self._run.read(reading.strays, alone=True)

    @abstractmethod
    async def integrity(self) -> list[str]: ...

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        return await self._run.write(lambda tx: writing.put_snapshot(tx, key, uid, snapshot))

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        await self._run.write(lambda tx: writing.drop_snapshot(tx, key, version))

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._run.read(lambda tx: reading.checkpoints(tx, key, query))

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._run.read(lambda tx: reading.user_checkpoints(tx, namespace, user, query), alone=True)

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        return await self._run.read(lambda tx: reading.checkpoint(tx, namespace, user, checkpoint_id), alone=True)

    async def projection(self, key: ThreadKey) -> Projection | None:
        return await self._run.read(lambda tx: messages.projection(tx, key), alone=True)

    async def project(self, made: Projected) -> bool:
        # One whose answer was lost finds itself read on to elsewhere: False, and the caller looks again.
        return await self._run.write(lambda tx: messages.project(tx, made))

    async def unprojected(self, owner: Owner, limit: int = 100) -> list[ThreadRow]:
        return await self._run.read(lambda tx: messages.unprojected(tx, owner, limit), alone=True)

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        return await self._run.read(lambda tx: finding.messages(tx, of, query), alone=True)

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        return await self._run.read(lambda tx: finding.current(tx, of, query), alone=True)

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        return await self._run.read(lambda tx: finding.tally(tx, of, query))

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        stored = await self._run.glance(lambda tx: history.row(tx, key))
        if stored is None:
            return None
        self._remember(key, stored)
        return stored.row

    async def line(self, uid: str) -> ThreadRow | None:
        return await self._run.glance(lambda tx: reading.line(tx, uid))

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        return await self._run.glance(lambda tx: reading.find(tx, namespace, thread_id))

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        return await self._run.read(lambda tx: reading.threads(tx, query), alone=True)

    async def namespaces(self) -> list[str]:
        return await self._run.read(reading.namespaces, alone=True)

    async def damaged(self) -> list[Damage]:
        return await self._run.read(reading.damaged, alone=True)

    async def mend(self, key: ThreadKey) -> list[str]:
        return []

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        return await self._run.write(lambda tx: writing.fork(tx, source, version, target))

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        check(copy)
        return await self._run.write(lambda tx: transfers.put_thread(tx, copy))

    async def delete(self, key: ThreadKey) -> bool:
        uid = await self._run.write(lambda tx: writing.delete(tx, key), lambda tx, uid: doubts.is_gone(tx, key, uid))
        return uid is not None

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        def change(row: ThreadRow, late: int) -> ThreadRow:
            return claimed(row, owner, until + late, now + late, take_from)

        return lease_of(await self._change(key, now, change))

    async def renew(self, key: ThreadKey, epoch: int, *, until: int, now: int) -> Lease:
        def change(row: ThreadRow, late: int) -> ThreadRow:
            return renewed(row, epoch, until + late)

        after = await self._run.write(lambda tx: writing.change_line(tx, key, now, change))
        known = self._known.get(key)
        if known is not None and (known.row.uid, known.row.head) == (after.uid, after.head):
            self._remember(key, StoredThread(known.number, after))  # the next write of the run builds on it
        return lease_of(after)

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        await self._change(key, 0, lambda row, _: released(row, epoch, wake_at))
        self._known.pop(key, None)  # a run that waits for a person costs no memory here

    async def _change(self, key: ThreadKey, now: int, change: LineChange) -> ThreadRow:
        async def job(tx: Transaction) -> ThreadRow:
            after = await writing.change_line(tx, key, now, change)
            if after.lease_owner is None:
                await self._announce(tx, key.namespace)
            return after

        return await self._run.write(job, lambda tx, after: doubts.line_changed(tx, key, after))

    async def _announce(self, tx: Transaction, namespace: str) -> None:  # noqa: B027  # most have nothing to do
        """Wake those who wait for this namespace when the transaction commits, where the database can."""

    async def due(
        self, namespace: str, now: int, limit: int = 100, agents: Sequence[str] | None = None, *, ahead: int = 0,
        which: Which = ANY_STATUS,
    ) -> list[ThreadRow]:  # fmt: skip
        return await self._run.read(lambda tx: reading.due(tx, namespace, now, limit, agents, ahead, which), alone=True)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._run.read(lambda tx: reading.blobs(tx, scope_of(key), digests), alone=True)

    async def sweep_blobs(self, now: int) -> int:
        return await self._run.write(lambda tx: writing.sweep_blobs(tx, now))

    async def sweep_user(self, namespace: str, user: str) -> Leftovers:
        return await self._run.write(lambda tx: writing.sweep_user(tx, namespace, user))

    async def keep(self, name: str, value: bytes) -> bytes:
        return await self._run.write(lambda tx: writing.keep(tx, name, value))

    async def kept(self, prefix: str) -> dict[str, bytes]:
        return await self._run.read(lambda tx: reading.kept(tx, prefix))

    async def discard(self, name: str) -> bool:
        return await self._run.write(lambda tx: writing.discard(tx, name))

    async def change_views(self, job: Job[T]) -> T:
        """Change the SQL views, which can be made again, in one transaction."""
        return await self._run.write(job)

    async def read_views(self, job: Job[T]) -> T:
        """Look at the SQL views."""
        return await self._run.read(job)

    async def compact(self) -> int:
        before = await self._run.patiently(self._port.disk_bytes)
        await self._run.patiently(self._port.compact)
        return max(before - await self._run.patiently(self._port.disk_bytes), 0)

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        disk = await self._run.patiently(self._port.disk_bytes)
        return await self._run.read(lambda tx: reading.sizes(tx, key, disk))

    async def close(self) -> None:
        await self._port.close()
