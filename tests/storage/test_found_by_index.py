"""What is asked for by a name or by the beginning of a key is found by an index, whatever the planner knows."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.core.identity import ThreadKey
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.mysql.literals import spelled
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.sql.prefixes import after_all
from perdure.storage.sql.statements import Statements
from perdure.storage.sqlite.dialect import STATEMENTS
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import THREAD, Scribe
from perdure.testing.servers import PostgresServer, require
from tests.storage.mysql import run_mysql
from tests.storage.test_mysql import url as mysql_url  # noqa: F401  # a fixture
from tests.storage.test_postgres_pools import database, url  # noqa: F401  # fixtures

BEGINNINGS = ["a", "a/", "az", "\ud7ff", "a\U0010ffff", "\x7f", "漢", "\uffff", "x\U0010ffff\U0010ffff"]
Question = tuple[str, tuple[Any, ...], str]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False)) as server:
        yield server


@pytest.mark.parametrize("prefix", BEGINNINGS)
def test_a_range_of_texts_ends_with_the_last_that_begins_so(prefix: str) -> None:
    end = after_all(prefix)
    assert end is not None
    assert prefix < prefix + "\U0010ffff" * 9 < end
    assert not end.startswith(prefix)
    end.encode()  # no half of a pair: databases refuse it


def test_a_range_of_the_last_texts_has_no_end() -> None:
    assert after_all("\U0010ffff\U0010ffff") is None


@pytest.mark.parametrize("analyzed", [False, True])
def test_sqlite_finds_them_by_an_index(tmp_path: Path, analyzed: bool) -> None:
    path = str(tmp_path / "agents.db")
    questions = asked(SqliteStorage(path, mode="sync"), STATEMENTS)
    with closing(sqlite3.connect(path)) as connection:
        if analyzed:
            connection.execute("ANALYZE")
        for text, values, index in questions:
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
            assert f"USING INDEX perdure_{index} (" in plan[0]
            assert not any("SCAN" in step for step in plan)


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("known", ["force_custom_plan", "force_generic_plan"])
def test_postgres_finds_them_by_an_index(url: str, analyzed: bool, known: str) -> None:
    storage = PostgresStorage(url, Options(schema="perdure", server_time=False), mode="sync")
    questions = asked(storage, storage._port.sql)
    with psycopg.connect(url, autocommit=True, options=f"-c plan_cache_mode={known}") as connection:
        if analyzed:
            connection.execute("ANALYZE")
        for number, (text, values, index) in enumerate(questions):
            connection.execute(f"PREPARE q{number} AS {text}")
            given = ", ".join(psycopg.sql.Literal(value).as_string(connection) for value in values)
            plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN EXECUTE q{number} ({given})"))
            assert f" {index} " in plan
            assert not {f"Seq Scan on {table}" for table in ("entry", "checkpoint") if f"Seq Scan on {table} " in plan}


@pytest.mark.parametrize("analyzed", [False, True])
def test_mariadb_finds_them_by_an_index(mysql_url: str, analyzed: bool) -> None:
    storage = MysqlStorage(mysql_url, mode="sync", server_time=False)
    questions = asked(storage, storage._port.sql)
    if analyzed:
        run_mysql(mysql_url, "ANALYZE TABLE perdure_thread, perdure_entry, perdure_checkpoint")
    for text, values, index in questions:
        steps = run_mysql(mysql_url, "EXPLAIN " + spelled(text, values).decode().replace('"row"', "`row`"))
        assert (steps[0][5], int(steps[0][8]) <= 20) == (f"perdure_{index}", True)


def asked(storage: Storage, sql: Statements) -> list[Question]:
    """Fill a storage, close it, and say what may be asked of it, and which index answers."""
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    marks = [scribe.mark().id for _ in range(400)]
    for number, mark in enumerate(marks):
        drive(scribe.append(THREAD, idem_key=f"w/{number // 5}/{number}", checkpoint=scribe.mark(id=mark)))
        drive(scribe.append(ThreadKey("", "u", f"t{number % 300}"), idem_key=f"w/{number}", checkpoint=scribe.mark()))
    drive(storage.close())
    low, high, one = 1 << 32, 2 << 32, marks[200]
    return [
        (sql.under(ends=True), (1, "w/7/", "w/70", low, high), "entry_key"),
        (sql.under(ends=False), (1, "w/79/39", low, high), "entry_key"),
        (sql.checkpoints(("id",)), (low, high, one, 50), "checkpoint_id"),
        (sql.checkpoints(("id", "kind")), (low, high, one, "manual", 50), "checkpoint_id"),
        (sql.user_checkpoints("one", ("id",)), ("\U0010ffff", "", "alice", one, 50), "checkpoint_id"),
        (sql.THREADS_BY_ID, ("", "t7"), "thread_id"),
    ]


def test_of_many_users_with_a_thread_of_one_id_sqlite_finds_one_by_an_index(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        drive((storage := SqliteStorage(f"{tmp_path}/a.db", mode="sync")).setup())
        drive(storage.close())
        (plan,) = database.execute(f"EXPLAIN QUERY PLAN {STATEMENTS.NAMED_THREAD}", ("", "u", "default")).fetchall()
    assert plan[3].endswith("perdure_thread_id (id=? AND namespace=? AND user_id=?)")
