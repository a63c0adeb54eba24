"""LangGraph's long-term store on any storage of Perdure: one class, synchronous and asynchronous."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from math import isfinite
from typing import Any, Self

from perdure.core.errors import InvalidInputError
from perdure.core.extras import missing

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )
except ImportError as exc:
    raise missing("perdure.adapters.langgraph", "langgraph") from exc

from perdure import sync
from perdure.adapters.langgraph import types as classes
from perdure.adapters.langgraph.indexing import NOTHING, Embedded, Index, Put
from perdure.adapters.langgraph.matching import listed, matches
from perdure.adapters.langgraph.memories import Found, Memories, Wanted, check
from perdure.adapters.langgraph.shelf import Given, Labels
from perdure.adapters.langgraph.sides import Closing, Sides
from perdure.adapters.langgraph.together import Together
from perdure.app.maintenance import PruneReport
from perdure.app.parts import Parts
from perdure.app.store import Perdure
from perdure.core.retention_policy import Retention
from perdure.core.times import to_datetime

_MINUTE = 60_000_000
_KNOWN = 10_000  # namespaces that need not be asked for again


class PerdureStore(BaseStore, Closing):
    """Keeps what graphs remember across threads: `builder.compile(checkpointer=saver, store=PerdureStore(store))`.

    It may share its database with a `PerdureSaver`; `store.threads()` does not show it. A put is one write: once it
    returns it is kept, puts of different keys at the same time both stand, and of the same key the last one does.
    Several puts of one `batch` are one write for each namespace.

    `index` is LangGraph's `IndexConfig`: with it `search(query=…)` sorts by meaning, and the vectors are kept with the
    items. Without one `query` is ignored, as by LangGraph's own stores. `ttl` is its `TTLConfig`: an item whose time
    has run out is never read; it is dropped by the next read that meets it, or by `sweep_ttl`. `types` are classes
    whose objects may stand in values.

    What an item was before it was put again or deleted stays in the log until `prune`, or the `retention` of the store,
    drops it.
    """

    supports_ttl = True

    def __init__(
        self,
        store: Perdure | sync.Perdure | None = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        types: Sequence[Any] = (),
        user: str | None = None,
        url: str = "",
        **options: Any,
    ) -> None:
        classes.allow_known()
        classes.allow(types)
        self.ttl_config = ttl
        self.index_config = index
        self._index = None if index is None else Index(index)
        self._user = user or ""
        self._puts: Together[dict[str, Given]] = Together()
        self._names: Together[str] = Together()
        self._known: set[Labels] = set()
        self._naming: dict[tuple[asyncio.AbstractEventLoop, Labels], asyncio.Future[None]] = {}
        self._sides = Sides(store, url, options, self._memories, type(self).__name__)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        types: Sequence[Any] = (),
        user: str | None = None,
        **options: Any,
    ) -> Self:
        """A long-term store at `url`, for synchronous and asynchronous graphs; `options` are those of the store.

        Use it as a context manager, `with` or `async with`, or call `close`.
        """
        return cls(url=url, index=index, ttl=ttl, types=types, user=user, **options)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """`open` under the name that LangGraph's own stores have for it."""
        return cls.open(conn_string, **options)

    def _memories(self, parts: Parts, namespace: str) -> Memories:
        return Memories(parts, namespace, self._user)

    def setup(self) -> None:
        """Make or upgrade the layout of the storage; the first use does so too."""
        self._sides.run(_ready)

    async def asetup(self) -> None:
        """`setup` for asynchronous code."""
        await self._sides.arun(_ready)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations. All reads come before all writes; of two puts of one key the later one counts.

        Raises `UnsupportedValueError` naming the place of a value that cannot be kept; then nothing was written.
        """
        ops = list(ops)
        puts = _puts(ops)
        embedded = NOTHING if self._index is None else self._index.embed(puts, _searches(ops))
        given = _given(puts, embedded)
        return self._sides.run(lambda memories: _done(memories, ops, given, embedded))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` for asynchronous code. Puts of one namespace that come at the same moment are one write."""
        ops = list(ops)
        puts = _puts(ops)
        embedded = NOTHING if self._index is None else await self._index.aembed(puts, _searches(ops))
        given = _given(puts, embedded)
        results: list[Result] = [None] * len(ops)
        if not all(isinstance(op, PutOp) for op in ops):
            results = await self._sides.arun(lambda memories: _done(memories, ops, {}, embedded))
        for labels, each in given.items():
            await self._aput(labels, each)
        return results

    async def _aput(self, labels: Labels, given: dict[str, Given]) -> None:
        place = asyncio.get_running_loop(), labels
        if place in self._naming or labels not in self._known:
            await self._named(place)
        await self._puts.write(labels, given, partial(self._put_all, labels))
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known.add(labels)

    async def _named(self, place: tuple[asyncio.AbstractEventLoop, Labels]) -> None:
        """Name a new namespace, once for all puts that come meanwhile, which go on in the order they came in.

        When each looked for itself, the later of two puts of one key could be overtaken by the earlier one.
        """
        naming = self._naming.get(place)
        if naming is None:
            self._naming[place] = naming = asyncio.ensure_future(self._name_if_new(place[1]))
            naming.add_done_callback(lambda _: self._naming.pop(place, None))
        await asyncio.shield(naming)

    async def _name_if_new(self, labels: Labels) -> None:
        if await self._sides.arun(lambda memories: memories.is_new(labels)):
            for depth, label in enumerate(labels):
                await self._names.write(labels[:depth], label, partial(self._name_all, labels[:depth]))

    async def _name_all(self, above: Labels, labels: list[str]) -> None:
        await self._sides.arun(lambda memories: memories.name(above, labels))

    async def _put_all(self, labels: Labels, given: list[dict[str, Given]]) -> None:
        merged: dict[str, Given] = {}
        for each in given:
            merged.update(each)
        await self._sides.arun(lambda memories: memories.put(labels, merged))

    def sweep_ttl(self) -> int:
        """Drop every item whose time has run out; return how many there were."""
        return self._sides.run(lambda memories: memories.sweep())

    async def asweep_ttl(self) -> int:
        """`sweep_ttl` for asynchronous code."""
        return await self._sides.arun(lambda memories: memories.sweep())

    def prune(self, keep: int | Retention = 1) -> PruneReport:
        """Drop what items were before, down to the newest `keep` versions of each namespace, or what a policy keeps."""
        return self._sides.run(lambda memories: memories.prune(keep))

    async def aprune(self, keep: int | Retention = 1) -> PruneReport:
        """`prune` for asynchronous code."""
        return await self._sides.arun(lambda memories: memories.prune(keep))


