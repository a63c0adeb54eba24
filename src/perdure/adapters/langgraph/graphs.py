"""Going on with graphs that wait: by the graphs that a saver was told of."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from langgraph.types import Command

from perdure.adapters.langgraph import interrupts
from perdure.adapters.langgraph.keeper import Keeper
from perdure.adapters.langgraph.places import KIND, Place
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.quarantine import check_run
from perdure.core.runs import DECIDED, PAUSED
from perdure.core.threads import ThreadQuery, ThreadRow
from perdure.core.times import to_datetime

Factory = Callable[[Any], Any]  # a saver to a compiled graph
_NAMES = ("graph", "graph_id")  # where the metadata of a checkpoint may name its graph


class Resumable(msgspec.Struct, frozen=True, kw_only=True):
    """A thread whose graph waits."""

    thread: str
    waits_for: Literal["an answer", "resume"]
    graph: str | None  # as its metadata names it
    since: datetime


class Graphs:
    """The graphs of a program, by name."""

    def __init__(self) -> None:
        self._made: dict[str, Factory] = {}

    def add(self, name: str, factory: Factory) -> None:
        """Tell of a graph: `factory` is given the saver and returns the graph compiled with it."""
        if not callable(factory):
            raise InvalidInputError(f"a graph is made by a function that is given the saver, not {factory!r}")
        self._made[name] = factory

    def find(self, saver: Any, name: str | None, metadata: Mapping[str, Any]) -> Any:
        """The graph of this name, of the name in the metadata, or the only one."""
        asked = name or next((metadata[each] for each in _NAMES if metadata.get(each) in self._made), None)
        if asked is None and len(self._made) == 1:
            asked = next(iter(self._made))
        if asked not in self._made:
            known = ", ".join(sorted(self._made)) or "none"
            raise NotFoundError(f"graph {asked!r}", f'tell the saver of it with @saver.graph("name"); it knows {known}')
        return self._made[asked](saver)


class Waiting(msgspec.Struct, frozen=True):
    """What is known of a thread that is to go on."""

    metadata: dict[str, Any]
    answers: dict[str, Any]


async def waiting(keeper: Keeper, thread: str) -> Waiting:
    """The newest metadata of a thread, and what was decided about its interrupts."""
    await keeper.parts.ready()
    key = keeper.key(Place(thread))
    row, found = await keeper.parts.storage.thread(key), await keeper.newest(key)
    if row is None or found is None:
        raise NotFoundError(f"a checkpoint of thread {thread!r}")
    check_run(row)
    return Waiting(found, await interrupts.answers(keeper.parts, row))


def next_input(thread: str, state: Any, answers: Mapping[str, Any]) -> Any:
    """What the graph of a thread is invoked with to go on; raise `InvalidInputError` when it cannot."""
    pending = [each.id for each in state.interrupts]
    given = {each: answers[each] for each in pending if each in answers}
    if pending and not given:
        raise InvalidInputError(
            f"thread {thread!r} waits for {len(pending)} answers; store.pauses() lists the questions"
        )
    if not pending and not state.next:
        raise InvalidInputError(f"the graph of thread {thread!r} is at its end: there is nothing to resume")
    return Command(resume=given) if given else None


async def resumable(keeper: Keeper, limit: int) -> list[Resumable]:
    """The threads whose graphs wait for an answer, or for being resumed with one; those that changed last first."""
    await keeper.parts.ready()
    rows: list[ThreadRow] = []
    for status in (DECIDED, PAUSED):
        query = ThreadQuery(namespace=keeper.namespace, user=keeper.user, agent=KIND, status=status, limit=limit)
        rows += [row for row in await keeper.parts.storage.threads(query) if not row.is_quarantined]
    rows.sort(key=lambda row: (row.updated, row.uid), reverse=True)
    return [await _told(keeper, row) for row in rows[:limit]]


async def _told(keeper: Keeper, row: ThreadRow) -> Resumable:
    metadata = await keeper.newest(row.key) or {}
    named = next((str(metadata[each]) for each in _NAMES if metadata.get(each)), None)
    waits_for: Literal["an answer", "resume"] = "resume" if row.status == DECIDED else "an answer"
    return Resumable(thread=row.key.id, waits_for=waits_for, graph=named, since=to_datetime(row.updated))
