"""The agent of the demo as a process of its own, watched line by line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from perdure.cli.demo_screen import Screen


class Ended(NamedTuple):
    """How a process of the agent ended."""

    pid: int
    code: int
    signal: int | None  # the signal that killed it
    itself: bool  # it was not the viewer
    steps: list[int]  # the steps this process did
    asked: bool  # it waits for a person


def run_agent(
    screen: Screen | None,
    script: Path,
    arguments: Sequence[str],
    *,
    announce: bool = False,
    python: str = sys.executable,
) -> Ended:
    """Run the script to its end, natural or not, and show what it says."""
    with _start([python, str(script), *arguments]) as child:
        try:
            if screen is not None and announce:
                screen.started(child.pid, arguments)
            said = [_shown(screen, line.rstrip("\n")) for line in child.stdout or ()]
        except BaseException:
            child.kill()  # nobody is left to watch it
            raise
    return _ended(child.pid, child.returncode, said)


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    # In a session of its own: Ctrl-C is for the demo, which ends the agent without a second traceback.
    return subprocess.Popen(  # noqa: S603  # our own script
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    )


def _shown(screen: Screen | None, line: str) -> str:
    if screen is not None:
        screen.line(line)
    return line


def _ended(pid: int, code: int, said: list[str]) -> Ended:
    words = [line.split() for line in said]
    return Ended(
        pid=pid,
        code=code,
        signal=-code if code < 0 else None,
        itself=any(each[:2] == ["kill", "-9"] for each in words),
        steps=[int(each[0].split("/")[0]) for each in words if each and "/" in each[0] and each[0][0].isdigit()],
        asked=any(each[:1] == ["asked"] for each in words),
    )
