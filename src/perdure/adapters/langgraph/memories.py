"""LangGraph's long-term store on the engine: every operation once, for synchronous and asynchronous callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from perdure.adapters.langgraph import shelf as shelves
from perdure.adapters.langgraph.matching import Scored, answers, ranked
from perdure.adapters.langgraph.places import KIND
from perdure.adapters.langgraph.shelf import Given, Kept, Labels, Shelf
from perdure.app.maintenance import PruneReport
from perdure.app.parts import Parts
from perdure.checkpoints.requests import Request
from perdure.core.changes import Change
from perdure.core.codec import encode
from perdure.core.errors import InvalidInputError, NotFoundError, StorageBusyError, VersionConflictError
from perdure.core.identity import MEMORY, ThreadKey, reserved_namespace
from perdure.core.retention_policy import Retention, policy_of
from perdure.core.threads import NO_PATCH, ThreadPatch

_OURS = ThreadPatch(agent=KIND)
_TRIES = 1000  # a writer that loses this often is told so instead of trying for ever
Plan = Callable[[Shelf], Change | None]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a search looks for."""

    prefix: Labels
    filter: Mapping[str, Any] | None = None
    query: Sequence[float] | None = None  # its vector
    offset: int = 0
    limit: int = 10
    refresh: bool = True


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An item that was found."""

    labels: Labels
    key: str
    item: Kept


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace as it was read."""

    labels: Labels
    since: str
    items: list[tuple[str, Raw]]


