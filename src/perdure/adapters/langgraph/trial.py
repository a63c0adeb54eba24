"""Trying Perdure beside the saver that is in use: both are written, what is read is compared, and either can go."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_MOST = 100  # differences that are kept word for word


class Difference(msgspec.Struct, frozen=True):
    """Where the two savers do not tell the same."""

    call: str  # "get_tuple", "list", "put" …
    thread: str
    checkpoint: str | None
    place: str  # where in the answer
    ours: str
    theirs: str

    def __str__(self) -> str:
        point = f" {self.checkpoint}" if self.checkpoint else ""
        return f"{self.call} {self.thread}{point}: {self.place}: here {self.ours}, there {self.theirs}"


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial showed so far."""

    writes: int
    compared: int
    different: int
    failed: int  # calls that the other saver did not survive; ours raises by itself
    differences: tuple[Difference, ...]  # the first ones
    our_bytes: int | None
    their_bytes: int | None

    def __str__(self) -> str:
        sizes = "" if self.our_bytes is None else f", {self.our_bytes:,} bytes here"
        sizes += "" if self.their_bytes is None else f", {self.their_bytes:,} bytes there"
        lines = [f"{self.writes:,} writes, {self.compared:,} reads compared, {self.different:,} different{sizes}"]
        return "\n".join([*lines, *map(str, self.differences)])


class Trial:
    """The other saver, and what comparing with it showed."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self._lock = threading.Lock()
        self._counts = {"writes": 0, "compared": 0, "different": 0, "failed": 0}
        self._differences: list[Difference] = []

    def write(self, call: str, thread: str, work: Callable[[], Any]) -> None:
        """Write to the other saver too. What it raises is noted: a trial must not cost a run."""
        self._count("writes")
        try:
            work()
        except Exception as exc:
            self._failed(call, thread, exc)

    async def awrite(self, call: str, thread: str, work: Callable[[], Any]) -> None:
        """`write` for asynchronous code."""
        self._count("writes")
        try:
            await work()
        except Exception as exc:
            self._failed(call, thread, exc)

    def read(self, call: str, thread: str, work: Callable[[], Any]) -> Any:
        """What the other saver reads; None when it raises."""
        try:
            return work()
        except Exception as exc:
            return self._failed(call, thread, exc)

    async def aread(self, call: str, thread: str, work: Callable[[], Any]) -> Any:
        """`read` for asynchronous code."""
        try:
            return await work()
        except Exception as exc:
            return self._failed(call, thread, exc)

    def compare(self, call: str, thread: str, ours: Any, theirs: Any) -> None:
        """Compare two tuples, or None where there is none."""
        self._count("compared")
        found = first_difference(_told(ours), _told(theirs), "")
        if found is not None:
            self._count("different")
            id = None if ours is None else ours.checkpoint["id"]
            self._keep(Difference(call, thread, id, *found))

    def report(self, our_bytes: int | None, their_bytes: int | None) -> TrialReport:
        """What was seen so far."""
        with self._lock:
            return TrialReport(
                **self._counts, differences=tuple(self._differences), our_bytes=our_bytes, their_bytes=their_bytes
            )

    def _failed(self, call: str, thread: str, error: Exception) -> None:
        self._count("failed")
        self._keep(Difference(call, thread, None, "(it failed)", "done", repr(error)[:200]))

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _keep(self, difference: Difference) -> None:
        with self._lock:
            if len(self._differences) < _MOST:
                self._differences.append(difference)


def _told(found: Any) -> Any:
    if found is None:
        return None
    parent = found.parent_config and found.parent_config["configurable"].get("checkpoint_id")
    writes = [list(each) for each in found.pending_writes or []]
    return {"checkpoint": dict(found.checkpoint), "metadata": dict(found.metadata), "parent": parent, "writes": writes}


def first_difference(ours: Any, theirs: Any, place: str) -> tuple[str, str, str] | None:
    """Where two values first differ, and how; None when they are the same, types included.

    A tuple is let for a list: LangGraph's own serializer makes one of the other.
    """
    listed = isinstance(ours, list | tuple) and isinstance(theirs, list | tuple)
    if type(ours) is not type(theirs) and not listed:
        return place or ".", _short(ours), _short(theirs)
    if isinstance(ours, Mapping):
        names = [*ours, *(name for name in theirs if name not in ours)]
        pairs = ((f"{place}.{name}", ours.get(name, "(none)"), theirs.get(name, "(none)")) for name in names)
        return next((found for at, one, two in pairs if (found := first_difference(one, two, at))), None)
    if listed and len(ours) == len(theirs):
        each = enumerate(zip(ours, theirs, strict=True))
        return next((found for at, (one, two) in each if (found := first_difference(one, two, f"{place}[{at}]"))), None)
    return None if ours == theirs or repr(ours) == repr(theirs) else (place or ".", _short(ours), _short(theirs))


def _short(value: Any) -> str:
    return f"{type(value).__name__} {repr(value)[:80]}"


def bytes_of(saver: Any) -> int | None:
    """How many bytes the other saver takes, where that can be asked: its SQLite file, or its tables."""
    conn: Any = getattr(saver, "conn", None)
    if type(conn).__module__ != "sqlite3":
        return None
    pages, size = (conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return pages * size
