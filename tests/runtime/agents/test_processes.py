"""Conversations and real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from perdure import Perdure
from tests.runtime.agents.child import SCRIPT, conversation

ROOT = Path(__file__).parents[3]


async def test_a_conversation_of_several_turns_is_recovered_by_another_process(tmp_path: Path) -> None:
    """S4.1, S4.18: only what is missing is asked for."""
    url = f"sqlite:///{tmp_path}/store.db"
    command = [sys.executable, "-m", "tests.runtime.agents.child", url]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == -signal.SIGKILL
    async with Perdure.open(url) as store:
        agent, model = conversation(store, dies=False)
        assert [each.result for each in await store.recover()] == ["Cold."]
        said = [each["content"] for each in await store.thread("t").messages(role=("user", "assistant"))]
        assert [each for each in said if each] == [
            "How is Rome?", "Fine.", "Thanks.", "You are welcome.", "And Oslo?", "Cold.",
        ]  # fmt: skip
        assert (model.calls, len(model.requests[0]), len(SCRIPT)) == (1, 9, 5)
        assert agent.name == "talk"
