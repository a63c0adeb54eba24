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

from perdure.adapters.langgraph.packed import check_json
from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.theirs import (
    BYTES,
    LONGEST_ID,
    MAYBE_BYTES,
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    UNBOUNDED,
    Bounds,
    Limits,
    Pending,
    Spot,
    Theirs,
    Unreadable,
    in_order,
    named_spots,
)
from perdure.adapters.langgraph.types import Opaque
from perdure.core.errors import (
    NotAStorageError,
    NotFoundError,
    PerdureError,
    StorageBusyError,
    StorageDamagedError,
    StorageUnavailableError,
)

_SQL = "SELECT sql FROM sqlite_master WHERE name = ?"
_TABLE = "CREATE TABLE "  # how SQLite keeps the statement of one; a view or a virtual table may run anything
_SPOTS = "SELECT thread_id, checkpoint_ns, count(*) FROM checkpoints GROUP BY 1, 2 ORDER BY 1, 2 LIMIT ?"
_IDS = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id LIMIT ?"
_GET = """SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
_WRITES = """SELECT {path}, task_id, idx, channel, type, value FROM writes
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""
# Lengths stand at the beginning of a row: no value is read for them.
_WEIGHTS = (
    "SELECT sum(length(checkpoint) + ifnull(length(metadata), 0)) FROM checkpoints WHERE thread_id = ?",
    "SELECT sum(ifnull(length(value), 0)) FROM writes WHERE thread_id = ?",
)
_FUNCTIONS = ("count", "ifnull", "length", "sum")  # of the statements above; no other one is ever run
_CHECKPOINT = {
    "parent_checkpoint_id": MAYBE_TEXT, "type": MAYBE_TEXT, "checkpoint": BYTES, "metadata": (*BYTES, *MAYBE_TEXT),
}  # fmt: skip
_WRITE = {
    "task_path": TEXT, "task_id": TEXT, "idx": NUMBER, "channel": TEXT, "type": MAYBE_TEXT, "value": MAYBE_BYTES,
}  # fmt: skip
_LONGEST = (1 << 31) - 1  # bytes of a value, to SQLite
_STEPS = 10_000  # of SQLite's machine, after which it is asked whether there is time left
_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode


class SqliteSource:
    """A file of the SqliteSaver or the AsyncSqliteSaver."""

    def __init__(self, place: str, db: sqlite3.Connection, bounds: Bounds = UNBOUNDED) -> None:
        self.place = place
        self.limits = Limits(place, bounds)
        self.unnamed = 0
        self._db = db
        self._writes = ""

    @classmethod
    @contextmanager
    def opened(cls, path: str, bounds: Bounds = UNBOUNDED) -> Generator[Self]:
        """The file, opened so that it cannot be written."""
        if not os.path.isfile(path):
            raise NotFoundError(f"file {path!r}")
        with _said(path):
            db = _connected(os.path.abspath(path))
        with closing(db):
            source = cls(path, db, bounds)
            with _said(path):
                source.check()
            yield source

    def check(self) -> None:
        """Raise `NotAStorageError` when the tables are not LangGraph's; then allow nothing but reading them."""
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, int(min(max(self.limits.bounds.max_bytes, 1 << 20), _LONGEST)))
        self._db.set_progress_handler(lambda: int(self.limits.left <= 0), _STEPS)
        for table in ("checkpoints", "writes"):
            statements = [sql for (sql,) in self._db.execute(_SQL, (table,))]
            if not all(isinstance(sql, str) and sql.startswith(_TABLE) for sql in statements):
                raise NotAStorageError(self.place, f"{table!r} is no table as LangGraph's SqliteSaver makes it")
        columns = self._columns("writes")
        if "checkpoint_ns" not in self._columns("checkpoints") or not columns:
            raise NotAStorageError(self.place, "has no checkpoints of LangGraph's SqliteSaver")
        path = "task_path" if "task_path" in columns else "''"  # absent from files of early releases
        self._writes = _WRITES.format(path=path)
        self._db.set_authorizer(_allowed)

    def _columns(self, table: str) -> set[str]:
        return {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}

    def spots(self) -> list[Spot]:
        """Where checkpoints are."""
        with _said(self.place, self.limits):
            spots, self.unnamed = named_spots(self._db.execute(_SPOTS, (self.limits.bounds.max_rows + 1,)))
        self.limits.rows(spots, "the threads in it")
        return spots

    def weight(self, threads: Sequence[str]) -> int:
        """How many bytes the rows of these threads take."""
        with _said(self.place, self.limits):
            return sum(self._db.execute(sql, (name,)).fetchone()[0] or 0 for name in threads for sql in _WEIGHTS)

    def ids(self, thread: str, ns: str) -> Iterator[str]:
        """The ids of checkpoints in rising order."""
        with self._reading(Place(thread, ns)) as place:
            rows = self._db.execute(_IDS, (thread, ns, self.limits.bounds.max_rows + 1))
            ids = [self._id(place, id) for (id,) in rows]
        self.limits.rows(ids, f"the checkpoints of thread {thread!r}")
        yield from ids

    def _id(self, place: Place, id: Any) -> str:
        self.limits.row(place, (id,), {"checkpoint_id": TEXT})
        if not 0 < len(id) <= LONGEST_ID:
            raise self.limits.unreadable(place, f"a checkpoint_id has {len(id):,} characters")
        return id

    def get(self, place: Place) -> tuple[Theirs, list[Pending]] | None:
        """One checkpoint with what was written for it."""
        with self._reading(place), self._one_moment():
            row = self._db.execute(_GET, (place.thread, place.ns, place.checkpoint)).fetchone()
            pending = self._pending(place, 0 if row is None else _size(row))
        if row is None:
            return None
        self.limits.row(place, row, _CHECKPOINT)
        parent, type, data, metadata = row
        rest, values = _parts(self.limits, place, type or "json", data)
        metadata = self.limits.mapping(place, metadata or "{}", "metadata")
        return Theirs(place=place, parent=parent or None, rest=rest, values=values, metadata=metadata), pending

    @contextmanager
    def _one_moment(self) -> Generator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def pending(self, place: Place) -> list[Pending]:
        """What was written for a checkpoint."""
        with self._reading(place):
            return self._pending(place, 0)

    def _pending(self, place: Place, size: int) -> list[Pending]:
        found: list[Pending] = []
        self.limits.size(size, 1, place)
        for row in self._db.execute(self._writes, (place.thread, place.ns, place.checkpoint)):
            size += _size(row)
            self.limits.size(size, len(found), place)
            self.limits.row(place, row, _WRITE)
            path, task, at, name, type, value = row
            found.append(Pending(path, task, at, name, Opaque(type or "json", value or b"")))
        return in_order(found)

    @contextmanager
    def _reading(self, place: Place) -> Generator[Place]:
        """Reading one thread: what is wrong in its rows does not concern the others."""
        self.limits.check_time()
        try:
            with _said(self.place, self.limits):
                yield place
        except Unreadable:
            raise
        except (StorageDamagedError, StorageUnavailableError) as exc:
            if isinstance(exc.__cause__, sqlite3.DataError):
                raise self.limits.large(place) from exc
            raise self.limits.unreadable(place, exc.reason) from exc


