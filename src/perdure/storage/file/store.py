"""A folder of readable files that keeps the whole contract, for tests and small tools.

One thread's operations cost what they touch. Lists, `due`, `find` and `line` read the directory, a derived row for each
thread that every process keeps in memory (about 2 KB each): right for ten thousands of threads, not for a million.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from os.path import abspath
from posixpath import join
from typing import TypeVar

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.derived import Derived
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import DamagedError
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies
from perdure.core.ports import Silence, Telemetry
from perdure.core.pruning import Record, WholeLog
from perdure.core.seams import Seams
from perdure.core.threads import ANY_STATUS, Lease, ThreadQuery, ThreadRow, Which
from perdure.core.transfer import ThreadCopy
from perdure.core.verification import Damage
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
from perdure.storage.contract import BLOB_GRACE, NEVER, Leftovers, Migrate, Schema, Watch
from perdure.storage.file import compacting, deletion, derived, kept, layout, reading, transfers, writing
from perdure.storage.file.blobs import Blobs
from perdure.storage.file.disk import Disk, RealDisk
from perdure.storage.file.logs import BLOBS, Logs
from perdure.storage.ports import PollingWatch, Port
from perdure.storage.shelf import Shelved

T = TypeVar("T")


class FileStorage:
    """Keeps each thread in a folder of its own: a log of JSON lines, snapshots, a lease."""

    reuses_room = False  # a snapshot is plain text here, and takes as much room as the state
    packs_from = packs_records_from = NEVER

    def __init__(
        self,
        path: str,
        *,
        port: Port,
        disk: Disk | None = None,
        telemetry: Telemetry | None = None,
        steps: Sequence[layout.FolderStep] = layout.STEPS,
    ) -> None:
        self._root = abspath(path)
        self._steps = steps
        self._port = port
        self._disk = disk or RealDisk()
        self._logs = Logs(self._disk, self._root, telemetry or Silence())
        self._blobs = Blobs(self._disk, join(self._root, BLOBS))
        self._lines = Shelved(self)

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        return await self._port.run(lambda: self._setup(migrate))

    def _setup(self, migrate: Migrate) -> Schema:
        schema = layout.prepare(self._disk, self._root, migrate, self._steps)
        if migrate == "auto":
            deletion.clean(self._logs)
        return schema

    def migration(self) -> Sequence[str]:
        return layout.words(self._steps)

    async def append(self, write: Write) -> Appended:
        return await self._port.run(lambda: writing.append(self._logs, self._blobs, write))

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        return await self._port.run(lambda: reading.keyed(self._logs, key, idem_key))

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        return await self._port.run(lambda: reading.under(self._logs, key, prefix))

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        return await self._port.run(lambda: reading.restore(self._logs, key, at, after))

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        return await self._port.run(lambda: reading.entries(self._logs, key, after, limit, kinds))

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        return await self._port.run(lambda: reading.log(self._logs, key, after, kinds, checkpoints))

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        return await self._port.run(lambda: reading.headers(self._logs, key, at, until, kinds, limit))

    async def seams(self, key: ThreadKey) -> Seams:
        return await self._port.run(lambda: reading.seams(self._logs, key))

    async def records(self, key: ThreadKey) -> list[Record]:
        return await self._port.run(lambda: reading.records(self._logs, key))

    async def forks(self, key: ThreadKey) -> list[int]:
        return await self._port.run(lambda: reading.needed_by_forks(self._logs, key))

    async def derived(self, key: ThreadKey) -> Derived | None:
        return await self._port.run(lambda: derived.derived(self._logs, key))

    async def reindex(self, seen: ThreadRow, made: Derived) -> bool:
        self._lines.drop(seen)
        return await self._port.run(lambda: derived.reindex(self._logs, seen, made))

    async def strays(self) -> dict[str, int]:
        return await self._port.run(lambda: derived.strays(self._logs))

    async def integrity(self) -> list[str]:
        return []  # every line has a checksum of its own, which reading it checks

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        return await self._port.run(lambda: writing.put_snapshot(self._logs, key, uid, snapshot))

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        await self._port.run(lambda: reading.drop_snapshot(self._logs, key, version))

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._port.run(lambda: reading.checkpoints(self._logs, key, query))

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._port.run(lambda: reading.user_checkpoints(self._logs, namespace, user, query))

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        return await self._port.run(lambda: reading.checkpoint(self._logs, namespace, user, checkpoint_id))

    async def projection(self, key: ThreadKey) -> Projection | None:
        return await self._lines.projection(key)

    async def project(self, made: Projected) -> bool:
        return await self._lines.project(made)

    async def unprojected(self, owner: Owner, limit: int = 100) -> list[ThreadRow]:
        return await self._lines.unprojected(owner, limit)

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        return await self._lines.messages(of, query)

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        return await self._lines.current(of, query)

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        return await self._lines.tally(of, query)

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        return await self._port.run(lambda: reading.thread(self._logs, key))

    async def line(self, uid: str) -> ThreadRow | None:
        return await self._port.run(lambda: reading.line(self._logs, uid))

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        return await self._port.run(lambda: reading.find(self._logs, namespace, thread_id))

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        return await self._port.run(lambda: reading.threads(self._logs, query))

    async def namespaces(self) -> list[str]:
        return await self._port.run(lambda: reading.namespaces(self._logs))

    async def damaged(self) -> list[Damage]:
        return await self._port.run(lambda: reading.damaged(self._logs))

    async def mend(self, key: ThreadKey) -> list[str]:
        return await self._port.run(lambda: derived.mend(self._logs, key))

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        return await self._port.run(lambda: writing.fork(self._logs, source, version, target))

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        return await self._port.run(lambda: transfers.put_thread(self._logs, self._blobs, copy))

    async def delete(self, key: ThreadKey) -> bool:
        with suppress(DamagedError):  # lines of a thread that nobody can name are never asked for again
            self._lines.drop(await self.thread(key))
        return await self._port.run(lambda: deletion.delete(self._logs, key))

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        return lease_of(await self._change(key, lambda row: claimed(row, owner, until, now, take_from)))

    async def renew(self, key: ThreadKey, epoch: int, *, until: int, now: int) -> Lease:
        return lease_of(await self._change(key, lambda row: renewed(row, epoch, until)))

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        await self._change(key, lambda row: released(row, epoch, wake_at))

    async def _change(self, key: ThreadKey, change: RowChange) -> ThreadRow:
        return await self._port.run(lambda: writing.change_lease(self._logs, key, change))

    async def due(
        self, namespace: str, now: int, limit: int = 100, agents: Sequence[str] | None = None, *, ahead: int = 0,
        which: Which = ANY_STATUS,
    ) -> list[ThreadRow]:  # fmt: skip
        """Threads whose lease or timer ran out, oldest first; found by a scan of the small lease files."""
        return await self._port.run(lambda: reading.due(self._logs, namespace, now + ahead, limit, agents, which))

    def watch(self, namespace: str) -> Watch:
        return PollingWatch(self._port.pause)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._port.run(lambda: self._blobs.get(key, digests))

    async def sweep_blobs(self, now: int) -> int:
        used: Callable[[], dict[str, set[str]]] = lambda: reading.used_blobs(self._logs, self._blobs)  # noqa: E731
        return await self._port.run(lambda: self._blobs.sweep(now - BLOB_GRACE, used))

    async def sweep_user(self, namespace: str, user: str) -> Leftovers:
        return await self._port.run(lambda: deletion.sweep_user(self._logs, self._blobs, namespace, user))

    async def keep(self, name: str, value: bytes) -> bytes:
        return await self._port.run(lambda: kept.keep(self._disk, self._root, name, value))

    async def kept(self, prefix: str) -> dict[str, bytes]:
        return await self._port.run(lambda: kept.kept(self._disk, self._root, prefix))

    async def discard(self, name: str) -> bool:
        return await self._port.run(lambda: kept.discard(self._disk, self._root, name))

    async def compact(self) -> int:
        return await self._port.run(lambda: compacting.compact(self._logs, self._blobs))

    def compacting(self) -> str:
        return compacting.WHO_WAITS

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        return await self._port.run(lambda: reading.sizes(self._logs, self._blobs, key))

    async def close(self) -> None:
        self._port.close()
