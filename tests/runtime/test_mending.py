"""A conversation that a crash left open is closed before a run goes on with it."""

from __future__ import annotations

from typing import Any

from perdure.core.history import INTERRUPTED
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


def asks(call_id: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "search", "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def says(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


async def test_the_newest_call_is_left_to_the_run_that_made_it(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        await run.append("messages", asks("c1"))
        found = await run.step("search", jobs.job("search", "found", dies=[1]))
        await run.append("messages", says("c1", found))

    await dies(block(store, code))
    await block(store, code)
    assert (await store.thread("t").load())["messages"] == [asks("c1"), says("c1", "found")]
    assert "history.repaired" not in await kinds(store)


async def test_calls_of_earlier_turns_are_closed_when_a_run_is_resumed(store: Any, jobs: Jobs) -> None:
    await store.thread("t").save({"messages": [asks("old"), {"role": "user", "content": "and now?"}]})

    async def code(run: Any) -> Any:
        await run.step("die", jobs.job("die", dies=[1]))
        return (await run.load())["messages"]

    await dies(block(store, code))
    messages = await block(store, code)
    assert [(each["role"], each.get("tool_call_id")) for each in messages] == [
        ("assistant", None), ("tool", "old"), ("user", None),
    ]  # fmt: skip
    assert INTERRUPTED in messages[1]["content"]
    assert (await kinds(store)).count("history.repaired") == 1


async def test_a_run_that_is_left_behind_has_its_calls_closed(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        await run.append("messages", asks(f"c{run.input}"))
        await run.step("search", jobs.job("search", "found", dies=[1]))
        await run.append("messages", says(f"c{run.input}", "found"))

    await dies(block(store, code, input=1))
    await block(store, code, input=2)
    messages = (await store.thread("t").load())["messages"]
    assert [each.get("tool_call_id") for each in messages] == [None, "c1", None, "c2"]
