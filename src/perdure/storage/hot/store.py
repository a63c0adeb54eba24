"""The hot layer: any storage with Redis in front of it. Redis is never the truth.

Every answer is the storage's own, or leads to the head that the storage names at that moment. Writes go to Redis after
their commit, so that nothing is there that was not committed; whatever Redis loses, swaps or invents is a miss.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.derived import Derived
from perdure.core.digest import digest_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import PerdureError, StorageError
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies
from perdure.core.ports import Clock, Randomness, Silence, Telemetry
from perdure.core.pruning import Record, WholeLog
from perdure.core.seams import Seams
from perdure.core.threads import ANY_STATUS, Lease, ThreadQuery, ThreadRow, Which
from perdure.core.transfer import ThreadCopy
from perdure.core.verification import Damage
from perdure.core.writes import Appended, Restored, Sizes, Snapshot, Write
from perdure.storage.contract import INCARNATION, Leftovers, Migrate, Schema, Storage, Watch
from perdure.storage.hot.alone import CachedLog, CachedState, Known
from perdure.storage.hot.cache import WINDOW, Cache, RedisAway
from perdure.storage.hot.ports import RedisPort

T = TypeVar("T")
CACHE_TTL = 86400  # seconds
MAX_CACHED_THREADS = 1000
_SECRET, _PLACE = 32, 6  # bytes


class HotStorage:
    """Keeps the newest part of threads in Redis, and asks `inner` for everything else."""

    def __init__(
        self,
        inner: Storage,
        redis: RedisPort,
        *,
        clock: Clock,
        randomness: Randomness,
        cache_ttl: float = CACHE_TTL,
        max_cached_threads: int = MAX_CACHED_THREADS,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._inner = inner
        self._redis = redis
        self._clock = clock
        self._randomness = randomness
        self._ttl = cache_ttl
        self._max_threads = int(max_cached_threads)
        self._telemetry = telemetry or Silence()
        self._made: Cache | None = None

    @property
    def inner(self) -> Storage:
        """The storage behind Redis."""
        return self._inner

    async def _cache(self) -> Cache | None:
        """The cache, tied to the storage by a secret and by a name apart from other storages' in the same Redis.

        None where the storage cannot keep those: one that may only be read is read without Redis.
        """
        if self._made is None:
            with suppress(StorageError):  # whatever is wrong with the storage, the call itself will say
                # Of another incarnation nothing is found, and nothing believed: a restored backup may be older.
                incarnation = await self._inner.keep(INCARNATION, self._randomness.bytes(_PLACE))
                place = await self._inner.keep("hot.id", self._randomness.bytes(_PLACE))
                secret = await self._inner.keep("hot.secret", self._randomness.bytes(_SECRET))
                self._made = Cache(
                    self._redis,
                    place=digest_of(place + incarnation)[:_PLACE],
                    secret=digest_of(secret + incarnation),
                    ttl=self._ttl,
                    max_threads=self._max_threads,
                    clock=self._clock,
                    randomness=self._randomness,
                    telemetry=self._telemetry,
                )
        return self._made

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

    async def append(self, write: Write) -> Appended:
        cache = await self._cache()
        if cache is None:
            return await self._inner.append(write)
        if not write.is_plain and write.names is None:
            return await self._taken_back(cache, write)
        asked_at = cache.now()
        # Push to Redis only after the commit: the other order served a state that a rollback had undone.
        done = await self._inner.append(write)
        if not done.again:
            await cache.push(write, done, asked_at)
        return done

    async def _taken_back(self, cache: Cache, write: Write) -> Appended:
        """A rewind, or a write that drops content: nothing that was read before it may be served after it."""
        asked_at = cache.now()
        done = await self._buried(cache, write.key, lambda: self._inner.append(write), drop=write.pruning is not None)
        if write.pruning is None and not done.again:
            await cache.push(write, done, asked_at)
        return done

    async def _buried(self, cache: Cache, key: ThreadKey, work: Callable[[], Awaitable[T]], *, drop: bool) -> T:
        """Do what takes something away from readers, between two tombstones.

        The first one is in Redis before the storage is asked: a process that dies in between leaves it behind. Where
        it is not known what the storage did, it stays.
        """
        await cache.bury(key)
        try:
            done = await work()
        except PerdureError as exc:
            if not isinstance(exc, StorageError):
                await cache.settle(key, drop=False)
            raise
        await cache.settle(key, drop=drop)
        return done

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        return await self._inner.keyed(key, idem_key)

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        return await self._inner.under(key, prefix)

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        if at is not None or after is not None:
            # What is new after a known version is a small indexed read: asking two places for it would take longer.
            restored = await self._inner.restore(key, at=at, after=after)
            cache = await self._cache()
            if cache is not None and restored is not None:
                if at is None:
                    cache.lines.put(key, restored.row)
                await cache.used(key)
            return restored
        restored, _ = await self.restore_and_fill(key)
        return restored

    async def _used(self, key: ThreadKey) -> None:
        """A thread was read, and Redis was not asked: it is in use all the same."""
        cache = await self._cache()
        if cache is not None:
            await cache.used(key)

    async def restore_and_fill(self, key: ThreadKey) -> tuple[Restored | None, bool]:
        """What folding the head needs, as the storage vouches for it, and whether Redis has it now."""
        cache = await self._cache()
        found = await cache.look(key, self._inner.thread) if cache else None
        if cache is None or found is None:
            return await self._inner.restore(key), False
        hit = found.restored()
        cache.tell(found, hit is not None)
        if hit is not None:
            await cache.confirm(found)
            return hit, True
        restored = await self._inner.restore(key)
        if restored is None or restored.records:
            return restored, False  # a thread with pruned ranges after its newest whole state is not kept in Redis
        return restored, await cache.fill(restored, found)

    async def state_alone(self, key: ThreadKey, max_age: float, known: Known | None) -> CachedState | None:
        """The newest state as Redis alone tells it, at most `max_age` seconds old; None when Redis does not have it.

        Where it is at the version that is `known`, its content is left out. Raises `RedisAway` when Redis does not
        answer, or lacks a tombstone of this process: then only the storage may be asked.
        """
        cache = await self._cache()
        if cache is None:
            raise RedisAway
        if known is not None:
            alone = await cache.read_alone(key, max_age)
            if alone is None:
                return None
            if (alone.row.uid, alone.row.head, alone.row.head_digest) == known:
                return CachedState(row=alone.row, age=alone.age, restored=None)
        alone = await cache.read_alone(key, max_age, cache.whole_content(key))
        restored = alone.found.restored() if alone and alone.found else None
        if alone is None or restored is None:
            return None
        return CachedState(row=alone.row, age=alone.age, restored=restored)

    async def log_alone(self, key: ThreadKey, max_age: float, count: int | None) -> CachedLog | None:
        """The newest entries as Redis alone tells them (`count` None: all of them); the same promises."""
        cache = await self._cache()
        if cache is None:
            raise RedisAway
        wanted = cache.whole_content(key) if count is None else cache.newest_content(key, count)
        alone = await cache.read_alone(key, max_age, wanted)
        return CachedLog(alone.row, alone.age, alone.found, self._inner) if alone and alone.found else None

    def count_cached(self, hit: bool) -> None:
        """Count what came of a read that asked Redis alone."""
        self._telemetry.count("perdure.hot.cached_hits" if hit else "perdure.hot.cached_misses")

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        found = await self._newest(key, max(after, 0))
        if found is None:
            return await self._inner.entries(key, after=after, limit=limit, kinds=kinds)
        return [entry for entry in found if kinds is None or entry.kind in kinds][:limit]

    async def _newest(self, key: ThreadKey, after: int) -> list[Entry] | None:
        """The entries after a version if they are few, from Redis or through it; None to ask the storage itself."""
        cache = await self._cache()
        found = await cache.look_at_newest(key, self._inner.thread, WINDOW) if cache else None
        if cache is None or found is None:
            return None
        hit = found.entries(after)
        cache.tell(found, hit is not None)
        if hit is not None:
            await cache.confirm(found)
        if hit is not None or found.row.head - after > WINDOW or after < found.row.parent_version:
            return hit  # a long read of a log does not fill Redis, nor does that of a parent's
        # One more than was asked for: it shows that the first of the others follows from it.
        entries = await self._inner.entries(key, after=max(after - 1, 0))
        await cache.add(found.row, after, entries, found)
        return [entry for entry in entries if entry.version > after]

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        return await self._inner.headers(key, at=at, until=until, kinds=kinds, limit=limit)

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        await self._used(key)
        return await self._inner.log(key, after=after, kinds=kinds, checkpoints=checkpoints)

    async def seams(self, key: ThreadKey) -> Seams:
        return await self._inner.seams(key)

    async def records(self, key: ThreadKey) -> list[Record]:
        return await self._inner.records(key)

    async def forks(self, key: ThreadKey) -> list[int]:
        return await self._inner.forks(key)

    async def derived(self, key: ThreadKey) -> Derived | None:
        return await self._inner.derived(key)

    async def reindex(self, seen: ThreadRow, made: Derived) -> bool:
        cache = await self._cache()
        if cache is None:
            return await self._inner.reindex(seen, made)
        return await self._buried(cache, seen.key, lambda: self._inner.reindex(seen, made), drop=True)

    async def strays(self) -> dict[str, int]:
        return await self._inner.strays()

    async def integrity(self) -> list[str]:
        return await self._inner.integrity()

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        cache = await self._cache()
        kept = await self._inner.put_snapshot(key, uid, snapshot)
        if cache and kept:
            await cache.put_snapshot(key, uid, snapshot)
        return kept

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        cache = await self._cache()
        await self._inner.drop_snapshot(key, version)
        if cache:
            await cache.drop_snapshot(cache.lines.get(key) or await self._inner.thread(key), version)

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        await self._used(key)
        return await self._inner.checkpoints(key, query)

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        return await self._inner.user_checkpoints(namespace, user, query)

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        return await self._inner.checkpoint(namespace, user, checkpoint_id)

    async def projection(self, key: ThreadKey) -> Projection | None:
        return await self._inner.projection(key)

    async def project(self, made: Projected) -> bool:
        return await self._inner.project(made)

    async def unprojected(self, owner: Owner, limit: int = 100) -> list[ThreadRow]:
        return await self._inner.unprojected(owner, limit)

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        if isinstance(of, ThreadKey):
            await self._used(of)
        return await self._inner.messages(of, query)

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        if isinstance(of, ThreadKey):
            await self._used(of)
        return await self._inner.current(of, query)

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        return await self._inner.tally(of, query)

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        row = await self._inner.thread(key)
        cache = await self._cache()
        if cache is not None:
            cache.lines.put(key, row)
        if cache is not None and row is not None:
            await cache.used(key)
            if cache.should_fill(key):  # Redis lost what this process goes on reading from its own memory
                with suppress(PerdureError):  # the row was read: what is wrong beside it is no trouble of this call
                    await self.restore_and_fill(key)
        return row

    async def line(self, uid: str) -> ThreadRow | None:
        return await self._inner.line(uid)

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        return await self._inner.find(namespace, thread_id)

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        return await self._inner.threads(query)

    async def namespaces(self) -> list[str]:
        return await self._inner.namespaces()

    async def damaged(self) -> list[Damage]:
        return await self._inner.damaged()

    async def mend(self, key: ThreadKey) -> list[str]:
        return await self._inner.mend(key)

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        return await self._inner.fork(source, version, target)

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        cache = await self._cache()
        if cache is None:
            return await self._inner.put_thread(copy)
        return await self._buried(cache, copy.row.key, lambda: self._inner.put_thread(copy), drop=True)

    async def delete(self, key: ThreadKey) -> bool:
        cache = await self._cache()
        if cache is None:
            return await self._inner.delete(key)
        return await self._buried(cache, key, lambda: self._inner.delete(key), drop=True)

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        return await self._inner.claim(key, owner, until=until, now=now, take_from=take_from)

    async def renew(self, key: ThreadKey, epoch: int, *, until: int, now: int) -> Lease:
        return await self._inner.renew(key, epoch, until=until, now=now)

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        await self._inner.release(key, epoch, wake_at=wake_at)

    async def due(
        self, namespace: str, now: int, limit: int = 100, agents: Sequence[str] | None = None, *, ahead: int = 0,
        which: Which = ANY_STATUS,
    ) -> list[ThreadRow]:  # fmt: skip
        return await self._inner.due(namespace, now, limit, agents, ahead=ahead, which=which)

    def watch(self, namespace: str) -> Watch:
        return self._inner.watch(namespace)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._inner.blobs(key, digests)

    async def sweep_blobs(self, now: int) -> int:
        return await self._inner.sweep_blobs(now)

    async def sweep_user(self, namespace: str, user: str) -> Leftovers:
        cache = await self._cache()
        left = await self._inner.sweep_user(namespace, user)
        if cache is None or await cache.forget_user(namespace, user):
            return left
        hours = f"Redis did not answer: what it holds of the user goes by itself, within {self._ttl:g} seconds"
        return msgspec.structs.replace(left, unreached=(*left.unreached, hours))

    async def keep(self, name: str, value: bytes) -> bytes:
        return await self._inner.keep(name, value)

    async def kept(self, prefix: str) -> dict[str, bytes]:
        return await self._inner.kept(prefix)

    async def discard(self, name: str) -> bool:
        return await self._inner.discard(name)

    async def compact(self) -> int:
        return await self._inner.compact()

    def compacting(self) -> str:
        return self._inner.compacting()

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        return await self._inner.sizes(key)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.pay_at_last()
        self._redis.close()
        await self._inner.close()

    async def warm(self, namespace: str, users: Iterable[str], threads: int = 3) -> int:
        """Bring the newest `threads` threads of each user into Redis, and return how many are there now."""
        warmed = 0
        for user in users:
            for row in await self._inner.threads(ThreadQuery(namespace=namespace, user=user, limit=threads)):
                _, kept = await self.restore_and_fill(row.key)
                warmed += kept
        return warmed
