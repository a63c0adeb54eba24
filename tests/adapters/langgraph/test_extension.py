"""Our extension of LangGraph's conformance suite: ours passes all of it, theirs what is known of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.testing.langgraph import CHECKS, Bench, Check, examine, outcome_of
from tests.adapters.langgraph.known import BY_CHANCE, FAILS, NOT_OFFERED
from tests.adapters.langgraph.savers import CHECKED, EXAMINED, OURS, THEIRS


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(OURS[request.param].make)
    yield made
    made.clear()


# Nothing is kept by a memory that another process could open, or that could be searched.
IN_MEMORY_ONLY = ("kill -9", "threads and loops", "sizes", "a serializer of the user's")


@pytest.mark.parametrize("bench", CHECKED, indirect=True, scope="module")
@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_ours_passes(bench: Bench, check: Check, request: pytest.FixtureRequest) -> None:
    found = await outcome_of(check, bench)
    if found.verdict == "not offered" and "perdure-memory" in request.node.name and check.group in IN_MEMORY_ONLY:
        return
    assert (found.verdict, found.note if found.verdict != "passed" else "") == ("passed", "")


@pytest.mark.parametrize("name", EXAMINED)
async def test_theirs_passes_what_is_known_of_it(name: str) -> None:
    report = await examine(THEIRS[name].make)
    failed = {f"{each.group}: {each.name}" for each in report.failed}
    missing = {f"{each.group}: {each.name}" for each in report.not_offered}
    assert failed - BY_CHANCE == FAILS[name] - BY_CHANCE
    assert missing == NOT_OFFERED[name]
