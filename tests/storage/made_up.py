"""Releases that there are not yet, each with a step more than the one before: what upgrades promise is tested by them.

`NOW` is this release. `NEXT` adds to the layout, which `NOW` may go on using. `LATER` changes it for everybody.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from perdure.storage.contract import Schema, Storage
from perdure.storage.file import files
from perdure.storage.file import layout as folder
from perdure.storage.file.disk import Disk, RealDisk
from perdure.storage.file.store import FileStorage
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.ports import InPlace
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.sql.dialect import Dialect
from perdure.storage.sql.schema import STEPS, Index, SchemaStep
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.contract.lifetime import CURRENT
from tests.storage.mysql import connected

NOW, NEXT, LATER = 1, 2, 3
ADMITS = {
    NOW: CURRENT,
    NEXT: Schema(schema=2, min_reader=1, min_writer=1),
    LATER: Schema(schema=3, min_reader=3, min_writer=3),
}
NOTES = ("one", "two", "three")


def _filled(dialect: Dialect) -> list[str]:
    return [f"UPDATE {dialect.table('thread')} SET rank = head"]


_ADDS = SchemaStep(
    number=NEXT,
    why="a table, a column, what is in it, and an index over it",
    parts=(
        "CREATE TABLE {t}made_up (\n  name             {id} PRIMARY KEY,\n  value            {int} NOT NULL\n){table}",
        "ALTER TABLE {t}thread ADD COLUMN rank {int} NOT NULL DEFAULT 0",
        _filled,
        Index("thread_rank", "thread (rank)"),
        Index("made_up_value", "made_up (value)"),
    ),
    min_reader=1,
    min_writer=1,
)
_CHANGES = SchemaStep(
    number=LATER,
    why="a column that others would have to fill in",
    parts=("ALTER TABLE {t}thread ADD COLUMN weight {int} NOT NULL DEFAULT 1",),
    min_reader=3,
    min_writer=3,
)
TABLES = (*STEPS, _ADDS, _CHANGES)


def _add_notes(disk: Disk, root: str) -> None:
    files.make_folder(disk, f"{root}/notes")
    for name in NOTES:
        files.put(disk, f"{root}/notes/{name}", name.encode())


def _add_weights(disk: Disk, root: str) -> None:
    files.put(disk, f"{root}/weights", b"1")


FOLDERS = (
    *folder.STEPS,
    folder.FolderStep(
        number=NEXT, why="notes", words=("add notes",), change=_add_notes, min_reader=1, min_writer=1
    ),
    folder.FolderStep(
        number=LATER, why="weights", words=("add weights",), change=_add_weights, min_reader=3, min_writer=3
    ),
)  # fmt: skip


class Place(Protocol):
    """Where a storage is, and what lies there."""

    def open(self, release: int, *, first: int = 1) -> Storage:
        """The storage as a release opens it, which knows the steps from `first` on."""
        ...

    def pieces(self) -> set[str]:
        """The parts of the step of `NEXT` that are there."""
        ...

    def told(self) -> object:
        """Everything a refused release might have touched."""
        ...

    def migrate(self, statements: list[str]) -> None:
        """Run what `migration` prints, as people do."""
        ...


class Folder:
    """A folder of files."""

    def __init__(self, at: str) -> None:
        self._at = at

    def open(self, release: int, *, first: int = 1, disk: Disk | None = None) -> FileStorage:
        return FileStorage(
            self._at, port=InPlace(self._at), disk=disk or RealDisk(), steps=FOLDERS[first - 1 : release]
        )

    def pieces(self) -> set[str]:
        return {path.name for path in Path(self._at, "notes").glob("*") if path.suffix != ".tmp"}

    def told(self) -> object:
        return {path: path.read_bytes() for path in sorted(Path(self._at).rglob("*")) if path.is_file()}

    def migrate(self, statements: list[str]) -> None:
        raise AssertionError("a folder is upgraded by nobody but us")


class Tables:
    """A database."""

    tables = "perdure_"

    def pieces(self) -> set[str]:
        found = set(self._names("made_up")) & {"name", "value"}
        columns = set(self._names("thread")) & {"rank"}
        indexes = self._indexes() & {"thread_rank", "made_up_value"}
        empty = columns and self.ask(f"SELECT count(*) FROM {self.tables}thread WHERE rank = 0") != [(0,)]
        return found | columns | indexes | ({"filled"} if columns and not empty else set())

    def told(self) -> object:
        meta = self.ask(f"SELECT name, value FROM {self.tables}meta ORDER BY name")
        return meta, self._names("thread"), self._names("made_up"), self._indexes()

    def migrate(self, statements: list[str]) -> None:
        with self.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with self.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())

    @contextmanager
    def cursor(self) -> Generator[Any]:
        raise NotImplementedError
        yield

    def _names(self, table: str) -> list[str]:
        raise NotImplementedError

    def _indexes(self) -> set[str]:
        raise NotImplementedError


class Sqlite(Tables):
    """A file of SQLite."""

    def __init__(self, at: str) -> None:
        self._at = at

    def open(self, release: int, *, first: int = 1) -> SqliteStorage:
        return SqliteStorage(self._at, mode="sync", steps=TABLES[first - 1 : release])

    @contextmanager
    def cursor(self) -> Generator[Any]:
        with closing(sqlite3.connect(self._at, isolation_level=None)) as connection:
            yield connection.cursor()

    def _names(self, table: str) -> list[str]:
        return [row[0] for row in self.ask(f"SELECT name FROM pragma_table_info('perdure_{table}')")]

    def _indexes(self) -> set[str]:
        found = self.ask("SELECT name FROM sqlite_master WHERE type = 'index'")
        return {name.removeprefix("perdure_") for (name,) in found}


class Postgres(Tables):
    """A schema of PostgreSQL: its address, a space, its name."""

    def __init__(self, at: str) -> None:
        self._url, self._schema = at.split(" ")
        self.tables = f"{self._schema}."

    def open(self, release: int, *, first: int = 1) -> PostgresStorage:
        options = Options(schema=self._schema, server_time=False)
        return PostgresStorage(self._url, options, mode="sync", steps=TABLES[first - 1 : release])

    @contextmanager
    def cursor(self) -> Generator[Any]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            yield connection.cursor()

    def _names(self, table: str) -> list[str]:
        where = f"table_schema = '{self._schema}' AND table_name = '{table}' ORDER BY ordinal_position"
        return [name for (name,) in self.ask(f"SELECT column_name FROM information_schema.columns WHERE {where}")]

    def _indexes(self) -> set[str]:
        found = self.ask(f"SELECT indexname FROM pg_indexes WHERE schemaname = '{self._schema}'")
        return {name for (name,) in found}


class Mysql(Tables):
    """A database of MariaDB."""

    def __init__(self, at: str) -> None:
        self._url = at

    def open(self, release: int, *, first: int = 1) -> MysqlStorage:
        return MysqlStorage(self._url, mode="sync", server_time=False, steps=TABLES[first - 1 : release])

    @contextmanager
    def cursor(self) -> Generator[Any]:
        with connected(self._url) as cursor:
            yield cursor

    def _names(self, table: str) -> list[str]:
        where = f"table_schema = database() AND table_name = 'perdure_{table}' ORDER BY ordinal_position"
        return [name for (name,) in self.ask(f"SELECT column_name FROM information_schema.columns WHERE {where}")]

    def _indexes(self) -> set[str]:
        found = self.ask("SELECT index_name FROM information_schema.statistics WHERE table_schema = database()")
        return {name.removeprefix("perdure_") for (name,) in found}


PIECES: dict[type[Any], set[str]] = {
    Folder: set(NOTES),
    Tables: {"name", "value", "rank", "thread_rank", "made_up_value", "filled"},
}
PLACES: dict[str, type[Any]] = {"file": Folder, "sqlite": Sqlite, "postgres": Postgres, "mysql": Mysql}


def whole(place: Place) -> set[str]:
    """All pieces of the step of `NEXT`."""
    return PIECES[Folder if isinstance(place, Folder) else Tables]
