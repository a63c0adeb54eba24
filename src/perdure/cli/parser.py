"""The commands as cyclopts knows them; each one's module is imported when it is chosen."""

from __future__ import annotations

import re

from cyclopts import App, CycloptsError

from perdure.cli.main import COMMANDS, OF_TWO_WORDS, USAGE_ERROR, UsageError
from perdure.cli.output import write_error
from perdure.cli.version import installed_version
from perdure.core.addresses import redact_words
from perdure.core.printable import printable

BY_CONFIG = frozenset(
    {
        "cancel",
        "compare",
        "decide",
        "forget",
        "pauses",
        "prune",
        "resume",
        "runs",
        "signal",
        "timeline",
        "trust",
        "views",
        "why",
    }
)  # their URL can be left out
_ADDRESS = re.compile(r"(file|memory|mysql|postgresql|sqlite):")


def app() -> App:
    """The parser of the whole command line."""
    made = App(name="perdure", help="The durable layer under AI agents.", version=installed_version)
    for name, command in (COMMANDS | OF_TWO_WORDS).items():
        made.command(command.target, name=name, help=command.summary)
    return made


def run(given: list[str]) -> int:
    """Parse and run, and return the exit code."""
    try:
        answer = app()(_placed(given), exit_on_error=False, print_error=False, result_action="return_value")
    except (CycloptsError, UsageError) as exc:
        text = redact_words(" ".join(str(exc).split()), given)
        write_error(f"error: {printable(text)}\ntry: perdure --help")
        return USAGE_ERROR
    return answer if isinstance(answer, int) else 0


def _placed(given: list[str]) -> list[str]:
    """The words as the parser takes them.

    A command of two words is one word to it. With --config there is no URL: what follows must not be taken for one.
    A URL comes first; later it is a text.
    """
    if " ".join(given[:2]) in OF_TWO_WORDS:
        return [" ".join(given[:2]), *given[2:]]
    command, *words = given
    rest = _without_config(words)
    if command not in BY_CONFIG or rest == words or (rest and _ADDRESS.match(rest[0])):
        return given
    return [command, "", *words]


def _without_config(words: list[str]) -> list[str]:
    at = next((at for at, word in enumerate(words) if word == "--config"), None)
    words = words if at is None else words[:at] + words[at + 2 :]
    return [word for word in words if not word.startswith("--config=")]
