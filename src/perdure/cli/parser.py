"""The commands as cyclopts knows them; each one's module is imported when it is chosen."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from importlib import import_module

from cyclopts import App, CycloptsError

from perdure.app.options import hint as did_you_mean
from perdure.cli.commands import COMMANDS, OF_TWO_WORDS, Command
from perdure.cli.problems import ADDRESS, UsageError
from perdure.cli.version import installed_version

_STORE = "--store"
_TAKES_NO_STORE = frozenset(
    {"completion", "config", "copy", "demo", "init", "schema", "version", "workflow check", "workflow schema"}
)
_SCHEMES = ("file", "memory", "mysql", "postgresql", "redis", "sqlite")


def app(chosen: str = "") -> App:
    """The parser of the whole command line; the help of the chosen command has all of its docstring."""
    made = App(
        name="perdure", help="The durable layer under AI agents.", version=installed_version, help_format="plaintext"
    )  # fmt: skip
    for name, command in (COMMANDS | OF_TWO_WORDS).items():
        text = about(command) if name == chosen else command.summary
        made.command(command.target, name=name, help=text, help_epilogue=_examples(command))
    return made


def about(command: Command) -> str:
    """The summary of a command, and what else its docstring says before the parameters."""
    module, _, function = command.target.partition(":")
    text = inspect.getdoc(getattr(import_module(module), function)) or ""
    paragraphs = text.partition("\nParameters\n")[0].strip().split("\n\n")
    return "\n\n".join([command.summary, *(" ".join(each.split()) for each in paragraphs[1:])])


def run(typed: list[str]) -> int:
    """Parse and run, and return the exit code. Raises `UsageError`, and what the command raises."""
    words = _as_one_word(typed)
    parser = app(words[0])
    try:
        words = _with_store(parser, words)
        answer = parser(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as exc:
        raise UsageError(" ".join(str(exc).split())) from exc
    return answer if isinstance(answer, int) else 0


def _examples(command: Command) -> str:
    return "\n".join(["Examples:", *(f"  {each}" for each in command.examples)])


def _as_one_word(typed: list[str]) -> list[str]:
    """A command of two words is one word to the parser."""
    two = " ".join(typed[:2])
    return [two, *typed[2:]] if two in OF_TWO_WORDS else typed


def _with_store(parser: App, words: list[str]) -> list[str]:
    """A first argument that is an address becomes --store.

    An id may look like an address too: after --, with --store or as any later argument, a word is what it is.
    """
    command, *rest = words
    if command[:1] != "-" and command not in COMMANDS | OF_TWO_WORDS:
        raise UsageError(f"there is no command {command!r}{did_you_mean(command, tuple(COMMANDS))}")
    if command not in COMMANDS | OF_TWO_WORDS or command in _TAKES_NO_STORE or "langgraph" in command:
        return words
    at = _first_argument(parser, command, rest)
    if at is None or not (ADDRESS.match(rest[at]) or _is_nearly_an_address(rest[at])):
        return words
    return [command, f"{_STORE}={rest[at]}", *rest[:at], *rest[at + 1 :]]


def _is_nearly_an_address(word: str) -> bool:
    """Whether a word is an address with a mistyped scheme; https://… may be the id of a thread."""
    scheme, found, _ = word.partition("://")
    return bool(found) and bool(get_close_matches(scheme, _SCHEMES, 1))


def _first_argument(parser: App, command: str, rest: list[str]) -> int | None:
    """Where the first word stands that is neither an option nor the value of one."""
    flags = {name for each in parser[command].assemble_argument_collection() if each.is_flag() for name in each.names}
    skipped = command == "key"  # its first argument is what to do
    for at, word in enumerate(rest):
        if skipped:
            skipped = False
        elif word == "--" or word == _STORE or word.startswith(f"{_STORE}="):
            return None
        elif word.startswith("-") and len(word) > 1:
            skipped = "=" not in word and word not in flags
        else:
            return at
    return None
