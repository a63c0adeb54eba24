"""SQL views of threads, states and messages: what plain drivers read, and that it is never ahead of the log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from perdure import Perdure
from perdure.errors import InvalidInputError
from tests.checkpoints.places import PLACES, opened

Query = Callable[..., list[tuple[Any, ...]]]


def _reader(url: str) -> Query:
    """What asks the database itself, without any of our code."""

    def query(text: str) -> list[tuple[Any, ...]]:
        if url.startswith("sqlite"):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
                return database.execute(text).fetchall()
        if url.startswith("postgresql"):
            with psycopg.connect(url) as connection:
                connection.execute("SET search_path = perdure")
                cursor = connection.execute(text.encode())
                return cursor.fetchall() if cursor.description else []
        at = urlsplit(url)
        where: dict[str, Any] = {"host": at.hostname, "port": at.port, "user": at.username, "database": at.path[1:]}
        with closing(pymysql.connect(**where, password=at.password or "")) as server, server.cursor() as rows:
            rows.execute(text)
            server.commit()
            return list(rows.fetchall())

    return query


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    return PLACES[request.param](tmp_path)


@pytest.fixture(params=["sync", "async"])
async def store(request: pytest.FixtureRequest, place: tuple[str, dict[str, Any]]) -> AsyncIterator[Any]:
    async with opened(place, request.param) as made:
        yield made


def _inside(url: str, path: str) -> str:
    """A text inside a state, in the words of each database."""
    if url.startswith("postgresql"):
        return f"state->>'{path}'"
    return f"json_extract(state, '$.{path}')" if url.startswith("sqlite") else f"JSON_VALUE(state, '$.{path}')"


async def test_states_messages_and_threads_are_read_with_json_functions(store: Any, place: Any) -> None:
    query = _reader(place[0])
    thread = store.thread("t", user="alice", agent="support", name="Lamp", tags=("x",))
    await thread.save({"city": "Köln 🏠", "large": "x" * 70_000, "when": (1, 2), "messages": []})
    await thread.append("messages", {"role": "user", "content": "nul \0, quote ' and 中, \\u0000"})
    await store.thread("t", user="bob").save({"city": "Rom"})
    await store.thread("empty").add_messages([{"role": "user", "content": "no state"}])
    assert (await store.refresh_views()).threads == 3
    city = _inside(place[0], "city")
    assert query(f"SELECT user_id, {city} FROM agent_states ORDER BY user_id") == [
        ("alice", "Köln 🏠"), ("bob", "Rom"),
    ]  # fmt: skip
    ((state, version),) = query("SELECT state, version FROM agent_states WHERE user_id = 'alice'")
    state = state if isinstance(state, dict) else json.loads(state)
    assert (state["when"], len(state["large"]), version) == ({"$tuple": [1, 2]}, 70_000, 2)
    (message,) = query("SELECT role, message, number FROM agent_messages WHERE user_id = 'alice'")
    body = message[1] if isinstance(message[1], dict) else json.loads(message[1])
    # PostgreSQL reads nothing of a document in which a text holds NUL.
    nul = "␀" if place[0].startswith("postgresql") else "\0"
    assert (message[0], body["content"], message[2]) == ("user", f"nul {nul}, quote ' and 中, \\u0000", 1)
    rows = query("SELECT thread_name, agent, tags, version, is_current FROM agent_threads WHERE user_id = 'alice'")
    assert rows == [("Lamp", "support", '["x"]', 2, 1)]
    assert len(query("SELECT 1 FROM agent_threads")) == 3


async def test_a_view_says_that_it_is_behind_and_a_refresh_reads_only_what_changed(store: Any, place: Any) -> None:
    query = _reader(place[0])
    for name in ("one", "two"):
        await store.thread(name, user="alice").save({"city": "Rom"})
    await store.refresh_views()
    await store.thread("one", user="alice").update(set={"city": "Oslo"})
    city = _inside(place[0], "city")
    read = f"SELECT thread_id, {city}, version, is_current FROM agent_states ORDER BY thread_id"
    assert query(read) == [("one", "Rom", 1, 0), ("two", "Rom", 1, 1)]
    assert (await store.refresh_views()).threads == 1
    assert query(read) == [("one", "Oslo", 2, 1), ("two", "Rom", 1, 1)]
    assert (await store.refresh_views()).threads == 0


async def test_what_is_deleted_or_forgotten_is_gone_at_once_and_nobody_inherits_it(store: Any, place: Any) -> None:
    query = _reader(place[0])
    for user in ("alice", "bob", "carol"):
        await store.thread("t", user=user).save({"city": user, "messages": [{"role": "user", "content": user}]})
    await store.refresh_views()
    await store.thread("t", user="carol").delete()
    # A new thread may get the number of the row of the deleted one; it shows nothing of that.
    await store.thread("t", user="carol").save({"city": "new"})
    assert query("SELECT user_id FROM agent_states ORDER BY user_id") == [("alice",), ("bob",)]
    await store.forget("alice", dry_run=False)
    assert query("SELECT user_id FROM agent_messages") == [("bob",)]
    prefix = "" if place[0].startswith("postgresql") else "perdure_"
    # Not only out of sight: nothing is left of them in the tables.
    for table in ("view_state", "view_message"):
        assert len(query(f"SELECT 1 FROM {prefix}{table}")) == 1
    await store.refresh_views()
    assert query("SELECT user_id FROM agent_states ORDER BY user_id") == [("bob",), ("carol",)]


async def test_nobody_writes_through_a_view(store: Any, place: Any) -> None:
    query = _reader(place[0])
    await store.thread("t", user="alice").save({"city": "Rom"})
    await store.refresh_views()
    for statement in (
        "DELETE FROM agent_threads", "UPDATE agent_threads SET status = 'x'", "UPDATE agent_states SET state = '{}'",
        "DELETE FROM agent_messages",
    ):  # fmt: skip
        with pytest.raises((sqlite3.Error, psycopg.Error, pymysql.Error)):
            query(statement)


async def test_repair_makes_the_views_again_and_drop_removes_them(store: Any, place: Any) -> None:
    query = _reader(place[0])
    await store.thread("t", user="alice").save({"city": "Rom"})
    assert not await store.drop_views()
    await store.refresh_views()
    prefix = "" if place[0].startswith("postgresql") else "perdure_"
    query(f"UPDATE {prefix}view_state SET state = '{{}}'")
    await store.repair()
    assert query(f"SELECT {_inside(place[0], 'city')} FROM agent_states") == [("Rom",)]
    assert (await store.verify()).ok
    assert await store.drop_views()
    with pytest.raises((sqlite3.Error, psycopg.Error, pymysql.Error)):
        query("SELECT 1 FROM agent_states")
    await store.compact()


async def test_what_is_kept_beside_threads_is_in_no_view(tmp_path: Path) -> None:
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        await store.thread("t", user="alice").save({"of": 1})
        await store.forget("alice", dry_run=False)  # its tombstone is a thread of the library's own
        await store.refresh_views()
        assert _reader(f"sqlite:///{tmp_path}/a.db")("SELECT * FROM agent_threads") == []


async def test_a_storage_without_sql_has_no_views() -> None:
    async with Perdure.open("memory://") as store:
        with pytest.raises(InvalidInputError, match="SQL database"):
            await store.refresh_views()


async def test_with_a_schema_of_its_own_the_views_are_in_it() -> None:
    """S2.17: `schema="agent"`, tables `agent_states` and `agent_messages`."""
    url, _ = PLACES["postgres"](Path())
    async with Perdure.open(url, schema="agent") as store:
        await store.thread("t", user="alice").save({"messages": [{"role": "user", "content": "hi"}]})
        await store.refresh_views()
    with psycopg.connect(url) as connection:
        joined = """SELECT s.user_id, s.state->'messages'->0->>'content', m.message->>'content'
FROM agent.agent_states s JOIN agent.agent_messages m USING (thread_id, namespace, user_id)"""
        assert connection.execute(joined).fetchall() == [("alice", "hi", "hi")]
