"""What stands in the tables of LangGraph's own savers, read and never written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.types import Opaque

POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"


class Spot(msgspec.Struct, frozen=True, order=True):
    """The checkpoints of a graph, or of one of its subgraphs, in one thread."""

    thread: str
    ns: str
    count: int


class Pending(msgspec.Struct, frozen=True):
    """What a task wrote for a checkpoint, as it is kept there."""

    path: str
    task: str
    index: int
    channel: str
    value: Opaque


class Theirs(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as it is kept there: its values are bytes that nobody has read yet."""

    place: Place
    parent: str | None
    rest: dict[str, Opaque]  # the checkpoint without the values of its channels
    values: dict[str, Opaque]
    metadata: dict[str, Any]


class Source(Protocol):
    """A database of LangGraph's."""

    place: str  # for people: nothing that may be a password

    def spots(self) -> list[Spot]:
        """Where checkpoints are, by thread, the graph's own before those of its subgraphs."""
        ...

    def weight(self, threads: Sequence[str]) -> int:
        """How many bytes the rows of these threads take, without indexes."""
        ...

    def ids(self, thread: str, ns: str) -> Iterator[str]:
        """The ids of checkpoints in rising order."""
        ...

    def get(self, place: Place) -> tuple[Theirs, list[Pending]] | None:
        """One checkpoint with what was written for it, both as of one moment; None when it is gone."""
        ...

    def pending(self, place: Place) -> list[Pending]:
        """What was written for a checkpoint, in the order in which a step applies it."""
        ...


def opened(source: str) -> AbstractContextManager[Source]:
    """The database of a SQLite file or at a PostgreSQL address; nothing in it can be changed through this."""
    if source.startswith(POSTGRES):
        from perdure.adapters.langgraph.theirs_postgres import PostgresSource

        return PostgresSource.opened(source)
    from perdure.adapters.langgraph.theirs_sqlite import SqliteSource

    return SqliteSource.opened(file_of(source))


def file_of(source: str) -> str:
    """The path of a SQLite file that was named by its path or by an address."""
    return source.removeprefix(_SQLITE)


def in_order(pending: list[Pending]) -> list[Pending]:
    """In the order in which a step applies it."""
    return sorted(pending, key=lambda each: (each.path, each.task, each.index))
