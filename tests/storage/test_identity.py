"""A row of one thread in another's place is damage: nobody is shown another user's state."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure import Perdure
from perdure.app.copying import copy_threads
from perdure.core.errors import DamagedError, StorageDamagedError
from perdure.core.identity import ThreadKey, identity_digest
from perdure.testing.servers import require, shared_mariadb
from tests.checkpoints.places import PLACES, Place
from tests.contract.backends import postgres_url
from tests.contract.emptied import databases, schemas
from tests.storage.mysql import connected

BACKENDS = ("sqlite", "postgres", "mysql")
OWNER = ("namespace", "user_id", "id", "name_key")
# Columns that are swapped between the rows of two threads; the rest stays with the log.
SWAPS = {
    "the owners": OWNER,
    "the owners and the uids": (*OWNER, "uid"),
    "everything but the log": (*OWNER, "uid", "identity"),
    "the numbers of the rows": ("row",),
    "the heads": ("head", "head_state_version", "head_digest", "last_checkpoint"),
    "all but the heads": (*OWNER, "uid", "identity", "first_chain"),
}


@contextmanager
def _lent(backend: str, folder: Path) -> Iterator[tuple[Place, str]]:
    """Where an empty store may be, and what stands before the names of its tables."""
    if backend == "sqlite":
        yield PLACES["sqlite"](folder), "perdure_"
        return
    server = require(schemas if backend == "postgres" else databases)
    name = server.take()
    try:
        if backend == "postgres":
            yield (postgres_url(), {"schema": name}), f"{name}."
        else:
            yield (f"{shared_mariadb().url.rpartition('/')[0]}/{name}", {}), "perdure_"
    finally:
        server.give_back(name, f"{name}." if backend == "postgres" else f"{name}.perdure_")


def _run(backend: str, url: str, *statements: str) -> list[Any]:
    """Statements by hand; the rows of the last one."""
    if backend == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            return [connection.execute(each).fetchall() for each in statements][-1]
    if backend == "postgres":
        with psycopg.connect(url, autocommit=True) as postgres:
            cursors = [postgres.execute(each) for each in statements]  # type: ignore[arg-type]  # texts of this test
            return cursors[-1].fetchall() if cursors[-1].description else []
    with connected(url) as cursor:
        for each in statements:
            cursor.execute(each.replace('"', "`"))
        return list(cursor.fetchall())


def _swap(backend: str, url: str, tables: str, columns: tuple[str, ...]) -> None:
    """Swap columns of the rows of ann and bob."""
    quoted = [f'"{column}"' for column in columns]
    thread, copy = f"{tables}thread", f"{tables}swapped"
    taken = (
        f'CREATE TABLE {copy} AS SELECT "row" AS at, {", ".join(f"{each} AS c{n}" for n, each in enumerate(quoted))}'
    )
    _run(backend, url, f"{taken} FROM {thread}")
    rows = _run(backend, url, f"SELECT at FROM {copy} ORDER BY at")
    assert len(rows) == 2
    (one,), (two,) = rows
    # Unique columns are moved out of the way first.
    away = {"name_key": "NULL", "uid": "'away'", '"row"': "99"}
    parked = ", ".join(
        f"{each} = {away[each]}" for each in (q.strip('"') if q != '"row"' else q for q in quoted) if each in away
    )

    def put(number: int, now: int, source: int) -> str:
        sets = ", ".join(f"{each} = (SELECT c{n} FROM {copy} WHERE at = {source})" for n, each in enumerate(quoted))
        return f'UPDATE {thread} SET {sets} WHERE "row" = {now if columns == ("row",) else number}'

    if parked:
        _run(backend, url, f'UPDATE {thread} SET {parked} WHERE "row" = {one}')
    _run(backend, url, put(two, two, one), put(one, 99, two), f"DROP TABLE {copy}")


async def _two_users(store: Perdure) -> None:
    for user in ("ann", "bob"):
        thread = store.thread("t", user=user)
        for number in range(4):
            await thread.save({"owner": user, "n": number}, key=f"save {number}")
        await thread.add_messages([{"role": "user", "content": user}])


async def _seen_by(store: Perdure, user: str) -> set[str]:
    """Whose data a user is shown, through everything that shows any; damage for a typed error."""
    thread, seen = store.thread("t", user=user), set[str]()

    async def look(call: Any) -> None:
        try:
            found = repr(await call)
        except DamagedError:
            seen.add("damage")
        else:
            seen.update(name for name in ("ann", "bob") if f"'{name}'" in found)

    await look(thread.load())
    await look(thread.load("@2"))
    await look(thread.entries())
    await look(thread.messages())
    await look(thread.message_lines())
    await look(thread.history())
    await look(thread.info())
    await look(store.search(user, user=user))
    await look(store.threads(user=user))
    return seen


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_row_in_anothers_place_never_shows_anothers_state(backend: str, swap: str, tmp_path: Path) -> None:
    with _lent(backend, tmp_path) as ((url, options), tables):
        async with Perdure.open(url, **options) as store:
            await _two_users(store)
        _swap(backend, url, tables, SWAPS[swap])
        async with Perdure.open(url, **options) as store:
            seen = {user: await _seen_by(store, user) for user in ("ann", "bob")}
            assert "bob" not in seen["ann"], seen
            assert "ann" not in seen["bob"], seen
            assert "damage" in seen["ann"] | seen["bob"]
            assert not (await store.verify()).ok


@pytest.mark.parametrize("backend", BACKENDS)
async def test_every_way_to_make_a_thread_writes_an_identity_of_its_own(backend: str, tmp_path: Path) -> None:
    with _lent(backend, tmp_path) as ((url, options), tables):
        async with Perdure.open(url, **options) as store, Perdure.open("memory://") as other:
            await _two_users(store)
            ann = store.thread("t", user="ann")
            await ann.fork("@2", to="fork")
            await (await ann.fork("@3", to="written")).save({"owner": "ann", "n": 9})
            await store.export(ann, tmp_path / "t.perdure")
            await store.import_(tmp_path / "t.perdure", to="imported", user="carol")
            await copy_threads(store._parts.storage, other._parts.storage)
            await ann.delete()
            await copy_threads(other._parts.storage, store._parts.storage)
            assert (await store.verify()).damaged == []
        named = f"SELECT namespace, user_id, id, uid, first_chain, identity FROM {tables}thread"
        rows = _run(backend, url, named)
        assert len(rows) >= 5
        for namespace, user, thread, uid, first, identity in rows:
            assert bytes(identity) == identity_digest(ThreadKey(namespace, user, thread), uid, bytes(first))
        assert len({bytes(row[-1]) for row in rows}) == len(rows)


async def test_a_row_with_a_damaged_identity_is_named(tmp_path: Path) -> None:
    url, options = PLACES["sqlite"](tmp_path)
    async with Perdure.open(url, **options) as store:
        await _two_users(store)
    _run("sqlite", url, "UPDATE perdure_thread SET identity = zeroblob(32) WHERE user_id = 'ann'")
    async with Perdure.open(url, **options) as store:
        with pytest.raises(StorageDamagedError, match=r"the row of thread 't'.*made for another thread"):
            await store.thread("t", user="ann").load(default=None)
        assert (await store.thread("t", user="bob").load())["owner"] == "bob"
