"""SQLite files on equal terms: WAL mode, synchronous=FULL, and a WAL file that has its size already.

Only the standard library: the peers use it too.
"""

from __future__ import annotations

import os
import sqlite3
import time

PREGROWN_PAGES = 2000  # more than a checkpoint every 1000 pages plus the largest single write can reach


SQLITES_PAGE, OUR_PAGE = 4096, 8192  # bytes, of files that SQLite and Perdure make


def connect(path: str, page: int = SQLITES_PAGE) -> sqlite3.Connection:
    """A connection with the pragmas that every side has; `page` is for a new file."""
    raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    raw.execute(f"PRAGMA page_size = {page}")
    raw.execute("PRAGMA journal_mode = WAL").fetchone()
    raw.execute("PRAGMA synchronous = FULL")
    return raw


def grow_wal(raw: sqlite3.Connection, pages: int = PREGROWN_PAGES) -> None:
    """Grow the WAL file by small commits, then copy it back, so that the next commit writes at its beginning."""
    raw.execute("PRAGMA wal_autocheckpoint = 0")
    raw.execute("PRAGMA synchronous = OFF")
    raw.execute("CREATE TABLE grow (at INTEGER PRIMARY KEY, turn INTEGER)")
    raw.execute("INSERT INTO grow VALUES (1, 0)")
    for turn in range(pages):
        raw.execute("UPDATE grow SET turn = ? WHERE at = 1", (turn,))
    raw.execute("DROP TABLE grow")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    raw.execute("PRAGMA wal_autocheckpoint = 1000")


class Database:
    """A file with a pre-grown WAL. One idle connection stays open: the last one to close would delete the WAL."""

    def __init__(self, path: str, page: int = SQLITES_PAGE) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.keeper = connect(path, page)
        grow_wal(self.keeper)
        self.grown = self.wal_bytes()

    def wal_bytes(self) -> int:
        return os.path.getsize(f"{self.path}-wal")

    def wal_grew(self) -> bool:
        """Whether the WAL had to grow after all, which would bend the figures."""
        return self.wal_bytes() > self.grown

    def newest_payload(self) -> int:
        """The bytes of Perdure's newest entry."""
        sql = "SELECT length(payload) FROM perdure_entry ORDER BY row DESC LIMIT 1"
        return self.keeper.execute(sql).fetchone()[0]

    def snapshots(self) -> list[int]:
        """The versions that have a snapshot of Perdure's."""
        return [row for (row,) in self.keeper.execute("SELECT row & 4294967295 FROM perdure_snapshot")]

    def close(self) -> None:
        self.keeper.close()


class OurDatabase(Database):
    """The same as Perdure would make it."""

    def __init__(self, path: str) -> None:
        super().__init__(path, OUR_PAGE)


def bytes_of(path: str) -> int:
    """The size of a closed database, with its WAL if one is left."""
    return sum(os.path.getsize(name) for name in (path, f"{path}-wal") if os.path.exists(name))


class RawCommits:
    """One blob a commit: BEGIN IMMEDIATE, INSERT, COMMIT. What the disk and SQLite cost by themselves."""

    def __init__(self, path: str) -> None:
        self.home = Database(path)
        self._raw = connect(path)
        self._raw.execute("CREATE TABLE blobs (at INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def commit(self, size: int) -> float:
        """Commit one blob of `size` bytes and return the seconds it took."""
        body = b"x" * size
        execute = self._raw.execute
        start = time.perf_counter()
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO blobs (body) VALUES (?)", (body,))
        execute("COMMIT")
        return time.perf_counter() - start

    def close(self) -> None:
        self._raw.close()
        self.home.close()
