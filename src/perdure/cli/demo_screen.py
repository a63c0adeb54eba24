"""What the demo looks like: colours on a terminal, plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from perdure.cli.output import Terminal

if TYPE_CHECKING:
    from perdure.cli.demo_agent import Ended

_WIDTH = 118
_STYLES = {"kill": "bold red", "asked": "bold yellow", "since": "bold", "error:": "red"}
_HIGHLIGHTS = (
    (r"^ +(\d+/\d+|1-\d+)", "green"),
    (r"(are in the log: not run again|the run is .*)$", "green"),
    (r"version \d+$", "dim"),
)
_SIGNALS = {2: "SIGINT", 9: "SIGKILL", 15: "SIGTERM"}
# Rich's own template fetches fonts from the network; a picture in a README should need nothing.
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""  # noqa: E501


class Screen:
    """Prints the demo."""

    def __init__(self, *, record: bool = False) -> None:
        size: dict[str, Any] = {"width": _WIDTH, "force_terminal": True, "color_system": "truecolor"} if record else {}
        self._terminal = Terminal(record=record, **size)

    def title(self, text: str) -> None:
        """A new part begins."""
        self._terminal.write("")
        self._terminal.write(text, "bold")

    def note(self, text: str, style: str = "dim") -> None:
        """A line in our own voice."""
        self._terminal.write(text, style)

    def started(self, pid: int, arguments: Sequence[str]) -> None:
        """A process of the agent began."""
        self.note(f"process {pid} works; kill it at any moment: kill -9 {pid}{_plan(arguments)}", "cyan")

    def line(self, line: str) -> None:
        """A line the agent printed."""
        word = line.split()[0] if line.split() else ""
        self._terminal.write(line, _STYLES.get(word, ""), _HIGHLIGHTS)

    def died(self, ended: Ended) -> None:
        """A process of the agent was killed."""
        who = "it killed itself" if ended.itself else "somebody killed it"
        name = _SIGNALS.get(ended.signal or 0, f"signal {ended.signal}")
        steps = f"{len(ended.steps)} step{'' if len(ended.steps) == 1 else 's'}"
        self.note(f"process {ended.pid} is dead: {name}, {who} after {steps}. Start another.", "bold red")

    def effects(self, keys: list[str], processes: int) -> None:
        """What the file of side effects shows."""
        twice = sorted({key for key in keys if keys.count(key) > 1})
        self._terminal.write("")
        if twice:
            self.note(f"effects.log: {len(keys)} lines, and these happened twice: {', '.join(twice)}", "bold red")
        else:
            self.note(
                f"effects.log: {len(keys)} side effects by {processes} processes, each of them once.", "bold green"
            )

    def command(self, *lines: str) -> None:
        """A command as a person types it; a long one takes several lines."""
        self.note("$ " + " \\\n    ".join(lines), "cyan")

    def code(self, source: str) -> None:
        """A piece of Python."""
        self._terminal.write_python(source)

    def table(self, columns: list[str], rows: list[list[str]]) -> None:
        """Figures side by side."""
        self._terminal.write_table(columns, rows)

    def next_commands(self, folder: Path) -> None:
        """What to try with what is left behind."""
        self.title(f"Left behind in {folder}/; try")
        for command in commands(folder):
            self.note(f"  {command}", "cyan")

    def save(self, path: Path) -> None:
        """Keep what was printed so far as a picture."""
        self._terminal.save_svg(path, "perdure demo", _SVG)


def commands(folder: Path) -> list[str]:
    """Commands that work after the demo, from the same place."""
    python, store = _named(Path(sys.executable).name), f"sqlite:///{folder}/ticket.db"
    installed = Path(sys.executable).with_name("perdure").exists()
    perdure = _named("perdure") if installed else f"{python} -m perdure.cli.main"
    told = [
        (f"cat {folder}/effects.log", "what happened outside"),
        (f"{perdure} why {store} ticket-4711", "what happened to the run"),
        (f"{perdure} timeline {store} ticket-4711", "who did what, and when"),
        (f"{python} {folder}/ticket_agent.py", "nothing is left to do"),
        (f'{python} {folder}/ticket_agent.py what-if "repair it"', "another fork"),
        (f"rm {folder}/ticket.db* {folder}/effects.log", "then run it from the start, and kill it yourself"),
    ]
    width = max(len(command) for command, _ in told)
    return [f"{command:<{width}}  # {why}" for command, why in told]


def _named(program: str) -> str:
    """The shortest way to name a program of the environment that has Perdure."""
    here = Path(sys.executable).with_name(program)
    if Path(shutil.which(program) or "") == here:
        return program
    return quote(str(here.relative_to(Path.cwd())) if here.is_relative_to(Path.cwd()) else str(here))


def _plan(arguments: Sequence[str]) -> str:
    """What a process is going to do to itself."""
    if "--die-after" in arguments:
        return f" (it kills itself after step {arguments[-1]})"
    return f" (it dies between the effect of {arguments[-1]} and its record)" if "--die-in" in arguments else ""