def _allowed(action: int, one: str | None, _two: str | None, _database: str | None, inside: str | None) -> int:
    """Whether a statement may do something: read tables, outside of views, and call the functions of ours."""
    if action == sqlite3.SQLITE_READ:
        fine = inside is None
    elif action == sqlite3.SQLITE_FUNCTION:
        fine = _two in _FUNCTIONS
    else:
        fine = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION)
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def _size(row: Sequence[Any]) -> int:
    return sum(len(each) for each in row if isinstance(each, str | bytes))


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
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _parts(limits: Limits, place: Place, type: str, data: bytes) -> tuple[dict[str, Opaque], dict[str, Opaque]]:
    """The parts of a checkpoint, each as bytes of its own: values that did not change need not be read again."""
    if type not in ("msgpack", "json"):
        reason = f"it is kept as {type[:100]!r}; only what LangGraph's serializer keeps as msgpack or json can be read"
        raise limits.unreadable(place, reason)
    try:
        split = _split_packed if type == "msgpack" else _split_json
        rest = split(data)
        values = split(rest.pop("channel_values", None))
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise limits.unreadable(place, str(exc)[:200]) from exc
    return ({name: Opaque(type, part) for name, part in rest.items()},
            {name: Opaque(type, part) for name, part in values.items()})  # fmt: skip


def _split_packed(data: bytes | None) -> dict[str, bytes]:
    return {name: bytes(part) for name, part in _fields(data).items()} if data else {}


def _split_json(data: bytes | None) -> dict[str, bytes]:
    check_json(data or b"")
    parts: dict[str, Any] = json.loads(data) if data else {}
    return {name: json.dumps(part).encode() for name, part in parts.items()}


@contextmanager
def _said(place: str, limits: Limits | None = None) -> Generator[None]:
    """The errors of SQLite in our words."""
    try:
        yield
    except sqlite3.Error as exc:
        if limits is not None and limits.left <= 0:
            raise limits.late() from exc
        raise _translated(place, exc) from exc


def _translated(place: str, exc: sqlite3.Error) -> PerdureError:
    words = str(exc)
    if "not a database" in words:
        return NotAStorageError(place, words)
    if "not authorized" in words:
        return NotAStorageError(place, f"has more than the tables of LangGraph's SqliteSaver ({words})")
    if "locked" in words:
        return StorageBusyError(place, words)
    if "malformed" in words or isinstance(exc, sqlite3.DataError):
        return StorageDamagedError(place, words)
    return StorageUnavailableError(place, words)
