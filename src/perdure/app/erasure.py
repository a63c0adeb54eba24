"""Forgetting a user: every thread that belongs to one, thread by thread, and what is kept beside them.

The order makes it safe to kill at any moment. The tombstone is begun first; each thread is entered in it and then goes
whole, in one transaction of its storage; the user's own threads go before what is kept beside them, so that nothing
that can be listed lacks a part. Whoever calls `forget` for the same user again completes it.

What belongs to a user is what has the user in its key, in the store's namespace and in those that are reserved for it:
whatever the library keeps per user later has to lie there, and is erased without another line here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.app.thread import Thread
from perdure.core import erasure
from perdure.core.document import DoesNotFit
from perdure.core.erasure import EVERYWHERE, Forgotten, ForgottenThread, Tombstone
from perdure.core.errors import (
    DamagedError,
    InvalidIdError,
    PerdureError,
    StorageBusyError,
    UserActiveError,
    ValueTooLargeError,
    VersionConflictError,
)
from perdure.core.forks import parents_first
from perdure.core.identity import (
    ANY_USER,
    CACHE,
    FACTS,
    MEMORY,
    RESULTS,
    ThreadKey,
    callers_namespace,
    reserved_namespace,
    reserved_of,
)
from perdure.core.retention_words import shown
from perdure.core.threads import ThreadRow
from perdure.runtime.owner import is_dead
from perdure.storage.listing import all_threads

if TYPE_CHECKING:
    from perdure.app.parts import Parts

Progress = Callable[[int, int, ForgottenThread], None]  # how many threads are done, of how many, and the newest of them

_ROUNDS = 3  # looks for threads that were made meanwhile
_TRIES = 100  # for a tombstone that others write to as well
_SALT = "erasure."
_SALT_BYTES = 32


class _Record(NamedTuple):
    """A tombstone that is being written."""

    id: str
    salt: bytes


async def forget(
    parts: Parts, namespace: str, user: object, *, dry_run: bool, force: bool, progress: Progress | None, scoped: bool
) -> Forgotten:
    """Erase everything of a user, or say what there is."""
    owner = _checked(parts, user)
    await parts.ready()
    await parts.flush()
    return await _Eraser(parts, namespace, owner, force=force, progress=progress, scoped=scoped).run(dry_run)


async def tombstones(parts: Parts, namespace: str) -> list[Tombstone]:
    """The tombstones of a namespace, the newest first."""
    await parts.ready()
    return erasure.tombstones(await _log(parts, namespace).load(default={}))


def _checked(parts: Parts, user: object) -> str:
    owner = "" if user is ANY_USER else parts.users.key(user)
    if not owner:
        raise InvalidIdError("the user to forget", "is missing: what belongs to nobody is deleted thread by thread")
    return owner


def _log(parts: Parts, namespace: str) -> Thread:
    """The thread of the tombstones; a new handle each time, which has seen nothing and so expects nothing."""
    return Thread(parts, erasure.log_key(namespace))


class _Eraser:
    """One call of `forget`."""

    def __init__(
        self, parts: Parts, namespace: str, user: str, *, force: bool, progress: Progress | None, scoped: bool
    ) -> None:
        self._parts = parts
        self._storage = parts.storage
        self._namespace = namespace
        self._user = user
        self._shown = parts.users.shown(user) or user
        self._force = force
        self._progress = progress
        self._scoped = scoped
        self._left: list[str] = []

    async def run(self, dry_run: bool) -> Forgotten:
        """Look, and unless it is a dry run erase."""
        rows, damaged = await self._rows(), await self._damaged()
        if dry_run:
            return await self._previewed(rows, damaged)
        self._check_idle(rows)
        record = await self._interrupted()
        if record is None and (rows or damaged):
            record = await self._begin()
        done = await self._erased(rows, damaged, record)
        large, unreached = await self._swept({row.key.namespace for row in rows})
        if record is not None and not self._left:
            await self._finish(record)
        return Forgotten(
            user=self._shown, dry_run=False, threads=tuple(done), large_values=large, left=tuple(self._left),
            tombstone=record.id if record else None, unreached=(*await self._unreached(), *unreached),
        )  # fmt: skip

    # Looking.

    async def _rows(self) -> list[ThreadRow]:
        """Every thread of the user, forks before their parents, the caller's own before those kept beside them."""
        others = [each for each in await self._storage.namespaces() if self._is_ours(each)]
        found: list[ThreadRow] = []
        for namespace in (self._namespace, *sorted(others)):
            rows = await all_threads(self._storage, namespace, self._user)
            found += reversed(parents_first(rows))
        return found

    def _is_ours(self, namespace: str) -> bool:
        return namespace != self._namespace and callers_namespace(namespace) == self._namespace

    async def _damaged(self) -> dict[ThreadKey, str]:
        """Threads of the user that no list has, because they cannot be read."""
        found = await self._storage.damaged()
        return {
            ThreadKey(each.namespace, each.user, each.thread_id): each.reason
            for each in found
            if each.thread_id and each.user == self._user and callers_namespace(each.namespace) == self._namespace
        }

    async def _previewed(self, rows: list[ThreadRow], damaged: dict[ThreadKey, str]) -> Forgotten:
        found: list[ForgottenThread] = []
        for row in rows:
            found.append(await self._described(row))
            self._tell(len(found), len(rows) + len(damaged), found[-1])
        found += [_unreadable(key, reason) for key, reason in damaged.items()]
        unreached = await self._unreached()
        return Forgotten(user=self._shown, dry_run=True, threads=tuple(found), unreached=unreached)

    def _tell(self, done: int, total: int, newest: ForgottenThread) -> None:
        if self._progress is not None:
            self._progress(done, max(total, done), newest)

    async def _described(self, row: ThreadRow) -> ForgottenThread:
        """A thread with what it holds. One that cannot be read is erased all the same."""
        counts, damage = Counter[str](), None
        try:
            counts = await self._counted(row)
        except (DamagedError, ValueTooLargeError) as exc:
            damage = str(exc)
        return ForgottenThread(
            thread_id=row.key.id,
            part=erasure.part_of(row.key.namespace),
            counts={kind: counts[kind] for kind in erasure.KINDS if counts[kind]},
            is_fork=row.parent_uid is not None,
            is_quarantined=row.is_quarantined,
            is_running=self._is_running(row),
            damage=damage,
        )

    async def _counted(self, row: ThreadRow) -> Counter[str]:
        key = row.key
        counts = erasure.counted(row, await self._storage.headers(key, limit=max(row.head, 1)))
        sizes = await self._storage.sizes(key)
        counts["checkpoints"] = sizes.checkpoints
        counts["bytes"] = sizes.entry_bytes + sizes.snapshot_bytes
        items = erasure.items_of(key.namespace)
        if items is not None:
            counts[items] += await self._items(key)
        elif erasure.holds_facts(key.namespace):
            counts["facts"] = len(await self._parts.messages.list(key))
        elif erasure.part_of(key.namespace) == erasure.THREAD:
            counts["messages"] = len(await self._parts.messages.list(key))
        return counts

    async def _items(self, key: ThreadKey) -> int:
        """How many values the state of a thread beside others holds."""
        reserved = reserved_of(key.namespace)
        path = ("items",) if reserved is not None and reserved.kind == MEMORY else ()
        with suppress(DoesNotFit):
            return len(await self._reached(key, path))
        return 0

    async def _reached(self, key: ThreadKey, path: tuple[str, ...]) -> Any:
        return (await self._parts.engine.head(key)).document.reach(path)

    def _is_running(self, row: ThreadRow) -> bool:
        """Whether somebody who may be alive holds the lease."""
        owner = row.lease_owner
        return owner is not None and row.lease_until > self._parts.clock.now() and not is_dead(owner)

    def _check_idle(self, rows: list[ThreadRow]) -> None:
        running = [row.key.id for row in rows if self._is_running(row)]
        if running and not self._force:
            raise UserActiveError(self._shown, running)

    # Erasing.

    async def _erased(
        self, rows: list[ThreadRow], damaged: dict[ThreadKey, str], record: _Record | None
    ) -> list[ForgottenThread]:
        done: list[ForgottenThread] = []
        total = len(rows) + len(damaged)
        for key, reason in damaged.items():
            if await self._deleted(key):
                done.append(_unreadable(key, reason))
                self._tell(len(done), total, done[-1])
        for _ in range(_ROUNDS):
            for row in rows:
                gone = await self._erase(row, record)
                if gone is not None:
                    done.append(gone)
                    self._tell(len(done), total, gone)
            refused = bool(self._left)
            rows = await self._rows() if record is not None and not refused else []  # somebody may have made others
            if not rows:
                return done
        self._left.append(f"{len(rows):,} threads that other processes make again: stop them and call forget again")
        return done

    async def _erase(self, seen: ThreadRow, record: _Record | None) -> ForgottenThread | None:
        """Enter one thread in the tombstone, then delete it; None when it is gone or cannot be deleted."""
        row, described = seen, await self._described(seen)
        with suppress(DamagedError):
            row = await self._storage.thread(seen.key)
        if row is None:
            return None
        self._check_idle([row])  # a run may have begun since the first look
        if record is not None:
            mark = (record.id, "threads", erasure.mark_of(record.salt, row.uid))
            await self._write({mark: erasure.thread_mark(row)})
        return described if await self._deleted(row.key) else None

    async def _deleted(self, key: ThreadKey) -> bool:
        # Before and after: whoever reads in between would have it in the memory of this process again.
        self._parts.engine.forget(key)
        try:
            await self._storage.delete(key)
        except DamagedError as exc:
            self._left.append(f"{shown(key.id)}: {exc}")
            return False
        self._parts.engine.forget(key)
        self._parts.memory.forget(key)
        return True

    async def _swept(self, namespaces: set[str]) -> tuple[int, list[str]]:
        """Large values and whatever else deleted threads left, also those that were deleted before."""
        own = set[str]()
        with suppress(InvalidIdError):  # of a namespace that is as long as can be, nothing is kept beside
            own = {reserved_namespace(kind, self._namespace) for kind in (RESULTS, CACHE, MEMORY, FACTS)}
        large, unreached = 0, dict[str, None]()
        for namespace in sorted({self._namespace, *own, *namespaces}):
            try:
                swept = await self._storage.sweep_user(namespace, self._user)
            except DamagedError as exc:
                self._left.append(f"what deleted threads left: {exc}")
                continue
            large += swept.blobs
            unreached |= dict.fromkeys(swept.unreached)
            if swept.hidden:
                self._left.append(f"{swept.hidden:,} deleted threads that forks still need")
        await self._parts.purge_views()
        return large, list(unreached)

    # The tombstone.

    async def _interrupted(self) -> _Record | None:
        """The record of an earlier call for this user that was interrupted."""
        salts = {name.removeprefix(_SALT): salt for name, salt in (await self._storage.kept(_SALT)).items()}
        stored = await _log(self._parts, self._namespace).load(default={}) if salts else {}
        name = erasure.unfinished(stored, salts, self._key)
        return None if name is None else _Record(name, salts[name])

    @property
    def _key(self) -> ThreadKey:
        return ThreadKey(self._namespace, self._user, "")

    async def _begin(self) -> _Record:
        record = _Record(erasure.PREFIX + self._parts.engine.ids.sortable(), self._parts.randomness.bytes(_SALT_BYTES))
        # The salt first: a record without one could never be completed, a salt without a record is a random number.
        await self._storage.keep(_SALT + record.id, record.salt)
        proof = erasure.proof_of(record.salt, self._key)
        await self._write({(record.id,): erasure.begun(proof, self._parts.clock.now())})
        return record

    async def _finish(self, record: _Record) -> None:
        await self._write({(record.id, "finished"): self._parts.clock.now()})
        await self._storage.discard(_SALT + record.id)

    async def _write(self, changes: dict[tuple[str, ...], Any]) -> None:
        """Change the tombstones durably, also where writes are answered before they are."""
        for _ in range(_TRIES):
            with suppress(VersionConflictError):
                await _log(self._parts, self._namespace).update(set=changes)
                await self._parts.flush()
                return
        raise StorageBusyError("the tombstones", f"other writers were first {_TRIES} times")

    # What stays.

    async def _unreached(self) -> tuple[str, ...]:
        waits = self._storage.compacting()
        freed = f"bytes that the storage has freed and not yet overwritten: `compact` removes them ({waits})"
        return (freed, *(() if self._scoped else await self._unknown()), *EVERYWHERE)

    async def _unknown(self) -> list[str]:
        """What may be anybody's; a user is not told of it."""
        found: list[str] = []
        nameless = sum(not each.thread_id for each in await self._storage.damaged())
        if nameless:
            found.append(f"{nameless:,} damaged threads of which nobody can tell whose they are: see store.damaged()")
        try:
            strays = sum((await self._storage.strays()).values())
        except PerdureError:
            strays = 0  # verify says what is wrong
        if strays:
            found.append(f"{strays:,} entries that no thread leads to, whosever they were: see verify")
        return [*found, *await self._labelled()]

    async def _labelled(self) -> list[str]:
        """LangGraph's store without a user: whose items are, only the program knows, by its labels."""
        shared: list[ThreadRow] = []
        with suppress(InvalidIdError):
            shared = await all_threads(self._storage, reserved_namespace(MEMORY, self._namespace), "")
        named = 0
        for row in shared:
            with suppress(msgspec.DecodeError):
                named += str(self._shown) in msgspec.json.decode(row.key.id, type=list[str])
        if not named:
            return []
        return [
            f"{named:,} namespaces of LangGraph's store that belong to nobody and have the label {str(self._shown)!r}: "
            "delete their items and call prune(1) there; PerdureStore(user=…) makes them the user's own"
        ]


def _unreadable(key: ThreadKey, reason: str) -> ForgottenThread:
    return ForgottenThread(thread_id=key.id, part=erasure.part_of(key.namespace), damage=reason)
