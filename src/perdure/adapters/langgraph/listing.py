"""Listing checkpoints: lines first, then states, each thread folded once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from perdure.adapters.langgraph import writes
from perdure.adapters.langgraph.keeper import Found, Keeper
from perdure.adapters.langgraph.layout import Values, checkpoint_in
from perdure.adapters.langgraph.places import KIND, Place, checkpoint_id, thread_in
from perdure.core.alike import Alike
from perdure.core.calls import told
from perdure.core.checkpoint import CheckpointQuery, CheckpointRow, metadata_in
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadQuery, ThreadRow

_PAGE = 100
_ASKED = 4  # questions for what was written for the checkpoints of one thread
PLAIN = Values()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints to list, newest first."""

    thread: str | None = None
    ns: str | None = None  # None: of the graph and of all its subgraphs
    checkpoint: str | None = None
    filter: Mapping[str, Any] = {}
    before: str | None = None
    limit: int | None = None
    values: Values = PLAIN


class Line(msgspec.Struct, frozen=True):
    """A checkpoint that answers, not read yet."""

    key: ThreadKey
    place: Place
    row: CheckpointRow


async def lines(keeper: Keeper, wanted: Wanted) -> list[Line]:
    """The lines of the checkpoints that answer, by their ids, newest first. Reads no state."""
    found: list[Line] = []
    for key, thread in await threads(keeper, wanted.thread, wanted.ns):
        ns = key.id if key.namespace != keeper.namespace else ""
        async for row in _rows(keeper, key, wanted):
            found.append(Line(key, Place(thread, ns, checkpoint_id(row.mark.id)), row))
    found.sort(key=lambda line: line.place.checkpoint or "", reverse=True)
    return found if wanted.limit is None else found[: wanted.limit]


async def threads(keeper: Keeper, thread: str | None, ns: str | None = None) -> list[tuple[ThreadKey, str]]:
    """The threads of ours that keep a thread of LangGraph (None: all of them), with that thread's id."""
    await keeper.parts.ready()
    if thread is not None and ns is not None:
        return [(keeper.key(Place(thread, ns)), thread)]
    if thread is not None:
        root, below = keeper.key(Place(thread)), keeper.key(Place(thread, "-")).namespace
        return [(root, thread), *((row.key, thread) for row in await _directory(keeper, below))]
    found = [(row.key, row.key.id) for row in await _directory(keeper, keeper.namespace) if row.agent == KIND]
    for namespace in await keeper.parts.storage.namespaces():
        name = thread_in(keeper.namespace, namespace)
        if name is not None:
            found += [(row.key, name) for row in await _directory(keeper, namespace)]
    return [each for each in found if ns is None or (each[0].id if each[0].namespace != keeper.namespace else "") == ns]


async def _directory(keeper: Keeper, namespace: str) -> list[ThreadRow]:
    found: list[ThreadRow] = []
    query = ThreadQuery(namespace=namespace, user=keeper.user, limit=_PAGE)
    while True:
        page = await keeper.parts.storage.threads(query)
        found += page
        if len(page) < _PAGE:
            return found
        query = msgspec.structs.replace(query, before=(page[-1].updated, page[-1].uid))


async def _rows(keeper: Keeper, key: ThreadKey, wanted: Wanted) -> AsyncIterator[CheckpointRow]:
    """The lines of one thread, each checkpoint once: one that was put again counts as it was put last."""
    seen: set[str] = set()
    query = CheckpointQuery(kind=KIND, metadata=wanted.filter or None, limit=_page(wanted))
    while True:
        page = await keeper.parts.storage.checkpoints(key, query)
        for row in page:
            if row.mark.id not in seen and _answers(row, wanted):
                seen.add(row.mark.id)
                yield row
        if len(page) < query.limit or (wanted.limit is not None and len(seen) >= wanted.limit):
            return
        query = msgspec.structs.replace(query, before=page[-1].mark.id)


def _page(wanted: Wanted) -> int:
    alone = wanted.before is None and wanted.checkpoint is None
    return min(wanted.limit, _PAGE) if wanted.limit and alone else _PAGE


def _answers(row: CheckpointRow, wanted: Wanted) -> bool:
    id = checkpoint_id(row.mark.id)
    return (wanted.before is None or id < wanted.before) and wanted.checkpoint in (None, id)


async def found(keeper: Keeper, wanted: Wanted) -> list[Found]:
    """The checkpoints that answer, newest first."""
    listed = await lines(keeper, wanted)
    threads: dict[ThreadKey, list[Line]] = {}
    for line in listed:
        threads.setdefault(line.key, []).append(line)
    read = [await _read(keeper, key, mine, wanted) for key, mine in threads.items()]
    by_place = {each.place: each for mine in read for each in mine}
    return [by_place[line.place] for line in listed if line.place in by_place]


async def _read(keeper: Keeper, key: ThreadKey, mine: list[Line], wanted: Wanted) -> list[Found]:
    """The checkpoints of one thread: its log is folded once, and what neighbours share is decoded once."""
    by_version: dict[int, list[Line]] = {}
    for line in mine:
        by_version.setdefault(line.row.version, []).append(line)
    written = await _written(keeper, key, mine, wanted)
    alike, made = Alike(), list[Found]()
    async for version, document in keeper.parts.engine.walk(key, sorted(by_version)):
        for line in by_version[version]:
            made.append(_found(line, alike.build(document), written.get(line.place.checkpoint or "", []), wanted))
    return made


def _found(line: Line, state: dict[str, Any], calls: list[writes.Written], wanted: Wanted) -> Found:
    checkpoint, parent = checkpoint_in(state, line.place.checkpoint or "", wanted.values)
    return Found(
        place=line.place,
        checkpoint=checkpoint,
        metadata=metadata_in(line.row.mark.metadata),
        parent=parent,
        writes=[(task, name, wanted.values.given(value)) for task, name, value in writes.merged(calls)],
    )


async def _written(keeper: Keeper, key: ThreadKey, mine: list[Line], wanted: Wanted) -> dict[str, list[writes.Written]]:
    """What tasks wrote for these checkpoints. Ids of one time begin alike: a few questions find what all of them have.

    With a filter, those that answer may lie far apart, and between them is what nobody asked for.
    """
    ids = {line.place.checkpoint or "" for line in mine}
    begins = writes.begins(ids, len(ids) if wanted.filter else _ASKED)
    found: dict[str, list[writes.Written]] = {}
    for begin in begins:
        for entry in await keeper.parts.storage.under(key, begin):
            call = told(key.id, entry, writes.decode_written) if entry.payload else None
            if call is not None and call.checkpoint in ids:
                found.setdefault(call.checkpoint, []).append(call)
    return found