async def _ready(memories: Memories) -> None:
    await memories.parts.ready()


def _puts(ops: list[Op]) -> dict[Put, PutOp]:
    return {(tuple(op.namespace), str(op.key)): op for op in ops if isinstance(op, PutOp)}


def _searches(ops: list[Op]) -> list[SearchOp]:
    return [op for op in ops if isinstance(op, SearchOp)]


async def _done(
    memories: Memories, ops: list[Op], given: dict[Labels, dict[str, Given]], embedded: Embedded
) -> list[Result]:
    results = [await _read(memories, op, embedded) for op in ops]
    for labels, each in given.items():
        await memories.put(labels, each)
    return results


async def _read(memories: Memories, op: Op, embedded: Embedded) -> Result:
    """The answer to an operation; a put has none."""
    if isinstance(op, GetOp):
        found = await memories.get(tuple(op.namespace), str(op.key), op.refresh_ttl)
        return None if found is None else Item(**_shown(found))
    if isinstance(op, SearchOp):
        page = await memories.search(_wanted(op, embedded))
        return [SearchItem(**_shown(found), score=score) for found, score in page]
    if isinstance(op, ListNamespacesOp):
        return await _namespaces(memories, op)
    if not isinstance(op, PutOp):
        raise InvalidInputError(f"a batch takes GetOp, PutOp, SearchOp and ListNamespacesOp, not {op!r}")
    return None


def _wanted(op: SearchOp, embedded: Embedded) -> Wanted:
    return Wanted(
        prefix=tuple(op.namespace_prefix),
        filter=op.filter,
        query=embedded.queries.get(op.query) if op.query else None,
        offset=op.offset,
        limit=op.limit,
        refresh=op.refresh_ttl,
    )


async def _namespaces(memories: Memories, op: ListNamespacesOp) -> list[Labels]:
    conditions = op.match_conditions or ()
    found = await memories.namespaces(_beginning(op))
    fitting = [labels for labels in found if all(matches(labels, each.match_type, each.path) for each in conditions)]
    return listed(fitting, op.max_depth, op.offset, op.limit)


def _beginning(op: ListNamespacesOp) -> Labels:
    """Labels with which every namespace that is listed begins: nothing else has to be read."""
    paths = [each.path for each in op.match_conditions or () if each.match_type == "prefix"]
    path = tuple(paths[0]) if paths else ()
    return path[: path.index("*")] if "*" in path else path


def _given(puts: dict[Put, PutOp], embedded: Embedded) -> dict[Labels, dict[str, Given]]:
    """What is put, by namespace and key; everything is checked before anything is written."""
    given: dict[Labels, dict[str, Given]] = {}
    for (labels, key), op in puts.items():
        if op.value is not None and not isinstance(op.value, dict):
            raise InvalidInputError(f"the value of {key!r} must be a dict, not {op.value!r}")
        vectors = embedded.puts.get((labels, key), {})
        given.setdefault(labels, {})[key] = Given(value=op.value, ttl=_micros(op.ttl), vectors=vectors)
    check(given)
    return given


def _micros(ttl: float | None) -> int | None:
    if ttl is not None and not isfinite(ttl * _MINUTE):
        raise InvalidInputError(f"ttl is a number of minutes, or None for ever, not {ttl!r}")
    return None if ttl is None else round(ttl * _MINUTE)


def _shown(found: Found) -> dict[str, Any]:
    return {
        "namespace": found.labels,
        "key": found.key,
        "value": found.item.value,
        "created_at": to_datetime(found.item.created),
        "updated_at": to_datetime(found.item.updated),
    }
