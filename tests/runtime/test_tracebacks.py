"""A failure keeps its traceback: bounded, without values and local paths, and only where it is wanted."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, sync
from perdure.core.calls import decode_failure, told
from perdure.core.tracebacks import TRACEBACK_BYTES, cut, traceback_of
from perdure.errors import InvalidInputError

SECRET = "sk-a-value-of-a-local-variable"


def look_up(customer: str) -> str:
    token = SECRET
    try:
        return {"ann": token}[customer]
    except KeyError as exc:
        raise ValueError(f"no {customer} in {Path(__file__).parent / 'customers.csv'}") from exc


async def looked_up(customer: str) -> str:
    return look_up(customer)


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


async def failed(store: Any, code: Any, **options: Any) -> str:
    """The traceback of a run that fails."""
    with pytest.raises(Exception):  # noqa: B017, PT011
        async with store.thread("t").run(**options) as run:
            await code(run)
    return (await store.why("t")).traceback


async def test_a_failed_step_and_its_run_keep_where_it_came_from() -> None:
    """B8: module, file, line and function of each frame, the cause first; no value, no folder."""
    async with Perdure.open("memory://") as store:
        trace = await failed(store, lambda run: run.step("look up", looked_up, "bob"))
        (info,) = await store.runs()
        (entry,) = [each for each in await store.thread("t").entries() if each.kind == "step.failed"]
    here = __name__
    assert f'File "{Path(__file__).name}", line {line_of(look_up, "return {")}, in {here}.look_up' in trace
    assert f'File "{Path(__file__).name}", line {line_of(looked_up, "return look")}, in {here}.looked_up' in trace
    assert trace.index("KeyError: 'bob'") < trace.index("direct cause") < trace.index("ValueError: no bob in ")
    assert info.traceback == trace
    assert told("t", entry, decode_failure).traceback.endswith("customers.csv")
    assert SECRET not in trace
    assert str(Path(__file__).parent) not in trace
    assert str(Path.home()) not in trace
    assert "perdure.runtime" not in trace


async def test_members_of_a_task_group_are_told_of_each() -> None:
    async def both(run: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.step("one", looked_up, "bob"))
            group.create_task(run.step("two", looked_up, "eve"))

    async with Perdure.open("memory://") as store:
        trace = await failed(store, both)
    assert trace.count(".look_up") == 4  # twice, each with its cause
    assert "ValueError: no bob in " in trace
    assert "+ 2 of 2" in trace


def test_synchronous_runs_keep_it_too() -> None:
    with sync.Perdure.open("memory://") as store:
        with pytest.raises(ValueError, match="no bob"), store.thread("t").run() as run:
            run.tool("look up", look_up, customer="bob")
        why = store.why("t")
        (info,) = store.runs()
    assert ".look_up" in why.traceback
    assert f"    {why.traceback.splitlines()[0]}" in str(why)
    assert info.traceback == why.traceback


async def test_it_can_be_switched_off_for_a_store_a_worker_a_run_and_a_call() -> None:
    async def step(run: Any) -> None:
        await run.step("look up", looked_up, "bob")

    async with Perdure.open("memory://", traceback=False) as store:
        assert await failed(store, step) == ""
        assert ".looked_up" in await failed(store, step, traceback=True)
    async with Perdure.open("memory://") as store:
        assert await failed(store, step, traceback=False) == ""
        code = lambda run: run.options(traceback=False).step("look up", looked_up, "bob")  # noqa: E731
        await failed(store, code)
        (entry,) = [each for each in await store.thread("t").entries() if each.kind == "step.failed"][-1:]
        assert told("t", entry, decode_failure).traceback == ""
        store.handler("look up", retry=1)(step)
        ticket = await store.start("look up", thread="w")
        async with store.worker(traceback=False):
            while (info := await ticket.info()).status != "dead":
                await asyncio.sleep(0.01)
        assert (info.error[:10], info.traceback) == ("ValueError", "")
        with pytest.raises(InvalidInputError, match="traceback must be True or False, not 'no'"):
            store.worker(traceback="no")
    with pytest.raises(InvalidInputError, match="traceback must be True or False"):
        Perdure.open("memory://", traceback=0)  # type: ignore[arg-type]


def test_a_recursion_a_long_chain_and_a_large_group_are_bounded() -> None:
    def deeper(n: int) -> None:
        deeper(n + 1)

    def chain(n: int) -> None:
        try:
            if n:
                chain(n - 1)
        finally:
            raise ValueError("x" * 5000)

    def group(n: int) -> Exception:
        return ExceptionGroup(f"level {n}", [group(n - 1) for _ in range(3)] if n else [KeyError(n)])

    for code in (lambda: deeper(0), lambda: chain(50), lambda: (_ for _ in ()).throw(group(8))):
        try:
            next(iter(code() or ()))  # type: ignore[call-overload]
        except Exception as exc:
            trace = traceback_of(exc)
            assert 0 < len(trace.encode()) <= TRACEBACK_BYTES
            assert "left out" in trace
            assert trace.splitlines()[-1].startswith(("RecursionError", "ValueError", "  ")), trace[-200:]


class Hostile(Exception):
    """Looks like a failure of the terminal, and does not want to be looked at."""

    __notes__ = ["note \x1b[2J"]  # noqa: RUF012

    def __str__(self) -> str:
        raise RuntimeError("no")


async def test_what_a_hostile_error_says_is_data() -> None:
    async def code(run: Any) -> None:
        raise Hostile

    async def loud(run: Any) -> None:
        raise ValueError("\x1b[31mred\x00 \ud800")

    async with Perdure.open("memory://") as store:
        assert "(its text cannot be shown)" in await failed(store, code)
        trace = await failed(store, loud)
        shown = str(await store.why("t"))
    assert "\x1b[31mred" in trace  # stored as it came, but for what no storage takes
    assert "\x00" not in trace
    assert "\x1b" not in shown
    assert r"\x1b[31mred" in shown


def test_what_is_too_long_keeps_its_end() -> None:
    text = "\n".join(f"line {n}" for n in range(1000))
    short = cut(text, 500)
    assert len(short.encode()) <= 500
    assert short.startswith("line 0\n")
    assert short.endswith("\nline 999")
    assert "lines are left out" in short
