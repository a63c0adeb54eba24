"""The tables of LangGraph's PostgresSaver: small values stand in the checkpoint, others apart, by their version."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import msgspec

from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.theirs import Pending, Spot, Theirs, in_order
from perdure.adapters.langgraph.types import Opaque
from perdure.app.servers import place as shown
from perdure.core.errors import NotAStorageError, StorageUnavailableError
from perdure.core.extras import check_releases, missing

TASKS = "__pregel_tasks"  # the channel of what is sent to tasks of the next step
_SINCE = 4  # the version of checkpoints that have it among their values
_TABLES = "SELECT to_regclass('checkpoints'), to_regclass('checkpoint_blobs'), to_regclass('checkpoint_writes')"
_PATH = """SELECT count(*) FROM pg_attribute
WHERE attrelid = to_regclass('checkpoint_writes') AND attname = 'task_path' AND NOT attisdropped"""
_SPOTS = "SELECT thread_id, checkpoint_ns, count(*) FROM checkpoints GROUP BY 1, 2"
_IDS = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id"
_GET = """SELECT parent_checkpoint_id, checkpoint, metadata,
(SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(checkpoint -> 'channel_versions'))
FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"""
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
_Version = tuple[str, str]  # a channel, and its version as text


class PostgresSource:
    """A database of the PostgresSaver or the AsyncPostgresSaver."""

    def __init__(self, place: str, db: Any) -> None:
        self.place = place
        self._db = db
        self._known: dict[_Version, Opaque] = {}  # of the checkpoint that was read last
        self._spot = ("", "")
        self._writes = ""

    @classmethod
    @contextmanager
    def opened(cls, url: str) -> Generator[Self]:
        """The database, every transaction on it read-only."""
        try:
            import psycopg
        except ImportError as exc:
            raise missing("reading PostgreSQL", "postgres") from exc
        check_releases("reading PostgreSQL", "postgres")
        with _said(shown(url)):
            db = psycopg.connect(url, autocommit=True, application_name="perdure import")
        try:
            with _said(shown(url)):
                db.read_only, db.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
                source = cls(shown(url), db)
                source.check()
            yield source
        finally:
            db.close()

    def check(self) -> None:
        """Raise `NotAStorageError` when the tables are not LangGraph's."""
        if None in self._rows(_TABLES)[0]:
            raise NotAStorageError(self.place, "has no tables of LangGraph's PostgresSaver on its search_path")
        path = "task_path" if self._rows(_PATH)[0][0] else "''"  # absent from databases of early releases
        self._writes = _WRITES.format(path=path)

    @contextmanager
    def _one_moment(self) -> Generator[None]:
        """A transaction: outside of one, a connection that commits by itself is not read-only."""
        with _said(self.place), self._db.transaction():
            yield

    def _rows(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        with self._one_moment():
            return self._asked(sql, given)

    def _asked(self, sql: str, given: Sequence[Any]) -> list[Any]:
        return self._db.execute(sql, given, binary=True).fetchall()

    def spots(self) -> list[Spot]:
        """Where checkpoints are."""
        return sorted(Spot(*row) for row in self._rows(_SPOTS))

    def weight(self, threads: Sequence[str]) -> int:
        """How many bytes the rows of these threads take, compressed as they are."""
        return sum(int(self._rows(sql, [list(threads)])[0][0] or 0) for sql in _WEIGHTS)

    def ids(self, thread: str, ns: str) -> Iterator[str]:
        """The ids of checkpoints in rising order."""
        yield from sorted(id for (id,) in self._rows(_IDS, (thread, ns)))

    def get(self, place: Place) -> tuple[Theirs, list[Pending]] | None:
        """One checkpoint with what was written for it."""
        given = (place.thread, place.ns, place.checkpoint)
        with self._one_moment():
            rows = self._asked(_GET, given)
            if not rows:
                return None
            parent, checkpoint, metadata, versions = rows[0]
            apart = self._apart(place, versions or {})
            pending = self._pending(place)
            sends = self._sends(place, parent, checkpoint)
        inline = {name: _inline(value) for name, value in (checkpoint.pop("channel_values", None) or {}).items()}
        rest = {name: _inline(value) for name, value in checkpoint.items()}
        theirs = Theirs(
            place=place, parent=parent or None, rest=rest, values={**inline, **apart, **sends}, metadata=metadata
        )
        return theirs, pending

    def pending(self, place: Place) -> list[Pending]:
        """What was written for a checkpoint."""
        with self._one_moment():
            return self._pending(place)

    def _pending(self, place: Place) -> list[Pending]:
        rows = self._asked(self._writes, (place.thread, place.ns, place.checkpoint))
        return in_order(
            [
                Pending(path, task, at, name, Opaque(type or "json", bytes(blob)))
                for path, task, at, name, type, blob in rows
            ]
        )

    def _apart(self, place: Place, versions: dict[str, str]) -> dict[str, Opaque]:
        """The values that stand apart; those that the checkpoint before had too are not asked for again."""
        if (place.thread, place.ns) != self._spot:
            self._spot, self._known = (place.thread, place.ns), {}
        wanted = [each for each in versions.items() if each not in self._known]
        channels, texts = [each[0] for each in wanted], [each[1] for each in wanted]
        rows = self._asked(_BLOBS, (channels, texts, place.thread, place.ns)) if wanted else []
        found = {(channel, version): Opaque(type, bytes(blob or b"")) for channel, version, type, blob in rows}
        self._known = {each: value for each, value in {**self._known, **found}.items() if each in versions.items()}
        return {channel: value for (channel, _), value in self._known.items() if value.type != "empty"}

    def _sends(self, place: Place, parent: str | None, checkpoint: dict[str, Any]) -> dict[str, Opaque]:
        """What a checkpoint of an early release sends to tasks: it stands among the writes of its parent."""
        if checkpoint.get("v", 1) >= _SINCE or parent is None:
            return {}
        before = self._pending(Place(place.thread, place.ns, parent))
        sends = [each.value for each in before if each.channel == TASKS]
        if not sends:
            return {}
        versions = checkpoint["channel_versions"]
        versions[TASKS] = max(versions.values()) if versions else f"{1:032}"
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


@contextmanager
def _said(place: str) -> Generator[None]:
    """The errors of psycopg in our words."""
    import psycopg

    try:
        yield
    except psycopg.Error as exc:
        raise StorageUnavailableError(place, " ".join(str(exc).split())) from exc
