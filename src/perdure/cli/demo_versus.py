"""`perdure demo --vs langgraph`: the same agent on LangGraph's SqliteSaver, killed at the same step, measured now."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from perdure.cli.demo_agent import run_agent
from perdure.cli.demo_screen import Screen
from perdure.cli.ticket_world import message
from perdure.storage.permissions import make_folder
from perdure.sync import Perdure

TURNS = 300
INSTALL = "pip install langgraph langgraph-checkpoint-sqlite"
_PEERS = Path(".venv-peers/bin/python")  # what `make bench` and `make demo VS=langgraph` make
_NEEDED = "import langgraph.graph, langgraph.checkpoint.sqlite"
_PACE = "0.02"


class Figures(NamedTuple):
    """What was measured of one side."""

    name: str
    again: int  # steps that were run a second time after the kill
    finished: bool
    size: int  # bytes on disk after all turns


def versus(screen: Screen, folder: Path, die_after: int) -> None:
    """Run LangGraph beside ours and show both, or say how to install it."""
    screen.title(f"The same agent on LangGraph's SqliteSaver, killed after the same step; then {TURNS} turns on both")
    python = peer_python()
    if python is None:
        screen.note(f"LangGraph is not installed: {INSTALL}   (in a clone: make demo VS=langgraph)", "yellow")
        return
    try:
        sides = [ours(folder, die_after), *theirs(folder, die_after, python)]
    except subprocess.CalledProcessError:
        screen.note("LangGraph's side failed, as printed above; nothing is compared.", "bold red")
        return
    screen.table(
        ["measured now", "steps run again", f"bytes at {TURNS} turns"],
        [[side.name, str(side.again) if side.finished else "did not finish", f"{side.size:,}"] for side in sides],
    )
    screen.note(
        f"killed as soon as step {die_after} was taken in; a step is run again when its result had not reached the disk"
    )
    screen.note(f"{TURNS} turns: one message of 1.5 KB each, every turn kept as a point to go back to")


def peer_python() -> str | None:
    """An interpreter that has LangGraph with its SQLite saver."""
    if importlib.util.find_spec("langgraph"):
        return sys.executable if _has_saver(sys.executable) else None
    return str(_PEERS) if _PEERS.exists() and _has_saver(str(_PEERS)) else None


def _has_saver(python: str) -> bool:
    return subprocess.run([python, "-c", _NEEDED], capture_output=True, check=False).returncode == 0  # noqa: S603  # a fixed line


def ours(folder: Path, die_after: int) -> Figures:
    """Perdure's side, in files of its own so that what the demo leaves behind stays as it was shown."""
    place = folder / "versus"
    _fill(place, "ticket_agent.py")
    again, finished = _killed_and_resumed(place / "ticket_agent.py", [], die_after, sys.executable)
    database = place / "turns_perdure.db"
    with Perdure.open(f"sqlite:///{database}") as store:
        thread = store.thread("conversation")
        for number in range(TURNS):
            thread.append("messages", message(number))
    return Figures("Perdure", again, finished, _size(database))


def theirs(folder: Path, die_after: int, python: str) -> list[Figures]:
    """LangGraph's side, in both ways its graphs can be told to save."""
    place = folder / "versus"
    _fill(place, "ticket_langgraph.py")
    size = _their_turns(place, python)
    figures: list[Figures] = []
    for durability, name in (("async", "LangGraph, as it comes"), ("sync", "LangGraph, durability='sync'")):
        files = ["--database", f"ticket_{durability}.db", "--effects", f"effects_{durability}.log"]
        arguments = ["--durability", durability, *files]
        again, finished = _killed_and_resumed(place / "ticket_langgraph.py", arguments, die_after, python)
        figures.append(Figures(name, again, finished, size))
    return figures


def _their_turns(place: Path, python: str) -> int:
    script, database = place / "ticket_langgraph.py", place / "turns_langgraph.db"
    subprocess.run([python, str(script), "turns", str(TURNS), "--database", database.name], check=True)  # noqa: S603  # our own script
    return _size(database)


def _killed_and_resumed(script: Path, arguments: list[str], die_after: int, python: str) -> tuple[int, bool]:
    """Let it be killed, start it again, and count what was run a second time."""
    given = ["--pace", _PACE, *arguments]
    first = run_agent(None, script, [*given, "--die-after", str(die_after)], python=python)
    second = run_agent(None, script, given, python=python)
    return len(set(first.steps) & set(second.steps)), second.code == 0


def _fill(place: Path, script: str) -> None:
    make_folder(str(place))
    for name in ("ticket_world.py", script):
        shutil.copy(Path(__file__).with_name(name), place / name)


def _size(database: Path) -> int:
    """The database with the log that belongs to it."""
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
