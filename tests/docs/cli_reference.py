"""The reference page of the command line, made from the commands themselves."""

from __future__ import annotations

from typing import Any, get_args

from perdure.cli.commands import COMMANDS, GROUPS, OF_TWO_WORDS, Command
from perdure.cli.common_options import StoreOptions, ThreadOptions
from perdure.cli.parser import about, app
from perdure.cli.problems import EXIT_CODES, exit_code
from tests.docs.pages import ROOT
from tests.docs.reference import error_classes

CLI = ROOT / "docs" / "reference" / "cli.md"
_PAGE = ROOT / "tests" / "docs" / "cli_page.md"  # what is written by hand


def cli_page() -> str:
    """The page as the code makes it."""
    every = COMMANDS | OF_TWO_WORDS
    parts = [f"### perdure {name}\n\n{_command(name, each)}" for name, each in every.items()]
    return _PAGE.read_text(encoding="utf-8").format(
        codes=_codes(), table=_table(every), shared=_shared(), commands="\n\n".join(parts)
    )


def _codes() -> str:
    errors: dict[int, list[str]] = {}
    for cls in error_classes():
        code = exit_code(cls.__new__(cls))
        parents = {exit_code(base.__new__(base)) for base in cls.__mro__[1:] if base in error_classes()}
        if not parents or code not in parents:
            errors.setdefault(code, []).append(f"`{cls.__name__}`")
    return "\n".join(f"| {code} | {text} | {', '.join(errors.get(code, []))} |" for code, text in EXIT_CODES.items())


def _table(every: dict[str, Command]) -> str:
    lines = ["| command | what it does |", "|---|---|"]
    for group in GROUPS:
        lines += [f"| **{group}** | {GROUPS[group]} |"]
        lines += [f"| [`perdure {name}`](#perdure-{name.replace(' ', '-')}) | {each.summary} |"
                  for name, each in every.items() if each.group == group]  # fmt: skip
    return "\n".join(lines)


def _shared() -> str:
    arguments = [each for each in app()["threads"].assemble_argument_collection(parse_docstring=True) if each.show]
    names = {f"--{name.replace('_', '-')}" for name in (*StoreOptions.__annotations__, *ThreadOptions.__annotations__)}
    rows = [_row(each) for each in arguments if each.names[0] in names or "-o" in each.names]
    return "\n".join(["| option | |", "|---|---|", *rows])


def _command(name: str, command: Command) -> str:
    shared = {f"--{each.replace('_', '-')}" for each in (*StoreOptions.__annotations__, "output")}
    arguments = [each for each in app()[name].assemble_argument_collection(parse_docstring=True) if each.show]
    own = [each for each in arguments if each.names[0] not in shared]
    table = ["| argument | |", "|---|---|", *(_row(each) for each in own)] if own else []
    on_a_store = any(each.names[0] == "--store" for each in arguments)
    formats = "" if any("-o" in each.names for each in arguments) else " It has no `-o`."
    note = "The [options of every command on a store](#options-of-every-command-on-a-store) too." if on_a_store else ""
    examples = "\n".join(["```text", *command.examples, "```"])
    parts = [about(command), *(["\n".join(table)] if table else []), *([note + formats] if note else []), examples]
    return "\n\n".join(parts)


def _row(argument: Any) -> str:
    names = ", ".join(f"`{each}`" for each in argument.names if not each.startswith("--no-"))
    choices = [f"`{each}`" for each in get_args(argument.hint) if isinstance(each, str)]
    default = argument.field_info.default
    shown = f" (`{default}`)" if type(default) in (int, float, str) and default != "" else ""
    text = (argument.parameter.help or "").replace("|", "\\|")
    return f"| {names} | {' '.join([text, *([', '.join(choices)] if choices else [])])}{shown} |"


if __name__ == "__main__":
    CLI.write_text(cli_page(), encoding="utf-8")
