"""Deciding on a terminal: what the command line did not say is asked for."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.prompt import Prompt
from rich.text import Text

from perdure.cli.forms import ABSENT, TEXT, Field, Unreadable, as_text, fields_of, read, whole
from perdure.core.errors import NotAllowedError
from perdure.core.retention_words import shown
from perdure.runtime.decisions import Pause

_SCHEMAS: dict[str, dict[str, Any]] = {"text": TEXT, "external": {}}


class Given(NamedTuple):
    """A decision, as far as somebody said it."""

    approved: bool | None = None
    by: str | None = None
    args: Any = None
    answer: Any = None
    version: int | None = None


def completed(console: Console, pause: Pause, given: Given) -> Given:
    """Ask for everything that is missing. Raises `NotAllowedError` before anything is filled in."""
    try:
        return _completed(console, pause, given)
    except EOFError:  # Ctrl-D: nothing was decided
        raise KeyboardInterrupt from None


def _completed(console: Console, pause: Pause, given: Given) -> Given:
    by = given.by or _typed(console, "Your name", getpass.getuser())
    if pause.who and by not in pause.who:
        raise NotAllowedError(pause.id, by, pause.who)
    way = _way(console, pause) if given.approved is None else "approve" if given.approved else "deny"
    args = _edited(console, pause.args) if way == "edit" else given.args
    answer = given.answer
    if answer is None:
        answer = _reason(console) if way == "deny" else _answer(console, pause)
    return Given(way != "deny", by, args, answer, pause.version if given.version is None else given.version)


def _way(console: Console, pause: Pause) -> str:
    """Whole words and no default: nobody approves by pressing Enter."""
    ways = ["approve", "deny", *(["edit"] if pause.args else [])]
    return Prompt.ask(Text("Decision"), console=console, choices=ways)


def _answer(console: Console, pause: Pause) -> Any:
    if pause.expects == "approval":
        return None
    if pause.expects == "choice":
        return _asked(console, Field("choice", {"enum": list(pause.choices)}))
    schema = _SCHEMAS.get(pause.expects, pause.schema or {})
    fields = fields_of(schema)
    if not fields:
        return _asked(console, whole(schema))
    filled = {field.name: _asked(console, field) for field in fields}
    return {name: value for name, value in filled.items() if value is not ABSENT}


def _reason(console: Console) -> Any:
    """Of a tool that may have run it is its result, so it may be any JSON; else it is taken as a text."""
    text = _typed(console, "Why, or a result (Enter for none)", "")
    try:
        said = read(Field("answer", {}, required=False), text)
    except Unreadable:
        return text
    return None if said is ABSENT else said


def _edited(console: Console, args: Any) -> Any:
    if not isinstance(args, Mapping):
        return _asked(console, Field("args", {}, default=args))
    return {name: _asked(console, _argument(name, value)) for name, value in args.items()}


def _argument(name: str, value: Any) -> Field:
    return Field(name, TEXT if isinstance(value, str) else {}, default=value)


def _asked(console: Console, field: Field) -> Any:
    """Ask until it fits."""
    default = "" if field.default is ABSENT else _default(field.default)
    while True:
        said = _typed(console, f"{shown(field.name)} ({field.hint})", default)
        if default and said == default:
            return field.default  # as it was: not every value can be typed
        try:
            return read(field, said)
        except Unreadable as exc:
            console.print(Text(str(exc), style="red"), soft_wrap=True)


def _default(value: Any) -> str:
    try:
        return as_text(value)
    except (TypeError, ValueError):  # a value that only the log can carry
        return repr(value)


def _typed(console: Console, words: str, default: str) -> str:
    return Prompt.ask(Text(words), console=console, default=default, show_default=bool(default))
