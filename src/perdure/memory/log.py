"""The log of a user's facts: reading it on, adding facts, taking them back for good.

It is a thread in a namespace that no caller can name, so that digests, verification, export, copies in Redis and
`store.forget(user)` treat it like any other. Each fact is an entry `message.added`; taking one back empties its entries
in the transaction that tells of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, Protocol

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.reading import read_log
from perdure.checkpoints.requests import Request
from perdure.core.codec import encode
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import PlanOutdatedError, StorageBusyError
from perdure.core.following import spoken, taken_back
from perdure.core.identity import FACTS, ThreadKey, reserved_namespace
from perdure.core.ports import Clock
from perdure.core.pruning import Pruning
from perdure.memory.facts import NewFact, body_of
from perdure.memory.index import FactIndex
from perdure.storage.contract import Storage

ID = "facts"
_PAGE_ENTRIES = 2_000
_DELETE_TRIES = 20
MAX_FACTS_IN_MEMORY = 500_000  # of all users of a store together; the log used longest ago is read again when needed


class Users(Protocol):
    """User ids as callers give them."""

    def key(self, user: object) -> str: ...
    def shown(self, user: str) -> str | int | None: ...


class Services(Protocol):
    """What memory needs of an open store."""

    mode: Literal["async", "sync"]
    storage: Storage
    engine: Engine
    clock: Clock
    users: Users

    async def ready(self) -> None: ...
    @property
    def memory(self) -> FactLogs: ...


class FactLog:
    """The facts of one user."""

    def __init__(self, key: ThreadKey, user: str | int | None, storage: Storage, engine: Engine) -> None:
        self.key = key
        self._user = user
        self._storage = storage
        self._engine = engine
        self._uid: str | None = None
        self._version = 0
        self.index = FactIndex(user)

    async def read(self) -> FactIndex:
        """Read the log to its end, and return what it adds up to."""
        row = await self._storage.thread(self.key)
        uid = row.uid if row else None
        if uid != self._uid:
            self._uid, self._version, self.index = uid, 0, FactIndex(self._user)
        while row is not None and self._uid == row.uid and self._version < row.head:
            page = await read_log(self._storage, self.key, self._version, _PAGE_ENTRIES)
            if not page:
                break
            if self._uid == row.uid:
                for entry in page:
                    self._apply(entry)
        return self.index

    def _apply(self, entry: Entry) -> None:
        if entry.version != self._version + 1:
            return  # another task read the same page meanwhile
        if entry.kind is EntryKind.MESSAGE_ADDED:
            body = spoken(self.key.id, entry)
            if body is not None:
                self.index.put(body, entry.version, entry.micros)
        elif entry.kind is EntryKind.MESSAGE_DELETED:
            self.index.drop(taken_back(self.key.id, entry)[0])
        self._version = entry.version

    async def add(self, facts: Sequence[NewFact], actor: str | None = None) -> None:
        """Write facts, all in one write."""
        bodies = [encode(body_of(each), root="fact") for each in facts]
        entries = [self._engine.entry(EntryKind.MESSAGE_ADDED, body, actor) for body in bodies]
        await self._engine.speak(self.key, entries, Request(actor=actor))

    async def take_back(self, id: str) -> bool:
        """Empty every entry of a fact; False when there is none of this id."""
        for _ in range(_DELETE_TRIES):
            versions = (await self.read()).versions(id)
            row = await self._storage.thread(self.key)
            if not versions or row is None:
                return False
            body = encode({"id": id, "versions": list(versions)})
            pruning = Pruning(seen=row.head, records=(), blank=versions)
            try:
                await self._engine.take_back(row, body, pruning, Request())
            except PlanOutdatedError:
                continue  # somebody wrote meanwhile, perhaps this fact again
            return True
        raise StorageBusyError("the memory of a user", f"other writers were first {_DELETE_TRIES} times")

    async def clear(self) -> bool:
        """Delete the whole log."""
        self._engine.forget(self.key)
        done = await self._storage.delete(self.key)
        self._engine.forget(self.key)
        await self.read()
        return done


class FactLogs:
    """The logs of users that this process read, the newest used last."""

    def __init__(self, storage: Storage, engine: Engine) -> None:
        self._storage = storage
        self._engine = engine
        self._logs: OrderedDict[ThreadKey, FactLog] = OrderedDict()

    def of(self, namespace: str, owner: str, shown: str | int | None) -> FactLog:
        """The log of a user."""
        key = ThreadKey(reserved_namespace(FACTS, namespace), owner, ID)
        log = self._logs.pop(key, None) or FactLog(key, shown, self._storage, self._engine)
        self._logs[key] = log
        self._shrink()
        return log

    def _shrink(self) -> None:
        facts = sum(len(each.index) for each in self._logs.values()) if len(self._logs) > 1 else 0
        while facts > MAX_FACTS_IN_MEMORY and len(self._logs) > 1:
            _, oldest = self._logs.popitem(last=False)
            facts -= len(oldest.index)

    def forget(self, key: ThreadKey) -> None:
        """Let go of what was read of a log."""
        self._logs.pop(key, None)
