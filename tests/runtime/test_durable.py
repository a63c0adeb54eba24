"""Plain functions whose calls are steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import sync
from perdure.core.errors import InvalidInputError
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@perdure.durable
async def fetch(page: int) -> str:
    """Fetch a page."""
    RAN.append("fetch")
    return f"page {page}"


@perdure.durable(name="charge", effects=True)
async def charge(amount: int) -> str:
    RAN.append("charge")
    return f"{amount} paid"


@perdure.durable
def add(one: int, two: int) -> int:
    RAN.append("add")
    return one + two


async def test_calls_in_a_run_are_steps_and_tools(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        got = [await fetch(1), await fetch(2), await charge(5)]
        await run.step("die", jobs.job("die", dies=[1]))
        return got

    await dies(block(store, code))
    assert await block(store, code) == ["page 1", "page 2", "5 paid"]
    assert RAN == ["fetch", "fetch", "charge"]
    assert [kind for kind in await kinds(store) if kind.startswith(("step", "tool"))] == [
        *("step.finished", "step.finished", "tool.started", "tool.finished", "step.finished"),
    ]


async def test_elsewhere_they_are_plain_calls() -> None:
    assert (await fetch(1), add(1, 2), RAN) == ("page 1", 3, ["fetch", "add"])
    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch a page.")


async def test_a_durable_call_inside_a_durable_call_is_inside_it(store: Any, jobs: Jobs) -> None:
    @perdure.durable
    async def both() -> Any:
        return [await fetch(1), await jobs.job("both", "x", dies=[1])()]

    await dies(block(store, lambda run: both()))
    assert await block(store, lambda run: both()) == ["page 1", "x"]
    assert RAN == ["fetch"]


def test_plain_functions_are_steps_of_synchronous_runs(tmp_path: Path) -> None:
    with sync.Perdure.open(f"sqlite:///{tmp_path}/store.db") as store:
        with pytest.raises(ZeroDivisionError), store.thread("t").run():
            add(1, 2) / 0
        with store.thread("t").run() as run:
            run.result = add(1, 2)
    assert (run.result, RAN) == (3, ["add"])


async def test_a_plain_function_in_an_asynchronous_run_says_what_to_do(store: Any) -> None:
    async with store.thread("t").run():
        with pytest.raises(InvalidInputError, match=r"run\.step"):
            add(1, 2)
