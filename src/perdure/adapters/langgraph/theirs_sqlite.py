"""The tables of LangGraph's SqliteSaver: a checkpoint is one value, with all of its channels in it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self
from urllib.parse import quote

import msgspec

from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.theirs import Pending, Spot, Theirs, in_order
from perdure.adapters.langgraph.types import Opaque
from perdure.core.errors import (
    NotAStorageError,
    NotFoundError,
    PerdureError,
    StorageBusyError,
    StorageDamagedError,
    StorageUnavailableError,
)

_COLUMNS = "SELECT name FROM pragma_table_info(?)"
_SPOTS = "SELECT thread_id, checkpoint_ns, count(*) FROM checkpoints GROUP BY 1, 2 ORDER BY 1, 2"
_IDS = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"
_GET = """SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
_WRITES = """SELECT {path}, task_id, idx, channel, type, value FROM writes
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
# Lengths stand at the beginning of a row: no value is read for them.
_WEIGHTS = (
    "SELECT sum(length(checkpoint) + ifnull(length(metadata), 0)) FROM checkpoints WHERE thread_id = ?",
    "SELECT sum(ifnull(length(value), 0)) FROM writes WHERE thread_id = ?",
)
_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode


class SqliteSource:
    """A file of the SqliteSaver or the AsyncSqliteSaver."""

    def __init__(self, place: str, db: sqlite3.Connection) -> None:
        self.place = place
        self._db = db
        path = "task_path" if "task_path" in self._columns("writes") else "''"  # absent from files of early releases
        self._writes = _WRITES.format(path=path)

    @classmethod
    @contextmanager
    def opened(cls, path: str) -> Generator[Self]:
        """The file, opened so that it cannot be written."""
        if not os.path.isfile(path):
            raise NotFoundError(f"file {path!r}")
        with _said(path):
            db = _connected(os.path.abspath(path))
        with closing(db):
            with _said(path):
                source = cls(path, db)
                source.check()
            yield source

    def check(self) -> None:
        """Raise `NotAStorageError` when the tables are not LangGraph's."""
        if "checkpoint_ns" not in self._columns("checkpoints") or not self._columns("writes"):
            raise NotAStorageError(self.place, "has no checkpoints of LangGraph's SqliteSaver")

    def _columns(self, table: str) -> set[str]:
        return {name for (name,) in self._db.execute(_COLUMNS, (table,))}

    def spots(self) -> list[Spot]:
        """Where checkpoints are."""
        with _said(self.place):
            return [Spot(*row) for row in self._db.execute(_SPOTS)]

    def weight(self, threads: Sequence[str]) -> int:
        """How many bytes the rows of these threads take."""
        with _said(self.place):
            return sum(self._db.execute(sql, (name,)).fetchone()[0] or 0 for name in threads for sql in _WEIGHTS)

    def ids(self, thread: str, ns: str) -> Iterator[str]:
        """The ids of checkpoints in rising order."""
        with _said(self.place):
            yield from [id for (id,) in self._db.execute(_IDS, (thread, ns))]

    def get(self, place: Place) -> tuple[Theirs, list[Pending]] | None:
        """One checkpoint with what was written for it."""
        with _said(self.place), self._one_moment():
            row = self._db.execute(_GET, (place.thread, place.ns, place.checkpoint)).fetchone()
            pending = self._pending(place)
        if row is None:
            return None
        parent, type, data, metadata = row
        rest, values = _parts(self.place, place, type or "json", data)
        return (
            Theirs(place=place, parent=parent or None, rest=rest, values=values, metadata=json.loads(metadata or "{}")),
            pending,
        )

    @contextmanager
    def _one_moment(self) -> Generator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def pending(self, place: Place) -> list[Pending]:
        """What was written for a checkpoint."""
        with _said(self.place):
            return self._pending(place)

    def _pending(self, place: Place) -> list[Pending]:
        rows = self._db.execute(self._writes, (place.thread, place.ns, place.checkpoint))
        return in_order(
            [
                Pending(path, task, at, name, Opaque(type or "json", value or b""))
                for path, task, at, name, type, value in rows
            ]
        )


def _connected(path: str) -> sqlite3.Connection:
    """A connection that cannot write, also where the folder cannot be written either."""
    uri = f"file:{quote(path)}?mode=ro"
    try:
        return _tried(uri)
    except sqlite3.OperationalError:
        if os.path.exists(f"{path}-wal"):
            raise  # somebody may be writing: what is not in the file yet would be missed
        return _tried(f"{uri}&immutable=1")


def _tried(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _parts(file: str, place: Place, type: str, data: bytes) -> tuple[dict[str, Opaque], dict[str, Opaque]]:
    """The parts of a checkpoint, each as bytes of its own: values that did not change need not be read again."""
    if type not in ("msgpack", "json"):
        reason = f"checkpoint {place.checkpoint} of thread {place.thread!r} is kept as {type!r}"
        raise NotAStorageError(file, f"{reason}; only what LangGraph's serializer keeps as msgpack or json can be read")
    try:
        split = _split_packed if type == "msgpack" else _split_json
        rest = split(data)
        values = split(rest.pop("channel_values", None))
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError) as exc:
        raise StorageDamagedError(file, f"checkpoint {place.checkpoint} of {place.thread!r}: {exc}") from exc
    return ({name: Opaque(type, part) for name, part in rest.items()},
            {name: Opaque(type, part) for name, part in values.items()})  # fmt: skip


def _split_packed(data: bytes | None) -> dict[str, bytes]:
    return {name: bytes(part) for name, part in _fields(data).items()} if data else {}


def _split_json(data: bytes | None) -> dict[str, bytes]:
    parts: dict[str, Any] = json.loads(data) if data else {}
    return {name: json.dumps(part).encode() for name, part in parts.items()}


@contextmanager
def _said(place: str) -> Generator[None]:
    """The errors of SQLite in our words."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _translated(place, exc) from exc


def _translated(place: str, exc: sqlite3.Error) -> PerdureError:
    words = str(exc)
    if "not a database" in words:
        return NotAStorageError(place, words)
    if "locked" in words:
        return StorageBusyError(place, words)
    return StorageDamagedError(place, words) if "malformed" in words else StorageUnavailableError(place, words)
