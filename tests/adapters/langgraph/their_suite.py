"""A plugin for LangGraph's own test suite: its graphs run on `PerdureSaver` where they would run on its SqliteSaver.

It is loaded by `scripts/langgraph-suite`, in LangGraph's tests and not in ours: `tests` is their package there. What is
in `EXPECTED` has to fail, with a reason that users of LangGraph would accept; a test in it that passes is a failure.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from perdure.adapters.langgraph import PerdureSaver

EXPECTED: dict[str, str] = {}  # by the name of a test without its parameters: why it fails
MOST_EXPECTED = 3
SAVER = os.environ["PERDURE_SUITE_SAVER"]  # sqlite, postgresql, or theirs


@contextmanager
def saver() -> Iterator[PerdureSaver]:
    with tempfile.TemporaryDirectory(prefix="langgraph-suite-") as folder, opened(folder) as made:
        yield made


@asynccontextmanager
async def async_saver() -> AsyncIterator[PerdureSaver]:
    with tempfile.TemporaryDirectory(prefix="langgraph-suite-") as folder:
        async with opened(folder) as made:
            yield made


def opened(folder: str) -> PerdureSaver:
    if SAVER == "sqlite":
        return PerdureSaver.open(f"sqlite:///{Path(folder, 'graph.db')}")
    return PerdureSaver.open(_postgres(), namespace=uuid4().hex)


def _postgres() -> str:
    """One database for each process; a namespace of its own keeps each test apart."""
    from perdure.testing.servers import require, shared_postgres

    global _url
    if not _url:
        _url = require(shared_postgres).database(f"suite_{os.getpid()}")
    return _url


_url = ""


def pytest_plugin_registered(plugin: Any) -> None:
    """Replace the savers in LangGraph's conftest, once it is loaded."""
    if SAVER != "theirs" and hasattr(plugin, "_checkpointer_sqlite_aio"):
        plugin._checkpointer_sqlite, plugin._checkpointer_sqlite_aio = saver, async_saver


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = [each for each in items if "sqlite" in each.nodeid and "sqlite_aes" not in each.nodeid]
    known = set(chosen)
    config.hook.pytest_deselected(items=[each for each in items if each not in known])
    items[:] = chosen
    assert len(EXPECTED) <= MOST_EXPECTED, "more exceptions than users would accept"
    for each in items:
        if SAVER != "theirs" and (reason := EXPECTED.get(each.nodeid.partition("[")[0])):
            each.add_marker(pytest.mark.xfail(reason=reason, strict=True))
