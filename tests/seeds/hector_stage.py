"""The stage on which Hector's page is played: its YAML, what it says of each word, and an agent that is really killed.

    python -m tests.seeds.hector_stage CONFIG FOLDER

takes up what is due. The agent writes into the folder what it does; a file `kill` there names the moment at which its
process kills itself, once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from perdure import Perdure

PAGE = Path(__file__).with_name("hector_page.md")
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WORDS = re.compile(r"\*\*`(\w+)(?:: true)?`\*\*")


def blocks() -> list[str]:
    """The YAML blocks of the page."""
    return _BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def words() -> list[str]:
    """The settings and values that the page explains."""
    return _WORDS.findall(PAGE.read_text(encoding="utf-8"))


def config_in(folder: Path, checkpoint: str, sessions: str = "") -> Path:
    """A config.yaml with a block of the page, or other settings, and a database of its own."""
    path = folder / "config.yaml"
    where = sessions or f"sqlite:///{folder}/agents.db"
    path.write_text(f"{checkpoint.rstrip()}\n  sessions: {where}\n", encoding="utf-8")
    return path


class Agent:
    """Plans with a model, scrapes, and sums up with the model; what it does is noted outside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def register(self, store: Any) -> None:
        store.handler("research")(self.research)

    async def research(self, run: Any) -> str:
        await run.append("messages", {"role": "user", "content": run.input})
        plan = await run.model(self.model, ["plan", run.input])
        page = await run.tool("scrape", self.scrape, plan)
        await run.append("messages", {"role": "tool", "content": page})
        return await run.model(self.model, ["sum up", page], temperature=0.1)

    async def model(self, messages: list[str], **settings: Any) -> str:
        self._does(f"model {messages[0]}")
        return f"answer to {messages[0]}"

    async def scrape(self, plan: str) -> str:
        self._does("scrape")
        return f"page by {plan}"

    def did(self) -> list[str]:
        path = self._folder / "did"
        return path.read_text().splitlines() if path.exists() else []

    def dies_at(self, what: str) -> None:
        (self._folder / "kill").write_text(what)

    def _does(self, what: str) -> None:
        with (self._folder / "did").open("a") as file:
            file.write(f"{what}\n")
        kill = self._folder / "kill"
        if kill.exists() and kill.read_text() == what:
            kill.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


async def recover(config: str, folder: str) -> None:
    """Take up what is due, as a program does when it starts."""
    async with Perdure.from_config(config) as store:
        Agent(Path(folder)).register(store)
        await store.recover()


def process(config: Path, folder: Path) -> int:
    """The same in a process of its own: its exit code."""
    command = [sys.executable, "-m", "tests.seeds.hector_stage", str(config), str(folder)]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode


if __name__ == "__main__":
    asyncio.run(recover(*sys.argv[1:]))
