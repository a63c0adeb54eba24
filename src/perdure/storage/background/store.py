"""Any storage with a queue in front of it: a write is judged and answered at once, and durable a moment later.

Nothing that is read is older than what was acknowledged: whatever touches a thread first waits until its queued writes
are durable. What a kill takes along is the end of a log, never a part of its middle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.derived import Derived
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import ConflictError, InvalidInputError, NotFoundError
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
    Sizes,
    Snapshot,
    Write,
    admit,
    foreseen,
)
from perdure.storage.background.backlog import Backlog
from perdure.storage.background.errors import BrokenPromise, broken_promises
from perdure.storage.background.ports import Queue
from perdure.storage.background.writer import LOST, Writer
from perdure.storage.contract import Leftovers, Migrate, Schema, Storage, Watch
from perdure.storage.ports import check_usable

T = TypeVar("T")
MAX_PENDING = 1000
QUEUED = "perdure.background.queued"  # those that wait are queued - applied - lost
FULL = "perdure.background.full"
_PLACE = "the background queue"


def _nobody(key: ThreadKey) -> None: ...


class BackgroundStorage:
    """Answers plain writes before `inner` has them, and asks `inner` for everything else.

    `inner` has to keep the caller's time (`server_time=False`): the answer names the time of each entry. `on_broken` is
    called with a thread just before its `BackgroundWriteError` is raised: whoever remembers its state has to forget it,
    since the versions of lost writes are given to others.
    """

    def __init__(
        self,
        inner: Storage,
        queue: Queue,
        *,
        max_pending: int = MAX_PENDING,
        telemetry: Telemetry | None = None,
        on_broken: Callable[[ThreadKey], None] = _nobody,
    ) -> None:
        if type(max_pending) is not int or max_pending < 1:
            raise InvalidInputError(f"max_pending must be an int from 1 on, not {max_pending!r}")
        self._inner = inner
        self._queue = queue
        self._telemetry = telemetry or Silence()
        self._on_broken = on_broken
        self._backlog = Backlog(max_pending)
        self._writer = Writer(inner, self._backlog, queue, self._telemetry)
        self._pid = os.getpid()
        self._closing = self._closed = False

    @property
    def inner(self) -> Storage:
        """The storage behind the queue."""
        return self._inner

    # Writing.

    async def append(self, write: Write) -> Appended:
        if _is_plain(write):
            promised = await self._entered(write)
            if promised is not None:
                self._telemetry.count(QUEUED)
                return promised
        return await self._alone(write.key, lambda: self._inner.append(write))

    async def _entered(self, write: Write) -> Appended | None:
        """Queue a write when there is room; None for one that the storage itself has to judge."""
        self._check()
        await self._enter(write.key)
        try:
            return await self._promised(write)
        finally:
            with self._queue.lock:
                self._backlog.leave(write.key)
                self._queue.tell()

    async def _enter(self, key: ThreadKey) -> None:
        """Wait until nobody else is alone on the thread and there is room."""
        backlog, told = self._backlog, False
        while not self._entered_now(key):
            if backlog.is_full() and not told:
                told = True
                self._tell_full()
            # Also one that waits for others on its thread is to say so when the queue fills up meanwhile.
            await self._queue.until(lambda told=told: backlog.may_enter(key) or (backlog.is_full() and not told))

    def _entered_now(self, key: ThreadKey) -> bool:
        with self._queue.lock:
            if may := self._backlog.may_enter(key):
                self._backlog.enter(key)
            return may

    async def _promised(self, write: Write) -> Appended | None:
        with self._queue.lock:
            line = self._backlog.line(write.key)
            if line is not None:
                return self._put(line, write)
        await self._settled(write.key)
        # Nothing is queued: a line remembered from earlier may have been changed by another process since.
        line = await self._inner.thread(write.key)
        if line is None:
            return None  # only the storage knows whether the new thread's identity was used before
        with self._queue.lock:
            return self._put(line, write)

    def _put(self, line: ThreadRow, write: Write) -> Appended | None:
        """Queue a write that fits its thread. One that does not may have been made earlier: the storage knows."""
        self._check()
        try:
            promised = _judged(line, write)
        except (ConflictError, NotFoundError):
            return None
        # The thread is pinned: one that another process makes under this key later is not the one of this promise.
        if self._backlog.add(msgspec.structs.replace(write, uid=line.uid), promised):
            self._queue.serve(self._writer.run)
        return promised

    def _tell_full(self) -> None:
        with self._queue.lock:
            begins = self._backlog.begins_to_be_full()
        self._telemetry.count(FULL)
        if begins:
            self._telemetry.log("warning", "the background queue is full: writers wait for the storage")

    async def _alone(self, key: ThreadKey, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something after what is queued for a thread, and before what comes in meanwhile."""
        self._check()
        await self._queue.until(lambda: not self._backlog.is_held(key), lambda: self._backlog.hold(key))
        try:
            await self._settled(key)
            return await work()
        finally:
            with self._queue.lock:
                self._backlog.let_go(key)
                self._queue.tell()

    # Waiting for what is queued.

    async def _settled(self, key: ThreadKey) -> None:
        """Wait until what was acknowledged for a thread is durable; raise, once, when it could not be made so."""
        await self._wait(key)
        with self._queue.lock:
            broken = self._backlog.confess(key)
        self._raise(broken)

    async def settled(self, key: ThreadKey) -> None:
        """Wait until what was acknowledged for a thread is durable; for readers that ask somebody else."""
        await self._settled(key)

    async def _wait(self, key: ThreadKey | None = None) -> None:
        """Wait until what is queued now, for a thread or for all, is durable or lost."""
        self._check()
        with self._queue.lock:
            number = self._backlog.newest(key)
        await self._queue.until(lambda: self._backlog.is_past(number, key))

    def _raise(self, broken: list[BrokenPromise]) -> None:
        for each in broken:
            self._on_broken(each.key)
        if broken:
            raise broken_promises(broken)

    async def flush(self) -> None:
        """Wait until everything acknowledged is durable; raise `BackgroundWriteError` naming what could not be."""
        await self._wait()
        with self._queue.lock:
            broken = self._backlog.confess_all()
        self._raise(broken)

    async def close(self) -> None:
        """Make everything durable and close the storage; raise `BackgroundWriteError` naming what could not be."""
        if self._closed:
            return
        if self._pid != os.getpid():  # what is queued is the parent's, and its locks may never be given back here
            return await self._inner.close()
        with self._queue.lock:
            self._closing = True
        await self._queue.end(lambda: self._backlog.is_past(self._backlog.newest()), self._close_inner)

    async def _close_inner(self) -> None:
        self._closed = True
        with self._queue.lock:
            lost, broken = self._backlog.drop_all(), self._backlog.confess_all()
        if lost:
            self._telemetry.count(LOST, lost)
            self._telemetry.log("error", "a store was never closed: acknowledged writes are lost", writes=lost)
        await self._inner.close()
        self._raise(broken)

    def _check(self) -> None:
        check_usable(_PLACE, self._pid, self._closing)

    # Everything else is the storage's own answer.

    @property
    def reuses_room(self) -> bool:
        return self._inner.reuses_room

    @property
    def packs_from(self) -> int:
        return self._inner.packs_from

    @property
    def packs_records_from(self) -> int:
        return self._inner.packs_records_from

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        return await self._inner.setup(migrate)

    def migration(self) -> Sequence[str]:
        return self._inner.migration()

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        await self._settled(key)
        return await self._inner.keyed(key, idem_key)

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        await self._settled(key)
        return await self._inner.under(key, prefix)

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        await self._settled(key)
        return await self._inner.restore(key, at=at, after=after)

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        await self._settled(key)
        return await self._inner.entries(key, after=after, limit=limit, kinds=kinds)

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        await self._settled(key)
        return await self._inner.headers(key, at=at, until=until, kinds=kinds, limit=limit)

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        await self._settled(key)
        return await self._inner.log(key, after=after, kinds=kinds, checkpoints=checkpoints)

    async def seams(self, key: ThreadKey) -> Seams:
        await self._settled(key)
        return await self._inner.seams(key)

    async def records(self, key: ThreadKey) -> list[Record]:
        await self._settled(key)
        return await self._inner.records(key)

    async def forks(self, key: ThreadKey) -> list[int]:
        await self._settled(key)
        return await self._inner.forks(key)

    async def derived(self, key: ThreadKey) -> Derived | None:
        await self._settled(key)
        return await self._inner.derived(key)

    async def reindex(self, seen: ThreadRow, made: Derived) -> bool:
        return await self._alone(seen.key, lambda: self._inner.reindex(seen, made))

    async def strays(self) -> dict[str, int]:
        await self._wait()
        return await self._inner.strays()

    async def integrity(self) -> list[str]:
        await self._wait()
        return await self._inner.integrity()

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        # Not told here: snapshots are derived, and nobody has to hear of one that fails.
        await self._wait(key)
        with self._queue.lock:
            broken = self._backlog.is_broken(key)
        return not broken and await self._inner.put_snapshot(key, uid, snapshot)

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        await self._wait(key)
        await self._inner.drop_snapshot(key, version)

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        await self._settled(key)
        return await self._inner.checkpoints(key, query)

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        await self._wait()
        return await self._inner.user_checkpoints(namespace, user, query)

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        await self._wait()
        return await self._inner.checkpoint(namespace, user, checkpoint_id)

    async def projection(self, key: ThreadKey) -> Projection | None:
        await self._settled(key)
        return await self._inner.projection(key)

    async def project(self, made: Projected) -> bool:
        return await self._alone(made.seen.row.key, lambda: self._inner.project(made))

    async def unprojected(self, owner: Owner, limit: int = 100) -> list[ThreadRow]:
        await self._wait()
        return await self._inner.unprojected(owner, limit)

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        await (self._settled(of) if isinstance(of, ThreadKey) else self._wait())
        return await self._inner.messages(of, query)

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        await (self._settled(of) if isinstance(of, ThreadKey) else self._wait())
        return await self._inner.current(of, query)

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        await (self._settled(of) if isinstance(of, ThreadKey) else self._wait())
        return await self._inner.tally(of, query)

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        await self._settled(key)
        return await self._inner.thread(key)

    async def line(self, uid: str) -> ThreadRow | None:
        await self._wait()
        return await self._inner.line(uid)

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        await self._wait()
        return await self._inner.find(namespace, thread_id)

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        await self._wait()
        return await self._inner.threads(query)

    async def namespaces(self) -> list[str]:
        await self._wait()
        return await self._inner.namespaces()

    async def damaged(self) -> list[Damage]:
        await self._wait()
        return await self._inner.damaged()

    async def mend(self, key: ThreadKey) -> list[str]:
        await self._settled(key)
        return await self._inner.mend(key)

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        await self._settled(source)
        await self._settled(target.key)
        return await self._inner.fork(source, version, target)

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        await self._wait()  # it may share the past of any thread
        return await self._alone(copy.row.key, lambda: self._inner.put_thread(copy))

    async def delete(self, key: ThreadKey) -> bool:
        return await self._alone(key, lambda: self._inner.delete(key))

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        return await self._alone(key, lambda: self._inner.claim(key, owner, until=until, now=now, take_from=take_from))

    async def renew(self, key: ThreadKey, epoch: int, *, until: int, now: int) -> Lease:
        return await self._alone(key, lambda: self._inner.renew(key, epoch, until=until, now=now))

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        await self._alone(key, lambda: self._inner.release(key, epoch, wake_at=wake_at))

    async def due(
        self, namespace: str, now: int, limit: int = 100, agents: Sequence[str] | None = None, *, ahead: int = 0,
        which: Which = ANY_STATUS,
    ) -> list[ThreadRow]:  # fmt: skip
        await self._wait()
        return await self._inner.due(namespace, now, limit, agents, ahead=ahead, which=which)

    def watch(self, namespace: str) -> Watch:
        return self._inner.watch(namespace)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        await self._wait()  # they are the user's: another thread may have brought them
        return await self._inner.blobs(key, digests)

    async def sweep_blobs(self, now: int) -> int:
        await self._wait()
        return await self._inner.sweep_blobs(now)

    async def sweep_user(self, namespace: str, user: str) -> Leftovers:
        await self._wait()
        return await self._inner.sweep_user(namespace, user)

    async def keep(self, name: str, value: bytes) -> bytes:
        return await self._inner.keep(name, value)

    async def kept(self, prefix: str) -> dict[str, bytes]:
        return await self._inner.kept(prefix)

    async def discard(self, name: str) -> bool:
        return await self._inner.discard(name)

    async def compact(self) -> int:
        await self._wait()
        return await self._inner.compact()

    def compacting(self) -> str:
        return self._inner.compacting()

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        await (self._wait() if key is None else self._settled(key))
        return await self._inner.sizes(key)


def _is_plain(write: Write) -> bool:
    """Whether a write can be judged by the line of its thread alone."""
    outside = write.epoch is None and write.after_run is None
    return write.idem_key is None and write.since is None and outside and write.is_plain


def _judged(line: ThreadRow, write: Write) -> Appended:
    """The answer to a write on this line, or the refusal: by the same rules that the storage follows later."""
    return foreseen(admit(line, write), write)[0]
