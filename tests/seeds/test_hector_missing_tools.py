"""A tool that a person approved, and that the program that goes on does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Perdure, ScriptedModel, tool
from perdure.errors import ToolMissingError

RAN: list[str] = []
SCRIPT = [[("deploy", {"env": "prod"}), ("drop", {"table": "old"})], "Done."]


@tool(require_approval=True)
async def deploy(env: str) -> str:
    RAN.append(f"deploy {env}")
    return "deployed"


@tool(require_approval=True)
async def drop(table: str) -> str:
    RAN.append(f"drop {table}")
    return "dropped"


@pytest.fixture(autouse=True)
def clean() -> None:
    RAN.clear()


async def with_tools(url: str, tools: Sequence[Any], **options: Any) -> tuple[Any, ScriptedModel]:
    """How far the run comes in a program with these tools, and its model."""
    model = ScriptedModel(SCRIPT)
    async with Perdure.open(url) as store:
        store.agent("ops", model=model, tools=list(tools))
        return await store.resume("t", **options), model


async def asked(url: str, *approved: bool) -> None:
    """A program asks about both tools; somebody decides about the first ones, and later about the rest."""
    async with Perdure.open(url) as store:
        waits = await store.agent("ops", model=ScriptedModel(SCRIPT), tools=[deploy, drop]).run("go", thread="t")
        pauses = sorted(waits.pauses, key=lambda pause: pause.name)
        for pause, yes in zip(pauses, approved, strict=False):
            await store.decide(pause, approved=yes, by="ann")


async def results(url: str) -> list[str]:
    async with Perdure.open(url) as store:
        state = await store.thread("t").load()
    return [each["content"] for each in state["messages"] if each["role"] == "tool"]


async def test_a_missing_tool_that_was_approved_stops_the_run_until_it_is_there(url: str) -> None:
    """S4.24: before the model is asked."""
    await asked(url, True, True)
    told = r"agent 'ops' has no tool 'drop' here, and in thread 't' it was approved by ann.*tools=\[…, drop\]"
    with pytest.raises(ToolMissingError, match=told):
        await with_tools(url, [deploy])
    assert RAN == ["deploy prod"]
    done, model = await with_tools(url, [drop])  # what the other one gave is in the log
    assert (done.result, model.calls, RAN) == ("Done.", 1, ["deploy prod", "drop old"])
    assert await results(url) == ["deployed", "dropped"]


async def test_a_missing_tool_that_nobody_decided_about_is_waited_for(url: str) -> None:
    await asked(url, True)
    assert (await with_tools(url, [deploy]))[0].status == "input_required"
    async with Perdure.open(url) as store:
        await store.decide((await store.pauses())[0], approved=False, by="bob")
    assert ((await with_tools(url, [deploy]))[0].result, RAN) == ("Done.", ["deploy prod"])
    assert await results(url) == ["deployed", "denied: drop was not run: denied by bob"]


async def test_somebody_may_go_on_without_the_tool(url: str) -> None:
    await asked(url, True, True)
    assert ((await with_tools(url, [deploy], changed="accept"))[0].result, RAN) == ("Done.", ["deploy prod"])
    assert await results(url) == ["deployed", "error: there is no tool 'drop'; there are: deploy"]
