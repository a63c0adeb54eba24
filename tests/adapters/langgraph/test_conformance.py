"""LangGraph's own suite for savers: all capabilities, every test of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import CapabilityReport

from tests.adapters.langgraph.savers import OURS, THEIRS, Kind

ALL = {
    "put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5, "delete_for_runs": 7,
    "copy_thread": 8, "prune": 8,
}  # fmt: skip
BASE = {"put", "put_writes", "get_tuple", "list", "delete_thread"}


async def validated(kind: Kind, name: str) -> CapabilityReport:
    async def fresh() -> AsyncIterator[Any]:
        database = kind.make()
        async with database.open() as saver:
            yield saver
        database.clear()

    return await validate(checkpointer_test(name=name)(fresh))


def counted(report: CapabilityReport) -> dict[str, int]:
    return {name: result.tests_passed for name, result in report.results.items() if result.detected}


def failures(report: CapabilityReport) -> list[str]:
    return [each for result in report.results.values() for each in result.failures]


@pytest.mark.parametrize("name", OURS)
async def test_ours_passes_81_of_81(name: str) -> None:
    report = await validated(OURS[name], name)
    assert failures(report) == []
    assert counted(report) == ALL
    assert sum(ALL.values()) == 81


@pytest.mark.parametrize(
    ("name", "offered"),
    [("InMemorySaver", BASE), ("AsyncSqliteSaver", BASE), ("AsyncPostgresSaver", BASE | {"prune"})],
)
async def test_theirs_passes_what_it_offers(name: str, offered: set[str]) -> None:
    report = await validated(THEIRS[name], name)
    assert failures(report) == []
    assert counted(report) == {each: count for each, count in ALL.items() if each in offered}
