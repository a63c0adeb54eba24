"""Every Python block of the README and the docs runs, and prints what it says."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sqlite3
import sys
import types
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import perdure.sync
from perdure.testing.servers.mariadb import mysql_sql
from tests.docs.pages import PAGES, PROGRAMS, ROOT, Block, blocks, name_of
from tests.docs.places import Places

SAID = re.compile(r"# → (.*)$", re.MULTILINE)
_ELSEWHERE = {"langgraph.md"}  # run where LangGraph is installed: tests/adapters/langgraph
_PAGES = [
    page
    for page in PAGES
    if page not in PROGRAMS and page.name not in _ELSEWHERE and any(each.language == "python" for each in blocks(page))
]


@pytest.mark.parametrize("page", _PAGES, ids=name_of)
def test_the_examples_of_a_page_run_and_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examine(page, monkeypatch)


def examine(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples of a page here; they print what it says they do."""
    module = types.ModuleType("example")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "example", module)
    places = Places()
    for block in blocks(page):
        if block.language == "python":
            printed = run(block._replace(text=places.named_in(block.text)), vars(module))
            expected = [said.strip() for said in SAID.findall(block.text)]
            found = [line for line in printed if line in expected]
            assert found == expected, f"{name_of(page)}:{block.line} printed {printed}"


_QUERIED = [page for page in PAGES if any(block.language == "sql" for block in blocks(page))]


@pytest.mark.parametrize("page", _QUERIED, ids=name_of)
def test_the_sql_of_a_page_runs_on_a_database_that_was_used(page: Path) -> None:
    url = Places().named_in("postgresql://localhost/agents")
    _use(url)
    with psycopg.connect(url) as database:
        for block in blocks(page):
            if block.language == "sql":
                database.execute(block.text.encode())
        database.rollback()  # a role would outlive the database


def test_the_queries_for_mariadb_run_and_find_something() -> None:
    url = Places().named_in("mysql://localhost/agents")
    _use(url)
    at = urlsplit(url)
    where = {"host": at.hostname, "port": at.port, "user": at.username, "database": at.path[1:]}
    assert [bool(mysql_sql(where, query)) for query in _queries("mysql")] == [True] * 3


def test_the_queries_for_sqlite_run_and_find_something(tmp_path: Path) -> None:
    _use(f"sqlite:///{tmp_path}/agents.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "agents.db")) as database:
        assert [bool(database.execute(query).fetchall()) for query in _queries("sqlite")] == [True] * 3


def _use(url: str) -> None:
    with perdure.sync.Perdure.open(url) as store:
        thread = store.thread("ticket-42", user="alice")
        thread.update(set={"city": "Paris"}, checkpoint=True)
        thread.add_messages([{"role": "user", "content": "a refund, and an invoice"}])
        assert thread.messages(search="refund")


def _queries(language: str) -> list[str]:
    page = ROOT / "docs" / "reference" / "tables.md"
    texts = [block.text for block in blocks(page) if block.language == language]
    return [query for text in texts for query in text.split(";") if query.strip()]


def run(block: Block, names: dict[str, Any]) -> list[str]:
    """Run a block as one would in `python -m asyncio`, and return the lines it printed."""
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, name_of(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        waiting = eval(code, names)
        if inspect.iscoroutine(waiting):
            asyncio.run(waiting)
    return out.getvalue().splitlines()
