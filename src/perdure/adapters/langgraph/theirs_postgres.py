"""The tables of LangGraph's PostgresSaver: small values stand in the checkpoint, others apart, by their version."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import msgspec

from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.theirs import (
    LONGEST_ID,
    UNBOUNDED,
    Bounds,
    Limits,
    Pending,
    Spot,
    Theirs,
    in_order,
    named_spots,
)
from perdure.adapters.langgraph.types import Opaque
from perdure.app.servers import check_address
from perdure.core.addresses import display_url
from perdure.core.errors import NotAStorageError, StorageUnavailableError
from perdure.core.extras import check_releases, missing
from perdure.storage.postgres.ports import check_url

TASKS = "__pregel_tasks"  # the channel of what is sent to tasks of the next step
_SINCE = 4  # the version of checkpoints that have it among their values
# A function of the database's own in a schema before pg_catalog would be called instead of PostgreSQL's.
_SHOW_PATH = "SHOW search_path"
_SET_PATH = (
    "SELECT pg_catalog.set_config('search_path', %s, false), pg_catalog.set_config('statement_timeout', %s, false)"
)
_TABLES = "SELECT to_regclass('checkpoints'), to_regclass('checkpoint_blobs'), to_regclass('checkpoint_writes')"
_COLUMNS = """SELECT relkind::text, attname::text, atttypid::int8, attgenerated::text FROM pg_attribute JOIN pg_class
ON pg_class.oid = attrelid WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_KINDS = {"checkpoints": {
    "thread_id": "text", "checkpoint_ns": "text", "checkpoint_id": "text", "parent_checkpoint_id": "text",
    "checkpoint": "jsonb", "metadata": "jsonb",
}, "checkpoint_blobs": {
    "thread_id": "text", "checkpoint_ns": "text", "channel": "text", "version": "text", "type": "text", "blob": "bytea",
}, "checkpoint_writes": {
    "thread_id": "text", "checkpoint_ns": "text", "checkpoint_id": "text", "task_id": "text", "idx": "int",
    "channel": "text", "type": "text", "blob": "bytea",
}}  # fmt: skip
_OIDS = {"text": (25, 1043), "jsonb": (3802,), "bytea": (17,), "int": (20, 21, 23)}
_SPOTS = """SELECT left(thread_id, 513), left(checkpoint_ns, 513), count(*) FROM checkpoints GROUP BY 1, 2 ORDER BY 1, 2
LIMIT %s"""
_IDS = """SELECT left(checkpoint_id, 513) FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s
ORDER BY checkpoint_id LIMIT %s"""
_GET = """SELECT parent_checkpoint_id, checkpoint::text, metadata::text
FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"""
_GET_SIZE = """SELECT 1, octet_length(parent_checkpoint_id), octet_length(checkpoint::text),
octet_length(metadata::text) FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"""
_BLOBS_SIZE = """SELECT count(*), sum(octet_length(channel)), sum(octet_length(type)), sum(octet_length(blob))
FROM checkpoint_blobs
JOIN unnest(%s::text[], %s::text[]) AS wanted (channel, version) USING (channel, version)
WHERE thread_id = %s AND checkpoint_ns = %s"""
_WRITES_SIZE = """SELECT count(*), sum(octet_length(task_id) + octet_length(channel)), sum(octet_length(type)),
sum(octet_length(blob)) FROM checkpoint_writes
WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"""
_BLOBS = """SELECT channel, version, type, blob FROM checkpoint_blobs
JOIN unnest(%s::text[], %s::text[]) AS wanted (channel, version) USING (channel, version)
WHERE thread_id = %s AND checkpoint_ns = %s"""
_WRITES = """SELECT {path}, task_id, idx, channel, type, blob FROM checkpoint_writes
WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"""
_WEIGHTS = (
    "SELECT sum(pg_column_size(t.*)) FROM checkpoints AS t WHERE thread_id = ANY(%s)",
    "SELECT sum(pg_column_size(t.*)) FROM checkpoint_blobs AS t WHERE thread_id = ANY(%s)",
    "SELECT sum(pg_column_size(t.*)) FROM checkpoint_writes AS t WHERE thread_id = ANY(%s)",
)
_CONNECT_SECONDS, _GRACE_SECONDS = 30, 5.0
_LONGEST_TIMEOUT = (1 << 31) - 1  # milliseconds
_Version = tuple[str, str]  # a channel, and its version as text


