"""A process that has a conversation, killed in its third turn: `python -m tests.runtime.agents.child URL WHERE`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from perdure import Perdure, Reply, ScriptedModel, tool

SCRIPT = [("weather", {"city": "Rome"}), "Fine.", "You are welcome.", ("weather", {"city": "Oslo"}), "Cold."]
LAST_ANSWER = 9  # how many messages the model sees for it


class Dying(ScriptedModel):
    """Has its last answer, and is killed before anybody can record it."""

    async def reply(self, messages: Any, **given: Any) -> Reply:
        answer = await super().reply(messages, **given)
        if len(messages) == LAST_ANSWER:
            print(answer.text, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


def conversation(store: Any, *, dies: str = "") -> tuple[Any, ScriptedModel]:
    """The agent, as every process has it; it `dies` in its tool, or with an answer of its model."""

    @tool(repeatable=True)
    async def weather(city: str) -> str:
        if dies == "tool" and city == "Oslo":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"the weather of {city}"

    model = (Dying if dies == "model" else ScriptedModel)(SCRIPT)
    return store.agent("talk", model=model, tools=[weather]), model


async def main(url: str, dies: str) -> None:
    async with Perdure.open(url) as store:
        agent, _ = conversation(store, dies=dies)
        for prompt in ("How is Rome?", "Thanks.", "And Oslo?"):
            await agent.run(prompt, thread="t")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
