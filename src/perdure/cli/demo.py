"""`perdure demo`: an agent is killed with SIGKILL twice, the second time where no log can know what happened."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from perdure.cli.demo_agent import Ended, run_agent
from perdure.cli.demo_person import answer
from perdure.cli.demo_screen import Screen
from perdure.core.errors import InvalidInputError
from perdure.storage.permissions import make_folder

FOLDER = Path("perdure-demo")
SCRIPT = "ticket_agent.py"
DIE_AFTER = 8
DIE_IN = "charge"
_LEFT_BEHIND = ("ticket.db*", "effects.log", "ticket_*.py")
_TRIES = 50  # a viewer who kills every process is shown to be right, but not for ever


def demo(
    *,
    fast: bool = False,
    vs: Literal["langgraph"] | None = None,
    svg: Annotated[Path | None, Parameter(show=False)] = None,
) -> int:
    """Kill an agent for real and watch it go on.

    No key, no server, no network. What it made is left in ./perdure-demo.

    Parameters
    ----------
    fast
        Do not wait between the steps.
    vs
        Run the same script on LangGraph's SqliteSaver too, if that is installed.
    svg
        Keep a picture of the first part.
    """
    screen = Screen(record=svg is not None)
    script = fresh(FOLDER)
    if not _kill_and_resume(screen, script, 0.02 if fast else 0.3):
        return 1
    _fork_and_compare(screen, script)
    if svg is not None:
        screen.save(svg)
    _show_code(screen, script)
    if vs is not None:
        from perdure.cli.demo_versus import versus

        versus(screen, FOLDER, DIE_AFTER)
    screen.next_commands(FOLDER)
    return 0


def fresh(folder: Path) -> Path:
    """Remove what an earlier demo left, and nothing else; put the agent's script there and return its path."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is not a folder; move it away or run the demo somewhere else")
    make_folder(str(folder))
    for pattern in _LEFT_BEHIND:
        for path in folder.glob(pattern):
            path.unlink()
    shutil.rmtree(folder / "versus", ignore_errors=True)
    for name in ("ticket_world.py", SCRIPT):
        shutil.copy(Path(__file__).with_name(name), folder / name)
    return folder / SCRIPT


def _kill_and_resume(screen: Screen, script: Path, pace: float) -> bool:
    screen.title("An agent works on a ticket: each result is recorded in SQLite, each side effect is a line of a file")
    screen.note(f"watch it from another terminal: tail -f {script.parent}/effects.log")
    ended: list[Ended] = []
    for plan in _plans():
        ended.append(run_agent(screen, script, ["--pace", str(pace), *plan], announce=True))
        if ended[-1].signal is not None:
            screen.died(ended[-1])
        elif not ended[-1].asked or not answer(screen, script.parent):
            break
    return _checked(screen, script, ended)


def _plans() -> list[list[str]]:
    """What each process is to do to itself; the later ones nothing."""
    return [["--die-after", str(DIE_AFTER)], ["--die-in", DIE_IN], *([[]] * _TRIES)]


def _checked(screen: Screen, script: Path, ended: list[Ended]) -> bool:
    """Count the side effects and say what was found, whatever that is."""
    log = script.parent / "effects.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    keys = [line.split("\t")[0] for line in lines]
    screen.effects(keys, len({line.split("\t")[-1] for line in lines}))
    done = ended[-1].code == 0 and not ended[-1].asked
    if not done:
        screen.note("The agent did not come to its end.", "bold red")
    return done and len(keys) == len(set(keys))


def _fork_and_compare(screen: Screen, script: Path) -> None:
    screen.title("Fork the thread before the decision, decide otherwise, and compare the two")
    run_agent(screen, script, ["what-if"])


def _show_code(screen: Screen, script: Path) -> None:
    screen.title(f"The code that did all this is in {script}; its heart:")
    screen.code(heart(script.read_text(encoding="utf-8")))


def heart(source: str) -> str:
    """The functions of the script that use the store, as they ran."""
    begin, end = source.index("def work("), source.index("def main(")
    return source[begin:end].rstrip() + "\n"
