"""An agent's run done again from a point, with other settings, and compared."""

from __future__ import annotations

from pathlib import Path

import perdure
from perdure import Perdure, ScriptedModel


async def test_a_run_is_done_again_with_other_instructions_and_compared(tmp_path: Path) -> None:
    """S0.4: the tool does not run again, the model is asked with the new settings, the outputs are compared."""
    fetched: list[str] = []

    @perdure.tool
    def fetch(topic: str) -> str:
        fetched.append(topic)
        return f"facts about {topic}"

    async with Perdure.open(f"sqlite:///{tmp_path}/s.db") as store:
        looks = ("fetch", {"topic": "rivers"})
        long = store.agent("long", model=ScriptedModel([looks, "a long text"]), tools=[fetch], instructions="Be long.")
        short = ScriptedModel([looks, "short"])
        store.agent("short", model=short, tools=[fetch], instructions="Be short.")
        await long.run("Write about rivers", thread="t")
        (again,) = await store.thread("t").rerun("@1", agent="short", to="again")
        assert (again.status, again.result, fetched, short.calls) == ("finished", "short", ["rivers"], 2)
        assert "Be short." in str((await store.thread("again").seen()).messages[0])
        assert str(await store.compare("t", "again")) == "messages[3].content: 'a long text' -> 'short'"
        assert (await store.thread("t").load())["messages"][-1]["content"] == "a long text"
