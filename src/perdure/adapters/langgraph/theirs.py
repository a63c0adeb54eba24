"""What stands in the tables of LangGraph's own savers, read and never written."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.types import Opaque
from perdure.core.errors import InvalidInputError, StorageDamagedError

POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"
_ROW_BYTES = 500  # that a row takes here beside its values
LONGEST_ID = 512  # characters
TEXT, MAYBE_TEXT = (str,), (str, type(None))
BYTES, MAYBE_BYTES = (bytes,), (bytes, type(None))
NUMBER = (int,)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is read of a database that may be hostile, before a thread is given up."""

    max_rows: int = 1_000_000  # checkpoints of a thread; threads of the database
    max_bytes: int = 64 << 20  # of a checkpoint with everything that was written for it
    max_seconds: float = 600.0  # for a thread; for the list of threads

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_bytes", "max_seconds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 40:
                raise InvalidInputError(f"{name} must be a number above 0, not {value!r}")


UNBOUNDED = Bounds(max_rows=(1 << 40) - 1, max_bytes=(1 << 31) - 1, max_seconds=1e9)


class Unreadable(StorageDamagedError):
    """Something in the database cannot be read, or is more than is read: its thread is skipped."""


class Limits:
    """The bounds of an import, and how much time and how many bytes are left."""

    def __init__(self, place: str, bounds: Bounds) -> None:
        self._place = place
        self.bounds = bounds
        self._deadline: float | None = None

    def start(self) -> None:
        """From now on, for the next thread."""
        self._deadline = time.monotonic() + self.bounds.max_seconds

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self.bounds.max_seconds if self._deadline is None else self._deadline - time.monotonic()

    def check_time(self) -> None:
        """Raise `Unreadable` when the time is over."""
        if self.left <= 0:
            raise self.late()

    def late(self) -> Unreadable:
        """The time is over."""
        told = f"it takes longer than {self.bounds.max_seconds:g} seconds; allow more with max_seconds"
        return Unreadable(self._place, f"{told}, or import it again: what was written stays")

    def rows(self, found: Sequence[Any], what: str) -> None:
        """Raise `Unreadable` when these are more rows than are read."""
        if len(found) > self.bounds.max_rows:
            raise Unreadable(self._place, f"{what} are more than {self.bounds.max_rows:,}; allow more with max_rows")

    def size(self, sizes: int, rows: int, place: Place) -> None:
        """Raise `Unreadable` when a checkpoint is larger than is read."""
        if sizes + rows * _ROW_BYTES > self.bounds.max_bytes:
            raise self.large(place)

    def large(self, place: Place) -> Unreadable:
        """A checkpoint is too large."""
        told = f"with what was written for it, it is larger than {self.bounds.max_bytes:,} bytes"
        return self.unreadable(place, f"{told}; allow more with max_bytes")

    def unreadable(self, place: Place, reason: str) -> Unreadable:
        """A checkpoint cannot be read."""
        point = f"checkpoint {str(place.checkpoint)[:LONGEST_ID]!r} of " if place.checkpoint else ""
        return Unreadable(self._place, f"{point}thread {place.thread!r}: {reason}")

    def row(self, place: Place, row: Sequence[Any], kinds: Mapping[str, tuple[type, ...]]) -> None:
        """Raise `Unreadable` for a value of another type than its column has."""
        for (name, kind), value in zip(kinds.items(), row, strict=True):
            if not isinstance(value, kind):
                raise self.unreadable(place, f"{name} is {type(value).__name__}, not {kind[0].__name__}")

    def mapping(self, place: Place, data: str | bytes, name: str) -> dict[str, Any]:
        """A JSON object."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise self.unreadable(place, f"{name} is no JSON ({str(exc)[:200]})") from exc
        if not isinstance(found, dict):
            raise self.unreadable(place, f"{name} is {type(found).__name__}, not a mapping")
        return found


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
    limits: Limits
    unnamed: int  # checkpoints whose thread has no id that can be used, as `spots` found them

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


def opened(source: str, bounds: Bounds = UNBOUNDED) -> AbstractContextManager[Source]:
    """The database of a SQLite file or at a PostgreSQL address; nothing in it can be changed through this."""
    if source.startswith(POSTGRES):
        from perdure.adapters.langgraph.theirs_postgres import PostgresSource

        return PostgresSource.opened(source, bounds)
    from perdure.adapters.langgraph.theirs_sqlite import SqliteSource

    return SqliteSource.opened(file_of(source), bounds)


def file_of(source: str) -> str:
    """The path of a SQLite file that was named by its path or by an address."""
    return source.removeprefix(_SQLITE)


def named_spots(rows: Iterable[tuple[Any, Any, int]]) -> tuple[list[Spot], int]:
    """The spots of rows, and how many checkpoints have no id that can be used."""
    spots, unnamed = list[Spot](), 0
    for thread, ns, count in rows:
        if all(isinstance(each, str) and len(each) <= LONGEST_ID for each in (thread, ns)):
            spots.append(Spot(thread, ns, count))
        else:
            unnamed += count
    return spots, unnamed


def in_order(pending: list[Pending]) -> list[Pending]:
    """In the order in which a step applies it."""
    return sorted(pending, key=lambda each: (each.path, each.task, each.index))
