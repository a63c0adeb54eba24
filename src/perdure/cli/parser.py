"""The commands as cyclopts knows them; each one's module is imported when it is chosen."""

from __future__ import annotations

import sys

from cyclopts import App, CycloptsError

from perdure.cli.main import COMMANDS, USAGE_ERROR
from perdure.cli.version import installed_version


def app() -> App:
    """The parser of the whole command line."""
    made = App(name="perdure", help="The durable layer under AI agents.", version=installed_version)
    for name, command in COMMANDS.items():
        made.command(command.target, name=name, help=command.summary)
    return made


def run(given: list[str]) -> int:
    """Parse and run, and return the exit code."""
    try:
        answer = app()(given, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as exc:
        print(f"error: {' '.join(str(exc).split())}", file=sys.stderr)
        print("try: perdure --help", file=sys.stderr)
        return USAGE_ERROR
    return answer if isinstance(answer, int) else 0
