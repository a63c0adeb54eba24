"""Every Python block of the README and the docs runs, and prints what it says."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
import types
from pathlib import Path
from typing import Any

import psycopg
import pytest

import perdure.sync
from tests.docs.pages import PAGES, Block, blocks, name_of
from tests.docs.places import Places

_SAID = re.compile(r"# → (.*)$", re.MULTILINE)
_ELSEWHERE = {"langgraph.md"}  # run where LangGraph is installed: tests/adapters/langgraph
_PAGES = [
    page for page in PAGES if page.name not in _ELSEWHERE and any(block.language == "python" for block in blocks(page))
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
            expected = [said.strip() for said in _SAID.findall(block.text)]
            found = [line for line in printed if line in expected]
            assert found == expected, f"{name_of(page)}:{block.line} printed {printed}"


_QUERIED = [page for page in PAGES if any(block.language == "sql" for block in blocks(page))]


@pytest.mark.parametrize("page", _QUERIED, ids=name_of)
def test_the_sql_of_a_page_runs_on_a_database_that_was_used(page: Path) -> None:
    url = Places().named_in("postgresql://localhost/agents")
    with perdure.sync.Perdure.open(url) as store:
        store.thread("ticket-42", user="alice").update(set={"city": "Paris"}, checkpoint=True)
    with psycopg.connect(url) as database:
        for block in blocks(page):
            if block.language == "sql":
                database.execute(block.text.encode())
        database.rollback()  # a role would outlive the database


def run(block: Block, names: dict[str, Any]) -> list[str]:
    """Run a block as one would in `python -m asyncio`, and return the lines it printed."""
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, name_of(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        waiting = eval(code, names)
        if inspect.iscoroutine(waiting):
            asyncio.run(waiting)
    return out.getvalue().splitlines()
