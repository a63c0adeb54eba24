"""AgenticFleet's iteration: a run is replayed from a checkpoint with other settings, and the outcomes are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import perdure
from perdure import Perdure, Reply, ToolCall, Triggers
from tests.seeds.approval_stage import did, does


class Writer:
    """Looks things up, then answers by its instructions and settings; what it was asked is noted outside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def reply(self, messages: Any, *, tools: Any, settings: Any) -> Reply:
        does(self._folder, "asked", messages[0]["content"])
        if messages[-1]["role"] == "user":
            return Reply(tool_calls=[ToolCall("look_up", {"word": "lamp"}, "c1")])
        return Reply(text=f"{messages[0]['content']} at {settings['temperature']}")


async def test_a_run_is_replayed_from_a_checkpoint_with_other_settings_and_compared(url: str, tmp_path: Path) -> None:
    """S0.4: from the checkpoint after the first turn; the tool is not run again, and the first outcome stays."""

    @perdure.tool
    async def look_up(word: str) -> str:
        does(tmp_path, "looked up", word)
        return f"all about {word}"

    async with Perdure.open(url, checkpoints=Triggers(strategy="event")) as store:
        for name, words, temperature in (("brief", "Be brief.", 0.0), ("rich", "Be rich.", 0.9)):
            settings = {"temperature": temperature}
            store.agent(name, model=Writer(tmp_path), tools=[look_up], instructions=words, settings=settings)
        await store.start("brief", "A lamp, please.", thread="t")
        assert [info.result for info in await store.recover()] == ["Be brief. at 0.0"]
        (point,) = [each for each in await store.thread("t").history() if each.note == "after turn 1"]
        (info,) = await store.thread("t").rerun(point, agent="rich", to="richer")
        assert (info.agent, info.status, info.result) == ("rich", "finished", "Be rich. at 0.9")
        found = str(await store.compare("t", "richer"))
        assert "Be brief. at 0.0" in found
        assert "Be rich. at 0.9" in found
        assert (await store.thread("t").load())["messages"][-1]["content"] == "Be brief. at 0.0"
        assert (await store.thread("richer").seen()).settings["temperature"] == 0.9
    assert did(tmp_path) == [
        ["asked", "Be brief."], ["looked up", "lamp"], ["asked", "Be brief."], ["asked", "Be rich."],
    ]  # fmt: skip
