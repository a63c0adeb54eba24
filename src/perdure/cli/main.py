"""The entry point of `perdure`: help at once, everything else by the command's own module."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from perdure.cli.output import safe_streams, write_error, write_exception, write_plain
from perdure.core.addresses import redact_words
from perdure.core.errors import AmbiguousThreadError, InvalidConfigError, PerdureError
from perdure.core.extras import missing
from perdure.core.printable import printable

USAGE_ERROR = 2
INVALID = 5  # a configuration with mistakes
_ABOVE = """\
Usage: perdure COMMAND

The durable layer under AI agents.

Commands:"""
_BELOW = """
Options:
  --help    Print this, or the help of a command.
  --version Print the version."""


class UsageError(Exception):
    """The words of a command do not go together."""


class Command(NamedTuple):
    """A command: where its function is, and one line about it."""

    target: str
    summary: str


COMMANDS = {
    "cancel": Command("perdure.cli.runs:cancel", "End the unfinished run of a thread."),
    "compact": Command("perdure.cli.compact:compact", "Give disk space that nothing uses any more back to the system."),
    "compare": Command("perdure.cli.compare:compare", "Say how two to four points of threads differ."),
    "config": Command(
        "perdure.cli.config:config", "Check and show settings, and say where they come from; trust a file."
    ),
    "copy": Command("perdure.cli.copy:copy", "Copy threads from one storage to another."),
    "decide": Command("perdure.cli.pauses:decide", "Answer a question that waits."),
    "demo": Command("perdure.cli.demo:demo", "Kill an agent for real and watch it go on."),
    "doctor": Command("perdure.cli.doctor:doctor", "Look at the installation, the store and the machine."),
    "export": Command("perdure.cli.export:export", "Write a thread into one file that any store can import."),
    "forget": Command("perdure.cli.forget:forget", "Erase everything of a user, after showing what there is."),
    "import": Command("perdure.cli.import_:import_", "Add the threads of an export to a storage."),
    "init": Command("perdure.cli.init:init", "Make a project folder that is ready to run offline."),
    "key": Command("perdure.cli.key:key", "Show, add or remove keys that sign exports."),
    "pauses": Command("perdure.cli.pauses:pauses", "List the questions that wait for a person."),
    "prune": Command("perdure.cli.prune:prune", "Drop the points that a policy does not keep."),
    "repair": Command("perdure.cli.verify:repair", "Make every index and snapshot again from the logs."),
    "restored": Command("perdure.cli.restored:restored", "Make a storage that was restored from a backup safe to use."),
    "resume": Command("perdure.cli.worker:resume", "Go on with the unfinished run of a thread, here and now."),
    "runs": Command("perdure.cli.runs:runs", "List the newest run of each thread: what became of it, and why."),
    "schema": Command("perdure.cli.schema:schema", "Print the SQL that sets up a storage."),
    "signal": Command("perdure.cli.runs:signal", "Send a value to the run of a thread."),
    "sizes": Command("perdure.cli.sizes:sizes", "Say where the bytes of a storage or of a thread are."),
    "timeline": Command("perdure.cli.timeline:timeline", "Say who did what in a thread, and when."),
    "trust": Command("perdure.cli.trust:trust", "Let imported threads run, after showing what would go on."),
    "usage": Command("perdure.cli.usage:usage", "Total tokens, calls, retries and money of models."),
    "verify": Command("perdure.cli.verify:verify", "Check every log, every whole state, every index."),
    "version": Command("perdure.cli.version:version", "Print the version."),
    "why": Command("perdure.cli.runs:why", "Say what happened to a thread, and what to type next."),
    "views": Command("perdure.cli.views:views", "Bring SQL views of states and messages up with the logs."),
    "worker": Command("perdure.cli.worker:worker", "Take up runs as they become due, until SIGTERM."),
}

OF_TWO_WORDS = {
    "export langgraph": Command("perdure.cli.graphs:export_langgraph", "Write threads into LangGraph's own tables."),
    "import langgraph": Command(
        "perdure.cli.graphs:import_langgraph", "Bring threads of LangGraph's own savers into a storage."
    ),
}


def main(arguments: list[str] | None = None) -> None:
    """Run a command; errors of ours are one line on standard error and exit code 1, wrong usage exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help"):
        # Building the parser only to print this list took five times as long as printing it.
        write_plain(help_text())
        return
    try:
        with safe_streams():
            sys.exit(_run(given))
    except AmbiguousThreadError as exc:
        nobody = ", or --user '' for the one that belongs to nobody" if None in exc.users else ""
        _fail([f"{exc.who}; say whose: --user NAME{nobody}"], given)
    except InvalidConfigError as exc:
        _fail(exc.problems, given, INVALID)
    except PerdureError as exc:
        _fail([str(exc)], given)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # `perdure schema … | head`: the reader has gone, and Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as exc:  # a defect, or what code of the caller's raised: its text may be anybody's
        write_exception(exc, given)
        sys.exit(1)


def help_text() -> str:
    """What `perdure --help` prints."""
    commands = sorted((COMMANDS | OF_TWO_WORDS).items())
    lines = "\n".join(f"  {name:<9} {command.summary}" for name, command in commands)
    return f"{_ABOVE}\n{lines}\n{_BELOW}"


def _run(given: list[str]) -> int:
    try:
        parser = import_module("perdure.cli.parser")
    except ImportError as exc:
        raise _missing(exc) from exc
    return parser.run(given)


def _missing(exc: ImportError) -> Exception:
    """The advice to install the extra, if one of its packages is missing or too old."""
    absent = (exc.name or "").split(".")[0]
    return missing("the command line", "cli") if absent in ("cyclopts", "rich") else exc


def _fail(problems: Sequence[str], given: list[str], code: int = 1) -> None:
    for each in problems:
        # An address may stand where a file or an id belongs.
        write_error(f"error: {printable(' '.join(redact_words(each, given).split()))}")
    sys.exit(code)


if __name__ == "__main__":
    main()
