"""Set-up on PostgreSQL: by several at once, killed halfway, by others' hands, and under few rights."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from perdure import sync
from perdure.core.errors import SchemaOutdatedError, StorageReadOnlyError
from perdure.storage.contract import SCHEMA
from perdure.storage.drive import drive
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.testing.servers import PostgresServer, ServerMissing, require
from perdure.testing.servers.binaries import POSTGRES, beside
from tests.crash.set_up_kills import Kill
from tests.crash.waiting_child import Child, together
from tests.storage.test_postgres_pools import database, url  # noqa: F401  # fixtures

ROOT = Path(__file__).parents[2]
KILLS = 58  # as many as there are statements, and some
LAYOUT = """
SELECT table_name, ordinal_position, column_name, data_type, collation_name, is_nullable, is_identity
FROM information_schema.columns WHERE table_schema = 'perdure' ORDER BY 1, 2;
SELECT indexdef FROM pg_indexes WHERE schemaname = 'perdure' ORDER BY 1;
SELECT c.relname, c.reloptions, a.attname, a.attstorage FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'perdure'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 ORDER BY 1, 3
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False)) as server:
        yield server


def test_four_processes_may_set_up_an_empty_database_at_once(url: str) -> None:
    assert together([Child("set_up", url) for _ in range(4)]) == [SCHEMA] * 4
    storage = opened(url)
    assert drive(storage.setup("check")).schema == SCHEMA
    drive(storage.close())


def test_a_set_up_that_was_killed_is_finished_by_the_next_start(url: str) -> None:
    command = [sys.executable, "-m", "tests.crash.set_up_kills", url, str(KILLS)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kills = [msgspec.json.decode(line, type=Kill) for line in said.splitlines()]
    assert [each.finished for each in kills] == [True] * KILLS
    assert sum(each.killed for each in kills) >= 20
    assert {each.left for each in kills} == {0, len(tables(url, drive_set_up=True))}  # all of it or nothing


def test_a_check_of_an_empty_database_changes_nothing(url: str) -> None:
    storage = opened(url)
    with pytest.raises(SchemaOutdatedError):
        drive(storage.setup("check"))
    drive(storage.close())
    assert ask(url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'perdure'") == [(0,)]
    with pytest.raises(SchemaOutdatedError), sync.Perdure.open(url, migrate="check"):
        pass
    assert tables(url) == []


def test_a_program_without_rights_uses_a_layout_that_others_made(server: PostgresServer, database: str) -> None:
    run_printed(server, database)
    app = server.role("app", "secret", database=database)
    for grant in (
        "USAGE ON SCHEMA perdure",
        "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA perdure",
        "USAGE ON ALL SEQUENCES IN SCHEMA perdure",
    ):
        server.sql(f"GRANT {grant} TO app", database)
    with sync.Perdure.open(app, migrate="check") as store:
        thread = store.thread("t", user="u")
        thread.append("messages", "x" * 100_000, checkpoint=True)
        for number in range(30):
            thread.save({"messages": ["y" * 3000], "n": number})
        fork = thread.fork(to="f")
        assert (fork.load()["n"], len(fork.history())) == (29, 31)
        assert fork.delete()
        assert store.sizes().threads == 1


def test_a_program_without_rights_is_told_so(server: PostgresServer, database: str) -> None:
    app = server.role("nobody", "secret", database=database)
    with pytest.raises(StorageReadOnlyError), sync.Perdure.open(app):
        pass


def test_printed_steps_make_the_layout_that_set_up_makes(server: PostgresServer, url: str, database: str) -> None:
    run_printed(server, database)
    assert layout(server, database) == fresh_layout(server)


def test_set_up_again_changes_nothing(server: PostgresServer, url: str, database: str) -> None:
    for _ in range(2):
        storage = opened(url)
        drive(storage.setup())
        drive(storage.close())
    assert layout(server, database) == fresh_layout(server)


def test_two_schemas_of_one_database_are_apart(url: str) -> None:
    with sync.Perdure.open(url, schema="one") as one, sync.Perdure.open(url, schema="two") as two:
        one.thread("t").save({"in": "one"}, key="k")
        two.thread("t").save({"in": "two"}, key="k")
        assert one.thread("t").load() == {"in": "one"}
        one.thread("t").delete()
        assert two.thread("t").load() == {"in": "two"}
        assert (one.sizes().threads, two.sizes().threads) == (0, 1)


def test_a_schema_that_somebody_made_before_is_used(server: PostgresServer, url: str, database: str) -> None:
    server.sql("CREATE SCHEMA perdure; CREATE TABLE perdure.theirs (id int)", database)
    with sync.Perdure.open(url) as store:
        assert store.thread("t").append("a", 1) == 1
    assert "theirs" in tables(url)


def opened(url: str) -> PostgresStorage:
    return PostgresStorage(url, Options(retry_seconds=2), mode="sync")


def ask(url: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(question.encode()).fetchall()


def tables(url: str, *, drive_set_up: bool = False) -> list[object]:
    """The tables in our schema; if asked, after setting it up."""
    if drive_set_up:
        storage = opened(url)
        drive(storage.setup())
        drive(storage.close())
    return [name for (name,) in ask(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'perdure'")]


def run_printed(server: PostgresServer, database: str) -> None:
    """Hand what `perdure schema URL` prints to psql."""
    command = [sys.executable, "-m", "perdure.cli.main", "schema", server.address(database)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    psql = beside(POSTGRES.find(), "psql", POSTGRES.install)
    words = [str(psql), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", server.address(database), "-f", "-"]
    subprocess.run(words, input=printed, text=True, check=True, capture_output=True)


def fresh_layout(server: PostgresServer) -> object:
    """The layout that set-up makes in an empty database."""
    tables(server.database("fresh"), drive_set_up=True)
    try:
        return layout(server, "fresh")
    finally:
        server.drop("fresh")


def layout(server: PostgresServer, database: str) -> object:
    """Everything about our schema: as pg_dump writes it, or where there is none, as the catalogue has it."""
    url = server.address(database)
    kept = ask(url, "SELECT name, value FROM perdure.meta ORDER BY name")
    try:
        pg_dump = beside(POSTGRES.find(), "pg_dump", POSTGRES.install)
    except ServerMissing:
        return kept, [ask(url, question) for question in LAYOUT.split(";")]
    words = [str(pg_dump), "--schema-only", "--no-owner", "-d", url]
    dumped = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return kept, [line for line in dumped.splitlines() if line and not line.startswith(("--", "\\"))]
