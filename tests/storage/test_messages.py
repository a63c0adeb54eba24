"""Lines of messages in SQL: every statement asks whose they are, an index finds them, and nothing is left behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.errors import StorageError
from perdure.core.messages import SHAPE, MessageQuery, Owner, Projected
from perdure.storage.drive import drive
from perdure.storage.mysql import dialect as mysql
from perdure.storage.postgres import dialect as postgres
from perdure.storage.sql import asking, finding, rows
from perdure.storage.sql.dialect import EVERYBODY, NOBODY, ONE, Dialect
from perdure.storage.sql.statements import Statements
from perdure.storage.sqlite import store as sqlite_store
from perdure.storage.sqlite.dialect import DIALECT
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract.messages import put, said, seen_of
from perdure.testing.contract.user_messages import expected
from perdure.testing.scribe import BOBS, OTHER, THREAD, Scribe
from tests.contract.backends import BACKENDS

ALICE = Owner("", "alice")
DIALECTS = {
    "sqlite": DIALECT,
    "postgres": postgres.dialect("perdure", "string"),
    "postgres_int": postgres.dialect("perdure", "int"),
    "mysql": mysql.dialect("string"),
    "mysql_int": mysql.dialect("bigint"),
}
TABLES = ("message", "message_words", "projection")


class Opened:
    """A SQLite storage, and a look at its file from outside."""

    def __init__(self, path: Path) -> None:
        self.storage = SqliteStorage(str(path), mode="sync")
        drive(self.storage.setup())
        self.scribe = Scribe(self.storage, ManualClock())
        self._path = path

    def ask(self, question: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(question, values).fetchall()

    def plan(self, statement: str, *values: Any) -> list[str]:
        return [row[3] for row in self.ask(f"EXPLAIN QUERY PLAN {statement}", *values)]

    def words(self) -> int:
        """How many words the index knows."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'perdure_message_search', 'row')")
            return connection.execute("SELECT count(*) FROM temp.v").fetchone()[0]

    def lines(self) -> list[int]:
        return [self.ask(f"SELECT count(*) FROM perdure_{table}")[0][0] for table in TABLES]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path / "agents.db")
    yield opened
    drive(opened.storage.close())


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("searched", [False, True])
def test_every_statement_about_an_owner_asks_whose_the_lines_are(dialect: Dialect, searched: bool) -> None:
    sql = Statements(dialect).messages
    ways: list[Any] = [sql.owned_lines, sql.first_lines, sql.owned_tally, sql.owned_threads]
    for whose, user in ((ONE, "t.user_id = "), (NOBODY, f"t.{dialect.user_nobody}"), (EVERYBODY, "t.namespace = ")):
        texts = [way(whose, "", searched=searched) for way in ways]
        texts += [way(whose, "", searched=searched, judged=True) for way in ways[:2]]
        if dialect.words.walk:
            texts += [sql.first_walked_lines(whose, "", until=""), sql.newest_lines(whose, "")]
        for text in filter(None, texts):
            assert "t.namespace = " in text
            assert "t.name_key IS NOT NULL" in text
            assert user in text
        assert user.removeprefix("t.") in sql.unprojected(whose)


def test_lists_are_found_by_an_index_and_not_sorted(opened: Opened) -> None:
    sql = Statements(DIALECT).messages
    found = " AND w.perdure_message_search MATCH ?"
    for text, values in (
        (sql.lines("", order="DESC"), (0, 9, 50)),
        (sql.first_lines(ONE, "", searched=False), (1, "", "alice", 50)),
        (sql.first_lines(EVERYBODY, "", searched=False), (1, "", 50)),
        (sql.first_lines(ONE, found, searched=True), (1, "", "alice", '"a"', 50)),
    ):
        steps = opened.plan(text, *values)
        assert not [step for step in steps if "TEMP B-TREE" in step or step.startswith("SCAN m")], steps
    by_id = opened.plan(sql.lines(" AND m.id IN (?, ?)", order="DESC"), 0, 9, "a", "b", 50)
    assert by_id[0] == "SEARCH m USING INDEX perdure_message_id (id=? AND row>? AND row<?)"


def test_nothing_of_a_deleted_thread_is_left_behind(opened: Opened) -> None:
    drive(said(opened.scribe, "one two", "three"))
    drive(said(opened.scribe, "four", key=OTHER))
    drive(opened.storage.delete(THREAD))
    assert (opened.lines(), opened.words()) == ([1, 1, 1], 1)
    drive(opened.storage.delete(OTHER))
    assert (opened.lines(), opened.words()) == ([0, 0, 0], 0)


