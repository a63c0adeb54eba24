"""What AgenticFleet promises of a workflow that spans several agents: paused in one process, resumed in another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import sync

ROOT = Path(__file__).parents[2]
STEPS = ["planner", "researcher", "writer", "publisher"]


def release(folder: Path) -> Any:
    """The workflow: each agent gets what the one before it made, and notes in which process it worked."""

    def work(agent: str, given: str) -> str:
        with Path(folder, "worked").open("a") as file:
            file.write(f"{agent} {os.getpid()}\n")
        return f"{given} > {agent}"

    def handler(run: Any) -> str:
        made = str(run.input)
        for agent in STEPS[:3]:
            made = run.step(agent, work, agent, made)
        if not run.pause("publish", ask="Publish?", args={"draft": made}):
            return "withdrawn"
        return run.step("publisher", work, "publisher", made)

    return handler


def act(what: str, url: str, folder: str) -> None:
    """What one of the processes does."""
    with sync.Perdure.open(url) as store:
        store.handler("release")(release(Path(folder)))
        if what == "start":
            store.start("release", "notes", thread="t")
            print(store.resume("t").status)
        elif what == "decide":
            (pause,) = store.pauses()
            store.decide(pause, approved=True, by="ann")
            print(pause.args["draft"])
        else:
            print(store.resume("t").result)


def process(what: str, url: str, folder: Path) -> tuple[int, str]:
    """A process of its own, its id and what it printed."""
    code = f"from tests.seeds.test_hand_offs import act; act({what!r}, {url!r}, {str(folder)!r})"
    begun = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    said, _ = begun.communicate(timeout=60)
    assert begun.returncode == 0
    return begun.pid, said.strip()


@pytest.mark.parametrize("place", ["sqlite:///{}/store.db", "file://{}/store"])
def test_a_workflow_of_several_agents_is_paused_and_another_process_resumes_it(place: str, tmp_path: Path) -> None:
    """S0.1, S0.2: what the agents before the pause did is not done again."""
    url = place.format(tmp_path)
    first, status = process("start", url, tmp_path)
    _, draft = process("decide", url, tmp_path)
    last, result = process("resume", url, tmp_path)
    drafted = "notes > planner > researcher > writer"
    assert (status, draft, result) == ("input_required", drafted, f"{drafted} > publisher")
    worked = (tmp_path / "worked").read_text().splitlines()
    assert worked == [*(f"{agent} {first}" for agent in STEPS[:3]), f"publisher {last}"]
