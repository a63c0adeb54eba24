"""Two runs on one thread at once: nothing that was said is lost without a word."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import operator
import threading
from contextlib import AsyncExitStack, suppress
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from perdure.testing.langgraph.bench import Bench, Database, Face
from perdure.testing.langgraph.examining import each_of, group
from perdure.testing.langgraph.making import at

MEET = 3.0  # seconds that one run waits for the other, which may be slow
DRIVERS = ("sqlite3", "aiosqlite", "psycopg", "pymysql", "asyncmy", "redis")


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def talk(saver: Any, meeting: threading.Barrier | None = None) -> Any:
    """A graph that answers what was said last; runs meet before they answer."""

    def answer(state: State) -> dict[str, Any]:
        if meeting is not None:
            with suppress(threading.BrokenBarrierError):
                meeting.wait(MEET)
        return {"said": [f"re: {state['said'][-1]}"]}

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


async def _say(saver: Face, thread: str, text: str, meeting: Any = None, **named: Any) -> Any:
    return await saver.invoke(talk(saver.saver, meeting), {"said": [text]}, at(thread), **named)


async def _said(saver: Face, thread: str) -> list[str]:
    return (await saver.state(talk(saver.saver), at(thread))).values["said"]


async def _both_at_once(one: Face, two: Face, thread: str, durability: str) -> dict[str, BaseException | None]:
    meeting = threading.Barrier(2)

    async def run(saver: Face, text: str) -> None:
        try:
            await _say(saver, thread, text, meeting, durability=durability)
        finally:
            meeting.abort()  # who was refused before it got there is not waited for

    runs = (run(saver, text) for saver, text in ((one, "left"), (two, "right")))
    ended = await asyncio.gather(*runs, return_exceptions=True)
    return {
        text: each if isinstance(each, BaseException) else None
        for text, each in zip(("left", "right"), ended, strict=True)
    }


async def _nothing_is_lost(one: Face, two: Face, thread: str, durability: str) -> str:
    await _say(one, thread, "first")
    errors = await _both_at_once(one, two, thread, durability)
    found = await _said(one, thread)
    lost = [text for text, error in errors.items() if error is None and not {text, f"re: {text}"} <= set(found)]
    assert not lost, f"{' and '.join(lost)} lost without an error: {found}"
    refused = {text: error for text, error in errors.items() if error is not None}
    for error in refused.values():
        assert type(error).__module__.split(".")[0] not in DRIVERS, f"an error of the driver: {error!r}"
    assert len(refused) < 2, f"both were refused: {refused}"
    for text in refused:  # who was refused says it again
        await _say(one, thread, text)
    found = await _said(one, thread)
    assert {"first", "left", "right", "re: left", "re: right"} <= set(found), f"{found}"
    return f"refused with {type(next(iter(refused.values()))).__name__}" if refused else "both are there"


async def one_saver(bench: Bench, durability: str) -> str:
    async with bench.saver() as saver:
        return await _nothing_is_lost(saver, saver, bench.thread(), durability)


async def two_savers(bench: Bench, durability: str) -> str:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(bench.saver()) for _ in range(2)]
        return await _nothing_is_lost(one, two, bench.thread(), durability)


async def one_after_the_other_is_never_refused(bench: Bench) -> None:
    """Each saver has to notice what the other did in between."""
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(bench.saver()) for _ in range(2)]
        thread, expected = bench.thread(), list[str]()
        for n, saver in enumerate((one, two, one, one, two)):
            await _say(saver, thread, str(n))
            expected += [str(n), f"re: {n}"]
        found = [await _said(each, thread) for each in (one, two)]
    assert found == [expected, expected], f"{found}"


async def threads_do_not_disturb_each_other(bench: Bench) -> None:
    async with bench.saver() as saver:
        threads = [bench.thread() for _ in range(6)]
        await asyncio.gather(*(_say(saver, thread, thread) for thread in threads))
        found = [await _said(saver, thread) for thread in threads]
    assert found == [[thread, f"re: {thread}"] for thread in threads], f"{found}"


async def puts_at_once_are_all_there(bench: Bench) -> None:
    """Many writers on their own threads, on two savers of one database."""
    database: Database = bench.empty()
    async with AsyncExitStack() as stack:
        savers = [await stack.enter_async_context(bench.saver(database)) for _ in range(2)]
        jobs = (_say(savers[n % 2], f"t{n}", f"{turn}") for turn in range(1) for n in range(12))
        await asyncio.gather(*jobs)
        found = [await _said(savers[0], f"t{n}") for n in range(12)]
    assert found == [["0", "re: 0"]] * 12, f"{found}"


DURABILITIES = ("exit", "sync", "async")
CHECKS = (
    *each_of("two writers", one_saver, {f"one saver, durability {each}": each for each in DURABILITIES}),
    *each_of("two writers", two_savers, {f"two savers, durability {each}": each for each in DURABILITIES}),
    *group(
        "two writers",
        one_after_the_other_is_never_refused,
        threads_do_not_disturb_each_other,
        puts_at_once_are_all_there,
    ),
)
