"""The person of the demo: reads the question, looks into the world outside, and decides by the real commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from perdure.cli.demo_screen import Screen
from perdure.runtime.decisions import Pause
from perdure.sync import Perdure


def answer(screen: Screen, folder: Path) -> bool:
    """Decide whatever is asked, and say whether all of it was decided."""
    url = f"sqlite:///{folder}/ticket.db"
    screen.title("Nobody can know from the log whether it happened, so it is not run again: a person is asked")
    screen.command(f"perdure pauses {url}")
    _run(screen, ["pauses", url])
    with Perdure.open(url) as store:
        asked = store.pauses()
    decided = [_decided(screen, folder, url, pause) for pause in asked]
    return all(decided)


def _decided(screen: Screen, folder: Path, url: str, pause: Pause) -> bool:
    """A line with its key says that it happened: then its result is the answer. Else it may run."""
    key = pause.ask.split("key ")[1].split(".")[0]
    screen.command(f"grep -e {key} {folder}/effects.log")
    lines = (
        (folder / "effects.log").read_text(encoding="utf-8").splitlines() if (folder / "effects.log").exists() else []
    )
    found = [line for line in lines if f"key {key}\t" in line]
    if found:
        screen.line(found[0].expandtabs(2))
        way = ["--deny", "--by", "you", "--answer", json.dumps(found[0].split("\t")[1])]
        screen.note("it did happen: do not run it again, this is its result", "bold")
    else:
        way = ["--approve", "--by", "you"]
        screen.note("it did not happen: run it", "bold")
    screen.command(f"perdure decide {url}", pause.id, " ".join(map(quote, way)))
    return _run(screen, ["decide", url, pause.id, *way])


def _run(screen: Screen, arguments: Sequence[str]) -> bool:
    done = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-m", "perdure.cli.main", *arguments], capture_output=True, text=True, check=False
    )
    for line in (done.stdout + done.stderr).splitlines():
        screen.line(line)
    return done.returncode == 0
