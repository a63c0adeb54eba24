"""Conversations and real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from perdure import Perdure
from tests.runtime.agents.child import LAST_ANSWER, SCRIPT, conversation

ROOT = Path(__file__).parents[3]


def killed(url: str, place: str) -> str:
    """What a conversation that is killed at a place printed before."""
    command = [sys.executable, "-m", "tests.runtime.agents.child", url, place]
    done = subprocess.run(command, cwd=ROOT, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


async def test_a_conversation_of_several_turns_is_recovered_by_another_process(tmp_path: Path) -> None:
    """S4.1, S4.18: only what is missing is asked for."""
    url = f"sqlite:///{tmp_path}/store.db"
    assert killed(url, "tool") == ""
    async with Perdure.open(url) as store:
        agent, model = conversation(store)
        assert [each.result for each in await store.recover()] == ["Cold."]
        said = [each["content"] for each in await store.thread("t").messages(role=("user", "assistant"))]
        assert [each for each in said if each] == [
            "How is Rome?", "Fine.", "Thanks.", "You are welcome.", "And Oslo?", "Cold.",
        ]  # fmt: skip
        assert (model.calls, len(model.requests[0]), len(SCRIPT)) == (1, 9, 5)
        assert agent.name == "talk"


async def test_an_answer_that_was_not_recorded_before_a_kill_is_asked_for_again(tmp_path: Path) -> None:
    """What the README promises, and no more: recorded answers are not asked for again, the lost one is."""
    url = f"sqlite:///{tmp_path}/store.db"
    assert killed(url, "model") == "Cold."
    async with Perdure.open(url) as store:
        _, model = conversation(store)
        assert [each.result for each in await store.recover()] == ["Cold."]
        assert (model.calls, len(model.requests[0])) == (1, LAST_ANSWER)