def test_lines_that_were_replaced_leave_no_words_behind(opened: Opened) -> None:
    lines = drive(said(opened.scribe, "one two", "two three", "four"))
    drive(put(opened.storage, rows=[], gone=[2]))
    assert (opened.lines(), opened.words()) == ([2, 2, 1], 3)
    drive(put(opened.storage, rows=lines[2:], anew=True))
    assert (opened.lines(), opened.words()) == ([1, 1, 1], 1)


def test_compacting_gives_back_what_words_took(opened: Opened) -> None:
    for number in range(20):
        drive(said(opened.scribe, *(f"word{number}x{each} and a few more" for each in range(50))))
    drive(opened.storage.delete(THREAD))
    assert drive(opened.storage.compact()) > 100_000
    assert opened.ask("SELECT count(*) FROM perdure_message_search_data")[0][0] <= 3
    drive(said(opened.scribe, "found again"))
    assert len(drive(opened.storage.messages(THREAD, MessageQuery(words=("again",))))) == 1


def test_a_thread_whose_index_was_made_again_is_read_off_anew(opened: Opened) -> None:
    drive(said(opened.scribe, "one"))
    drive(said(opened.scribe, "two", key=OTHER))
    derived = drive(opened.storage.derived(THREAD))
    assert derived is not None
    assert drive(opened.storage.reindex(derived.row, derived))
    assert (drive(seen_of(opened.storage)).version, opened.lines(), opened.words()) == (0, [1, 1, 1], 1)
    assert drive(opened.storage.unprojected(ALICE)) == [derived.row]


def test_lines_of_another_shape_are_told_and_made_again(opened: Opened) -> None:
    lines = drive(said(opened.scribe, "one"))
    opened.ask("UPDATE perdure_projection SET shape = 99")
    seen = drive(seen_of(opened.storage))
    assert (seen.shape, drive(opened.storage.unprojected(ALICE))) == (99, [seen.row])
    for of in (ALICE, THREAD):
        assert drive(opened.storage.current(of, MessageQuery())) is None
    again = Projected(seen=seen, version=1, count=1, rows=[msgspec.structs.replace(lines[0], payload=None)], anew=True)
    assert drive(opened.storage.project(again))
    assert drive(seen_of(opened.storage)).shape == SHAPE
    assert not drive(opened.storage.project(again))  # as after an answer that was lost


def test_a_library_without_fts5_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "HAS_FTS5", "SELECT 1 WHERE 0")
    monkeypatch.setattr(sqlite_store.SqliteStorage, "_is_library_checked", False)
    storage = SqliteStorage(str(tmp_path / "agents.db"), mode="sync")
    with pytest.raises(StorageError, match="FTS5"):
        drive(storage.setup())
    drive(storage.close())


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("few", [0, 10])
def test_postgresql_finds_words_in_every_way_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool, few: int
) -> None:
    monkeypatch.setattr(finding, "_LONG", 0 if is_long else 1 << 40)
    monkeypatch.setattr(finding, "_FEW_WORDS", few)  # none: the index alone
    backend = BACKENDS["postgres"]("sync", tmp_path)
    storage: Any = backend.open()
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    texts = [f"all {' '.join(f'in{each}' for each in (2, 9, 50) if at % each == 1)}" for at in range(250)]
    lines = drive(said(scribe, *texts, micros=scribe.clock.now()))  # all of one time
    for word in ("all", "in2", "in9", "in50", "never"):
        query = MessageQuery(words=(word,), limit=30)
        assert drive(storage.messages(THREAD, query)) == drive(storage.messages(ALICE, query)) == expected(lines, query)
    drive(storage.close())
    backend.clear()


def test_postgresql_finds_a_users_lines_among_those_of_others_with_the_same_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rows, asking):
        monkeypatch.setattr(module, "scope_number", lambda namespace, user: 7)
    backend = BACKENDS["postgres"]("sync", tmp_path)
    storage: Any = backend.open()
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    texts = [f"all {'rare' if at % 40 == 1 else ''}" for at in range(400)]
    lines = drive(said(scribe, *texts))
    drive(said(scribe, *texts, key=BOBS))
    for limit in (3, 50):
        query = MessageQuery(words=("rare",), limit=limit)
        assert drive(storage.messages(ALICE, query)) == drive(storage.current(ALICE, query)) == expected(lines, query)
    drive(storage.close())
    backend.clear()
