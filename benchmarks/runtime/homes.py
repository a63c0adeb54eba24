"""Databases for both sides, on either kind of database, and copies of one with interrupted runs in it."""

from __future__ import annotations

import shutil
from typing import Any, Protocol

from benchmarks.databases import Database, OurDatabase, bytes_of, connect
from benchmarks.postgres.lab import Lab
from benchmarks.scale import Bench


class Home(Protocol):
    """A database of one side's own."""

    url: str

    def wal_grew(self) -> bool: ...

    def close(self) -> None: ...


class Homes(Protocol):
    """Makes databases."""

    def new(self, name: str, *, theirs: bool = False, plain: bool = False) -> Home:
        """A database for us or for others; a plain one is left as its side makes it."""
        ...

    def copy(self, home: Home) -> Home:
        """The same database once more. Nobody may be connected to the first."""
        ...

    def bytes(self, home: Home) -> int:
        """What it takes; nobody may be connected to it."""
        ...


def homes_of(bench: Bench) -> Homes:
    """Those of the backend that is measured."""
    return OnSqlite(bench) if bench.server is None else OnPostgres(bench.server)


class _Plain:
    """A file that nobody has prepared."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def wal_grew(self) -> bool:
        return False

    def close(self) -> None:
        return None


class OnSqlite:
    """Files in WAL mode whose WAL has its size already."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def new(self, name: str, *, theirs: bool = False, plain: bool = False) -> Home:
        path = self._bench.path(name)
        return _Plain(path) if plain else Database(path) if theirs else OurDatabase(path)

    def copy(self, home: Any) -> Home:
        raw = connect(home.path)
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        raw.close()
        path = self._bench.path("copy")
        shutil.copyfile(home.path, path)
        return Database(path)

    def bytes(self, home: Any) -> int:
        raw = connect(home.path)
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        raw.close()
        return bytes_of(home.path)


class OnPostgres:
    """Databases of one server."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def new(self, name: str, *, theirs: bool = False, plain: bool = False) -> Home:
        return self._lab.home(name)

    def copy(self, home: Any) -> Home:
        home.close()
        self._lab.settle(home)
        return self._lab.copy(home)

    def bytes(self, home: Any) -> int:
        return home.bytes()
