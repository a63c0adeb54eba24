"""The same question asked in both ways, by a handler and by an agent's tool, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import perdure
from perdure import EntryKind, ScriptedModel
from tests.seeds.approval_stage import does

ARGS = {"service": "api", "tag": "1.4"}
WHO = ["ann", "bob"]  # may decide


def by_a_handler(store: Any, folder: Path) -> None:
    """`run.pause`, and what was approved is done."""

    def deploy(service: str, tag: str) -> str:
        does(folder, service, tag)
        return "done"

    @store.handler("deployer")
    async def deployer(run: Any) -> str:
        await run.append("messages", {"role": "user", "content": run.input})
        decision = await run.pause("deploy_production", ask="Deploy?", args=ARGS, who=WHO)
        said = "nobody approved it in time" if decision.expired else f"denied by {decision.by}: {decision.answer}"
        told = await run.tool("deploy", deploy, **decision.args) if decision else said
        await run.append("messages", {"role": "tool", "content": told})
        return "Over."


def by_a_tool(store: Any, folder: Path) -> None:
    """`@perdure.tool(require_approval=True)` of an agent."""

    @perdure.tool(require_approval=True, approval_prompt="Deploy?", who=WHO)
    async def deploy_production(service: str, tag: str) -> str:
        does(folder, service, tag)
        return "done"

    store.agent("deployer", model=ScriptedModel([("deploy_production", ARGS), "Over."]), tools=[deploy_production])


ASKING: dict[str, Callable[[Any, Path], None]] = {"handler": by_a_handler, "tool": by_a_tool}


async def asked(store: Any) -> Any:
    """Run until somebody is asked, and give the question."""
    await store.start("deployer", "Deploy it.", thread="t")
    (info,) = await store.recover()
    assert info.status == "input_required"
    (pause,) = await store.pauses()
    assert (pause.name, pause.ask, pause.args, pause.who) == ("deploy_production", "Deploy?", ARGS, tuple(WHO))
    return pause


async def told(store: Any) -> str:
    """What the agent was told about its tool, when the run is over."""
    (info,) = await store.recover()
    assert (info.status, info.result) == ("finished", "Over.")
    (said,) = [each["content"] for each in await store.thread("t").messages(role="tool")]
    return said


async def decisions(store: Any) -> list[tuple[str | None, datetime]]:
    """Who decided, and when, as the log tells it."""
    entries = await store.thread("t").entries()
    return [(each.actor, each.at) for each in entries if each.kind is EntryKind.PAUSE_DECIDED]
