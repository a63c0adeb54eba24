"""The server that everybody shares, and a database for each side."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import psycopg

from benchmarks.scale import Scale
from perdure.testing.servers import PostgresServer, RedisServer, ServerMissing

_WAL_GROWTH = 1_000_000  # bytes of one record
_PATIENCE = 5.0  # seconds
_TABLES = """FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'"""


class Lab:
    """A durable PostgreSQL whose WAL has its size already, and that does nothing by itself meanwhile."""

    def __init__(self, scale: Scale) -> None:
        size = max(scale.wal_megabytes, 80)
        settings = {
            "checkpoint_timeout": "1d",
            "max_wal_size": f"{size * 4 + 2000}MB",
            "min_wal_size": f"{size}MB",  # so many segments are recycled and kept
            "autovacuum": "off",
            "shared_buffers": "256MB",
            "max_connections": "200",
        }
        self._megabytes = scale.wal_megabytes
        self._server = PostgresServer(durable=True, settings=settings)
        self._redis: RedisServer | None = None
        self._homes: list[Home] = []

    def __enter__(self) -> Self:
        self._server.start()
        self.monitor = psycopg.connect(self._server.url, autocommit=True)
        self._grow()
        return self

    def _grow(self) -> None:
        """Write WAL and let a checkpoint recycle it: the segments that follow need not be made."""
        for _ in range(self._megabytes * 1_000_000 // _WAL_GROWTH):
            self.monitor.execute("SELECT pg_logical_emit_message(false, 'grow', repeat('x', %s))", (_WAL_GROWTH,))
        self.monitor.execute("CHECKPOINT")
        self._grown = self._segments()

    def _segments(self) -> int:
        return self._number("SELECT count(*) FROM pg_ls_waldir()")

    def _number(self, sql: str) -> int:
        row = self.monitor.execute(sql.encode()).fetchone()
        return int(row[0]) if row else 0

    def wal_grew(self) -> bool:
        """Whether the server had to make WAL files after all, which would bend the figures."""
        return self._segments() > self._grown

    def syncs(self) -> int:
        """How many times WAL reached the disk so far."""
        return self._number("SELECT wal_sync FROM pg_stat_wal")

    def settle(self, home: Home) -> None:
        """Wait for connections to a database that were closed to end: only then what they did is counted."""
        name, end = home.url.rpartition("/")[2], time.monotonic() + _PATIENCE
        while (
            self._number(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'") and time.monotonic() < end
        ):
            time.sleep(0.02)

    def describe(self) -> dict[str, Any]:
        """Versions for the head of the table."""
        version = self.monitor.execute("SHOW server_version").fetchone()
        return {"postgresql": version[0].split()[0] if version else "", "psycopg": psycopg.__version__}

    def home(self, name: str) -> Home:
        """A new database."""
        home = Home(self, self._server.database(f"{name}_{len(self._homes)}"))
        self._homes.append(home)
        return home

    def copy(self, home: Home) -> Home:
        """A database like another one that nobody is connected to."""
        whole, _, name = home.url.rpartition("/")
        made = f"{name}_{len(self._homes)}"
        self.monitor.execute(f'CREATE DATABASE "{made}" TEMPLATE "{name}"'.encode())
        self._homes.append(copied := Home(self, f"{whole}/{made}"))
        return copied

    def redis(self) -> str | None:
        """The url of a Redis, or None where there is none."""
        if self._redis is None:
            try:
                self._redis = RedisServer(durable=False).start()
            except ServerMissing:
                return None
        return self._redis.url

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self.monitor, *self._homes):
            each.close()
        if self._redis is not None:
            self._redis.close()
        self._server.close()


class Home:
    """A database of one side's own, and a connection that looks at it between turns."""

    def __init__(self, lab: Lab, url: str) -> None:
        self.url = url
        self._lab = lab
        self.keeper = psycopg.connect(url, autocommit=True)

    def newest_payload(self) -> int:
        return self._number('SELECT length(payload) FROM perdure.entry ORDER BY "row" DESC LIMIT 1')

    def entries(self) -> int:
        """How many entries Perdure has written."""
        return self._number("SELECT count(*) FROM perdure.entry")

    def snapshots(self) -> list[int]:
        return [row for (row,) in self.keeper.execute('SELECT "row" & 4294967295 FROM perdure.snapshot')]

    def bytes(self) -> int:
        """What all tables with their indexes take."""
        return self._number(f"SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint {_TABLES}")

    def words(self) -> int:
        """What the full-text index takes."""
        return self._number("SELECT coalesce(pg_relation_size(to_regclass('perdure.message_words')), 0)")

    def analyze(self) -> None:
        """Tell the planner how the tables look by now."""
        self.keeper.execute("ANALYZE")

    def vacuumed(self) -> int:
        """The same if all tables were written anew: what is not dead."""
        self.keeper.execute("VACUUM FULL")
        return self.bytes()

    def _number(self, sql: str) -> int:
        row = self.keeper.execute(sql.encode()).fetchone()
        return int(row[0]) if row else 0

    def wal_grew(self) -> bool:
        return self._lab.wal_grew()

    def close(self) -> None:
        self.keeper.close()


class RawInserts:
    """One bytea a commit through psycopg: what the disk, the network and PostgreSQL cost by themselves."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._raw = psycopg.connect(home.url, autocommit=True)
        self._raw.execute(
            "CREATE TABLE blobs (at bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"
        )
        self._raw.execute("ALTER TABLE blobs ALTER body SET STORAGE EXTERNAL")

    def commit(self, size: int) -> float:
        """Commit one row of `size` bytes and return the seconds it took."""
        body = b"x" * size
        execute = self._raw.execute
        start = time.perf_counter()
        execute("INSERT INTO blobs (body) VALUES (%b)", (body,))
        return time.perf_counter() - start

    def keep(self, body: bytes) -> int:
        """Store one row and return its number."""
        row = self._raw.execute("INSERT INTO blobs (body) VALUES (%b) RETURNING at", (body,)).fetchone()
        return row[0] if row else 0

    def select(self, at: int) -> float:
        """Read one row and return the seconds it took."""
        execute = self._raw.execute
        start = time.perf_counter()
        execute("SELECT body FROM blobs WHERE at = %s", (at,), binary=True).fetchone()  # as bytes, not as hex
        return time.perf_counter() - start

    def close(self) -> None:
        self._raw.close()
        self.home.close()
