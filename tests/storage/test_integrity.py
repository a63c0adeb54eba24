"""`verify` asks the database to check itself: what no thread leads to is damage too."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from perdure import Perdure
from perdure.testing.servers import require
from tests.checkpoints.damaging import told
from tests.checkpoints.places import PLACES
from tests.contract.backends import postgres_url
from tests.contract.emptied import schemas
from tests.storage.mysql import connected


async def _talk(store: Perdure) -> None:
    for number in range(40):
        thread = store.thread(f"t{number}", user="ann")
        await thread.save({"n": number})
        await thread.add_messages([{"role": "user", "content": f"a lantern and {number} words"}])
    await store.search("lantern", user="ann")


def _pages_of(path: Path, name: str) -> tuple[int, int]:
    """The byte that the root page of a table or index begins at, and the size of a page."""
    with closing(sqlite3.connect(path)) as database:
        ((root,),) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchall()
        ((size,),) = database.execute("PRAGMA page_size").fetchall()
    return (root - 1) * size, size


async def test_threads_that_swapped_pages_hide_are_found(tmp_path: Path) -> None:
    url, _ = PLACES["sqlite"](tmp_path)
    async with Perdure.open(url) as store:
        await _talk(store)
        assert (await store.verify()).damaged == []
    path = tmp_path / "store.db"
    (one, size), (two, _) = _pages_of(path, "perdure_thread_updated"), _pages_of(path, "perdure_thread_user")
    data = bytearray(path.read_bytes())
    data[one : one + size], data[two : two + size] = data[two : two + size], data[one : one + size]
    path.write_bytes(data)
    async with Perdure.open(url) as store:
        assert ("(storage)", "database") in told(await store.verify())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE perdure_message_search_data SET block = zeroblob(length(block)) WHERE id > 10",
        "DELETE FROM perdure_message_words WHERE row = (SELECT max(row) FROM perdure_message_words)",
        "INSERT INTO perdure_message_search (rowid, words) VALUES (5, 'nobody said that')",
    ],
)
async def test_a_damaged_search_index_is_found(statement: str, tmp_path: Path) -> None:
    url, _ = PLACES["sqlite"](tmp_path)
    async with Perdure.open(url) as store:
        await _talk(store)
        assert (await store.verify()).damaged == []
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        assert database.execute(statement).rowcount > 0
    async with Perdure.open(url) as store:
        assert ("(storage)", "database") in told(await store.verify())


async def test_amcheck_is_asked_where_it_is_installed() -> None:
    server = require(schemas)
    name = server.take()
    try:
        async with Perdure.open(postgres_url(), schema=name) as store:
            await _talk(store)
            with psycopg.connect(postgres_url(), autocommit=True) as postgres:
                available = "SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"
                if not postgres.execute(available).fetchall():
                    pytest.skip("not shown: this PostgreSQL comes without amcheck")
                postgres.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
                assert (await store.verify()).damaged == []
                # An index whose order is another one by now, as after an upgrade of the system's collations.
                made = f"CREATE OR REPLACE FUNCTION {name}.mirrored(text) RETURNS text IMMUTABLE LANGUAGE sql AS "
                postgres.execute(f"{made} 'SELECT $1'")  # type: ignore[arg-type]  # texts of this test
                postgres.execute(f"CREATE INDEX mirrored ON {name}.thread ({name}.mirrored(id))")  # type: ignore[arg-type]
                postgres.execute(f"{made} 'SELECT reverse($1)'")  # type: ignore[arg-type]
            found = await store.verify()
            assert [each.place for each in found.damaged] == ["database"]
            assert "mirrored" in found.damaged[0].reason
    finally:
        with psycopg.connect(postgres_url(), autocommit=True) as postgres:
            postgres.execute(f"DROP FUNCTION IF EXISTS {name}.mirrored(text) CASCADE")  # type: ignore[arg-type]
        server.give_back(name, f"{name}.")


async def test_a_table_that_mariadb_cannot_check_is_damage(tmp_path: Path) -> None:
    url, options = PLACES["mysql"](tmp_path)
    async with Perdure.open(url, **options) as store:
        await _talk(store)
        assert await store._parts.storage.integrity() == []
        with connected(url) as cursor:
            cursor.execute("DROP TABLE perdure_blob_use")
        found = await store._parts.storage.integrity()
        assert found
        assert all("perdure_blob_use" in each for each in found), found
