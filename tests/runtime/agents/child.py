"""A process that has a conversation, and is killed in its third turn: `python -m tests.runtime.agents.child URL`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from perdure import Perdure, ScriptedModel, tool

SCRIPT = [("weather", {"city": "Rome"}), "Fine.", "You are welcome.", ("weather", {"city": "Oslo"}), "Cold."]


def conversation(store: Any, *, dies: bool) -> tuple[Any, ScriptedModel]:
    """The agent, as every process has it."""

    @tool(repeatable=True)
    async def weather(city: str) -> str:
        if dies and city == "Oslo":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"the weather of {city}"

    model = ScriptedModel(SCRIPT)
    return store.agent("talk", model=model, tools=[weather]), model


async def main(url: str) -> None:
    async with Perdure.open(url) as store:
        agent, _ = conversation(store, dies=True)
        for prompt in ("How is Rome?", "Thanks.", "And Oslo?"):
            await agent.run(prompt, thread="t")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