class PostgresSource:
    """A database of the PostgresSaver or the AsyncPostgresSaver."""

    def __init__(self, place: str, db: Any, bounds: Bounds = UNBOUNDED) -> None:
        self.place = place
        self.limits = Limits(place, bounds)
        self.unnamed = 0
        self._db = db
        self._known: dict[_Version, Opaque] = {}  # of the checkpoint that was read last
        self._spot = ("", "")
        self._writes = ""

    @classmethod
    @contextmanager
    def opened(cls, url: str, bounds: Bounds = UNBOUNDED) -> Generator[Self]:
        """The database, every transaction on it read-only."""
        try:
            import psycopg
        except ImportError as exc:
            raise missing("reading PostgreSQL", "postgres") from exc
        check_releases("reading PostgreSQL", "postgres")
        check_address(url)
        check_url(url)
        with _said(display_url(url)):
            patience: dict[str, Any] = {} if "connect_timeout" in url else {"connect_timeout": _CONNECT_SECONDS}
            db = psycopg.connect(url, autocommit=True, application_name="perdure import", **patience)
        try:
            with _said(display_url(url)):
                db.read_only, db.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
                source = cls(display_url(url), db, bounds)
                source.check()
            yield source
        finally:
            db.close()

    def check(self) -> None:
        """Raise `NotAStorageError` when the tables are not LangGraph's."""
        path = f"pg_catalog, {self._rows(_SHOW_PATH)[0][0]}"
        timeout = min(int(self.limits.bounds.max_seconds * 1000), _LONGEST_TIMEOUT)
        self._db.execute(_SET_PATH, (path, str(max(timeout, 1))))
        if None in self._rows(_TABLES)[0]:
            raise NotAStorageError(self.place, "has no tables of LangGraph's PostgresSaver on its search_path")
        for table, kinds in _KINDS.items():
            self._check_table(table, kinds)

    def _check_table(self, table: str, kinds: dict[str, str]) -> None:
        """A view may run anything, and a column of another type is read by functions of that type's owner."""
        rows = self._rows(_COLUMNS, (table,))
        found = {name: kind for _, name, kind, _ in rows}
        if any(each[0] not in ("r", "p") or each[3] for each in rows):
            raise NotAStorageError(self.place, f"{table!r} is no table as LangGraph's PostgresSaver makes it")
        for name, kind in kinds.items():
            if found.get(name) not in _OIDS[kind]:
                raise NotAStorageError(self.place, f"column {table}.{name} is not of type {kind}")
        if table == "checkpoint_writes":
            path = "task_path" if found.get("task_path") in _OIDS["text"] else "''"  # absent from early releases
            self._writes = _WRITES.format(path=path)

    @contextmanager
    def _one_moment(self) -> Generator[None]:
        """A transaction: outside of one, a connection that commits by itself is not read-only."""
        # A server that says nothing more would be waited for without end: statement_timeout is its own.
        watch = threading.Timer(self.limits.left + _GRACE_SECONDS, _hang_up, (self._db.fileno(),))
        watch.daemon = True
        watch.start()
        try:
            with _said(self.place, self.limits), self._db.transaction():
                yield
        finally:
            watch.cancel()

    @contextmanager
    def _reading(self, place: Place) -> Generator[None]:
        """Reading one thread: what is wrong in its rows does not concern the others."""
        import psycopg

        self.limits.check_time()
        try:
            with self._one_moment():
                yield
        except StorageUnavailableError as exc:
            if self._db.closed or not isinstance(exc.__cause__, psycopg.DataError | psycopg.ProgrammingError):
                raise
            raise self.limits.unreadable(place, exc.reason) from exc

    def _rows(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        with self._one_moment():
            return self._asked(sql, given)

    def _asked(self, sql: str, given: Sequence[Any]) -> list[Any]:
        return self._db.execute(sql, given, binary=True).fetchall()

    def spots(self) -> list[Spot]:
        """Where checkpoints are."""
        spots, self.unnamed = named_spots(self._rows(_SPOTS, (self.limits.bounds.max_rows + 1,)))
        self.limits.rows(spots, "the threads in it")
        return sorted(spots)

    def weight(self, threads: Sequence[str]) -> int:
        """How many bytes the rows of these threads take, compressed as they are."""
        return sum(int(self._rows(sql, [list(threads)])[0][0] or 0) for sql in _WEIGHTS)

    def ids(self, thread: str, ns: str) -> Iterator[str]:
        """The ids of checkpoints in rising order."""
        place = Place(thread, ns)
        with self._reading(place):
            ids = [id for (id,) in self._asked(_IDS, (thread, ns, self.limits.bounds.max_rows + 1))]
        self.limits.rows(ids, f"the checkpoints of thread {thread!r}")
        if not all(0 < len(id) <= LONGEST_ID for id in ids):
            raise self.limits.unreadable(place, f"a checkpoint_id is empty or has more than {LONGEST_ID} characters")
        yield from sorted(ids)

    def get(self, place: Place) -> tuple[Theirs, list[Pending]] | None:
        """One checkpoint with what was written for it."""
        given = (place.thread, place.ns, place.checkpoint)
        with self._reading(place):
            size = self._sized(place, _GET_SIZE, given, 0)
            rows = self._asked(_GET, given)
            if not rows:
                return None
            parent, text, more = rows[0]
            checkpoint = self.limits.mapping(place, text or "null", "checkpoint")
            metadata = self.limits.mapping(place, more or "{}", "metadata")
            apart = self._apart(place, _versions(checkpoint), size)
            pending = self._pending(place, size)
            sends = self._sends(place, parent, checkpoint)
        inline = checkpoint.pop("channel_values", None) or {}
        if not isinstance(inline, dict):
            raise self.limits.unreadable(place, "channel_values is no mapping")
        inline = {name: _inline(value) for name, value in inline.items()}
        rest = {name: _inline(value) for name, value in checkpoint.items()}
        theirs = Theirs(
            place=place, parent=parent or None, rest=rest, values={**inline, **apart, **sends}, metadata=metadata
        )
        return theirs, pending

    def _sized(self, place: Place, sql: str, given: Sequence[Any], size: int) -> int:
        """The bytes of rows, and of what was read before. Raises `Unreadable` when they are too many."""
        for count, *sizes in self._asked(sql, given):
            size += sum(int(each or 0) for each in sizes)
            self.limits.size(size, count, place)
        return size

    def pending(self, place: Place) -> list[Pending]:
        """What was written for a checkpoint."""
        with self._reading(place):
            return self._pending(place, 0)

    def _pending(self, place: Place, size: int) -> list[Pending]:
        given = (place.thread, place.ns, place.checkpoint)
        self._sized(place, _WRITES_SIZE, given, size)
        return in_order(
            [
                Pending(path, task, at, name, Opaque(type or "json", bytes(blob)))
                for path, task, at, name, type, blob in self._asked(self._writes, given)
            ]
        )

    def _apart(self, place: Place, versions: dict[str, str], size: int) -> dict[str, Opaque]:
        """The values that stand apart; those that the checkpoint before had too are not asked for again."""
        if (place.thread, place.ns) != self._spot:
            self._spot, self._known = (place.thread, place.ns), {}
        wanted = [each for each in versions.items() if each not in self._known]
        given = ([each[0] for each in wanted], [each[1] for each in wanted], place.thread, place.ns)
        if wanted:
            self._sized(place, _BLOBS_SIZE, given, size)
        rows = self._asked(_BLOBS, given) if wanted else []
        found = {(channel, version): Opaque(type, bytes(blob or b"")) for channel, version, type, blob in rows}
        self._known = {each: value for each, value in {**self._known, **found}.items() if each in versions.items()}
        return {channel: value for (channel, _), value in self._known.items() if value.type != "empty"}

    def _sends(self, place: Place, parent: str | None, checkpoint: dict[str, Any]) -> dict[str, Opaque]:
        """What a checkpoint of an early release sends to tasks: it stands among the writes of its parent."""
        since, versions = checkpoint.get("v", 1), checkpoint.get("channel_versions", {})
        if not isinstance(since, int | float) or not isinstance(versions, dict) or since >= _SINCE or parent is None:
            return {}
        before = self._pending(Place(place.thread, place.ns, parent), 0)
        sends = [each.value for each in before if each.channel == TASKS]
        if not sends:
            return {}
        if len({isinstance(each, str) for each in versions.values()}) > 1:
            raise self.limits.unreadable(place, "channel_versions are not all of one kind")
        versions[TASKS] = max(versions.values()) if versions else f"{1:032}"
        checkpoint["channel_versions"] = versions
        return {TASKS: self._listed(sends)}

    def _listed(self, values: list[Opaque]) -> Opaque:
        """Values as one list, without reading them."""
        kinds = {value.type for value in values}
        if kinds == {"msgpack"}:
            return Opaque("msgpack", msgspec.msgpack.encode([msgspec.Raw(value.data) for value in values]))
        if kinds == {"json"}:
            return Opaque("json", b"[" + b",".join(value.data for value in values) + b"]")
        raise NotAStorageError(self.place, f"has what is sent to tasks as {', '.join(sorted(kinds))}")


def _inline(value: Any) -> Opaque:
    return Opaque("json", json.dumps(value).encode())


def _versions(checkpoint: dict[str, Any]) -> dict[str, str]:
    """The version of each channel as PostgreSQL writes it in a text."""
    found = checkpoint.get("channel_versions")
    versions = found.items() if isinstance(found, dict) else ()
    return {name: each if isinstance(each, str) else json.dumps(each) for name, each in versions}


def _hang_up(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _said(place: str, limits: Limits | None = None) -> Generator[None]:
    """The errors of psycopg in our words."""
    import psycopg

    try:
        yield
    except psycopg.errors.QueryCanceled as exc:
        if limits is None:
            raise StorageUnavailableError(place, " ".join(str(exc).split())) from exc
        raise limits.late() from exc
    except psycopg.Error as exc:
        raise StorageUnavailableError(place, " ".join(str(exc).split())[:1000]) from exc
