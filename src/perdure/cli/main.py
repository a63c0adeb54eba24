"""The entry point of `perdure`: help at once, everything else by the command's own module."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from perdure.cli.commands import COMMANDS, GROUPS, OF_TWO_WORDS
from perdure.cli.output import safe_streams, write_exception, write_plain
from perdure.cli.problems import INTERRUPTED, Stopped, UsageError, report
from perdure.core.errors import PerdureError
from perdure.core.extras import missing

__all__ = ["COMMANDS", "OF_TWO_WORDS", "main"]

_ABOVE = """\
Usage: perdure COMMAND [ARGUMENTS] [OPTIONS]

The durable layer under AI agents. Name the store once: --store sqlite:///agents.db with a command,
or export PERDURE_STORE=sqlite:///agents.db for all of them."""
_BELOW = """\
Options:
  --help, -h  Print this, or the help of a command: perdure COMMAND --help
  --version   Print the version."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code; errors of ours are lines on standard error, never a traceback."""
    typed = sys.argv[1:] if arguments is None else arguments
    if not typed or typed[0] in ("-h", "--help"):
        # Building the parser only to print this list took five times as long as printing it.
        write_plain(help_text())
        return
    try:
        with safe_streams():
            sys.exit(_run(typed))
    except (PerdureError, UsageError) as exc:
        sys.exit(report(exc, typed))
    except Stopped as exc:
        sys.exit(exc.code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # `perdure schema … | head`: the reader has gone, and Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as exc:  # a defect, or what code of the caller's raised: its text may be anybody's
        write_exception(exc, typed)
        sys.exit(1)


def help_text() -> str:
    """What `perdure --help` prints."""
    every = COMMANDS | OF_TWO_WORDS
    width = max(map(len, every))
    parts = [_ABOVE]
    for group, about in GROUPS.items():
        lines = [f"  {name:<{width}}  {each.summary}" for name, each in every.items() if each.group == group]
        parts.append("\n".join([f"{group.capitalize()}: {about}", *lines]))
    return "\n\n".join([*parts, _BELOW])


def _run(typed: list[str]) -> int:
    if (
        typed[0] == "__complete"
    ):  # called by the shell at each Tab: without the parser, which takes longer than the answer
        from perdure.cli.completion import complete

        return complete(typed[1:])
    try:
        parser = import_module("perdure.cli.parser")
    except ImportError as exc:
        raise _missing(exc) from exc
    return parser.run(typed)


def _missing(exc: ImportError) -> Exception:
    """The advice to install the extra, if one of its packages is missing or too old."""
    absent = (exc.name or "").split(".")[0]
    return missing("the command line", "cli") if absent in ("cyclopts", "rich") else exc


if __name__ == "__main__":
    main()