class Memories:
    """Keeps LangGraph's long-term store in one open store."""

    def __init__(self, parts: Parts, namespace: str, user: str) -> None:
        self.parts = parts
        self.namespace = reserved_namespace(MEMORY, namespace)
        self.user = user

    async def get(self, labels: Labels, key: str, refresh: bool) -> Found | None:
        """An item; None where there is none or its time has run out."""
        item, now = (await self._shelf(labels)).get(key), self.parts.clock.now()
        if item is None:
            return None
        over = item.is_over(now)
        if over or (refresh and item.ttl is not None):
            await self._touch(labels, {key}, sweep=over)
        return None if over else Found(labels=labels, key=key, item=item)

    async def search(self, wanted: Wanted) -> list[Scored[Found]]:
        """Items below a prefix: by how close they are to the query, or namespace by namespace as they were put."""
        now, over = self.parts.clock.now(), set[Labels]()
        answering: list[Found] = []
        enough = None if wanted.query is not None else wanted.offset + wanted.limit
        for found in _items(await self._spaces(wanted.prefix)):
            if found.item.is_over(now):
                over.add(found.labels)
            elif answers(found.item.value, wanted.filter):
                answering.append(found)
            if enough is not None and len(answering) >= enough:
                break
        page = _ordered(answering, wanted.query)[wanted.offset : wanted.offset + wanted.limit]
        await self._read([found for found, _ in page] if wanted.refresh else [], over)
        return page

    async def _read(self, found: list[Found], over: set[Labels]) -> None:
        """Keep on what was read, and drop what is over where something was."""
        read: dict[Labels, set[str]] = {labels: set() for labels in over}
        for each in found:
            if each.item.ttl is not None:
                read.setdefault(each.labels, set()).add(each.key)
        for labels, keys in read.items():
            await self._touch(labels, keys, sweep=labels in over)

    async def namespaces(self, prefix: Labels = ()) -> list[Labels]:
        """The namespaces below a prefix that hold something."""
        now = self.parts.clock.now()
        spaces = await self._spaces(prefix)
        return [each.labels for each in spaces if any(not shelves.kept(raw).is_over(now) for _, raw in each.items)]

    async def put(self, labels: Labels, given: Mapping[str, Given]) -> None:
        """Put and delete items of a namespace, in one write."""
        now, since = self.parts.clock.now(), self.parts.engine.ids.sortable()
        await self._write(labels, lambda shelf: shelves.putting(shelf, given, now, since))

    async def is_new(self, labels: Labels) -> bool:
        """Whether a namespace was never put into, nor one below it."""
        return (await self._shelf(labels)).is_new

    async def name(self, above: Labels, labels: Iterable[str]) -> None:
        """Name namespaces in the one above them."""
        await self._write(above, lambda shelf: shelves.naming(shelf, labels))

    async def sweep(self) -> int:
        """Drop every item whose time has run out; return how many."""
        spaces = await self._spaces(())
        return sum([await self._touch(space.labels, set(), sweep=True) for space in spaces if space.items])

    async def prune(self, keep: int | Retention) -> PruneReport:
        """Drop what items were before, down to what a policy keeps of it."""
        await self.parts.ready()
        return await self.parts.maintenance.prune(self.namespace, policy_of(keep), user=self.user)

    def key(self, labels: Labels) -> ThreadKey:
        """The thread of a namespace."""
        return ThreadKey(self.namespace, self.user, shelves.thread_id(labels))

    async def _shelf(self, labels: Labels) -> Shelf:
        await self.parts.ready()
        return Shelf(labels, await self.parts.engine.head(self.key(labels)))

    async def _spaces(self, prefix: Labels) -> list[Space]:
        """The namespaces that begin with a prefix, in the order in which something was first put into them."""
        found: list[Space] = []
        waiting = [prefix]
        while waiting:
            shelf = await self._shelf(waiting.pop())
            found.append(Space(labels=shelf.labels, since=shelf.since, items=shelf.encoded()))
            waiting += [(*shelf.labels, label) for label in shelf.below]
        return sorted(found, key=lambda space: space.since)

    async def _touch(self, labels: Labels, read: set[str], *, sweep: bool) -> int:
        now, dropped = self.parts.clock.now(), 0

        def plan(shelf: Shelf) -> Change | None:
            nonlocal dropped
            change, dropped = shelves.touching(shelf, read, now, sweep=sweep)
            return change

        await self._write(labels, plan)
        return dropped

    async def _write(self, labels: Labels, plan: Plan) -> None:
        """Plan a change against the newest state of a namespace and make it; after a lost race, plan it again."""
        for _ in range(_TRIES):
            shelf = await self._shelf(labels)
            change, fresh = plan(shelf), shelf.is_new
            if change is None:
                return
            if fresh:
                await self._name(labels)
            try:
                await self._change(labels, change, shelf.version, fresh)
            except (VersionConflictError, NotFoundError):
                continue
            return
        raise StorageBusyError(f"namespace {labels!r}", f"other writers were first {_TRIES} times")

    async def _change(self, labels: Labels, change: Change, expected: int, fresh: bool) -> None:
        key = self.key(labels)
        await self.parts.engine.change(key, change, expected, Request(patch=_OURS if fresh else NO_PATCH))
        await self.parts.look_after(key)

    async def _name(self, labels: Labels) -> None:
        """Name a namespace in the one above it before it is made: one that nothing names would never be searched."""
        if labels:
            await self.name(labels[:-1], labels[-1:])


def _items(spaces: Iterable[Space]) -> Iterable[Found]:
    for space in spaces:
        for key, raw in space.items:
            yield Found(labels=space.labels, key=key, item=shelves.kept(raw))


def _ordered(found: list[Found], query: Sequence[float] | None) -> list[Scored[Found]]:
    if query is None:
        return [(each, None) for each in found]
    return ranked([(each, each.item.vectors.values()) for each in found], query)


def check(puts: Mapping[Labels, Mapping[str, Given]]) -> None:
    """Refuse what cannot be kept before anything is written, by its place in the value that was given."""
    for labels, given in puts.items():
        shelves.thread_id(labels)
        for key, each in given.items():
            if not key.isascii() and any("\ud800" <= char <= "\udfff" for char in key):
                raise InvalidInputError(f"the key {key!r} holds a lone surrogate, which databases cannot keep")
            if each.value is not None:
                encode(dict(each.value), root="value", subclasses="plain")
