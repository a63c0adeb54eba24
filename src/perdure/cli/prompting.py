"""Deciding on a terminal: what the command line did not say is asked for."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.cli.forms import ABSENT, TEXT, Field, Unreadable, as_text, fields_of, read, whole
from perdure.cli.output import Terminal, write
from perdure.core.errors import NotAllowedError
from perdure.core.printable import printable
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


def completed(pause: Pause, given: Given) -> Given:
    """Ask for everything that is missing. Raises `NotAllowedError` before anything is filled in."""
    try:
        return _completed(pause, given)
    except EOFError:  # Ctrl-D: nothing was decided
        raise KeyboardInterrupt from None


def _completed(pause: Pause, given: Given) -> Given:
    by = given.by or Terminal().ask("Your name", getpass.getuser())
    if pause.who and by not in pause.who:
        raise NotAllowedError(pause.id, by, pause.who)
    way = _way(pause) if given.approved is None else "approve" if given.approved else "deny"
    args = _edited(pause.args) if way == "edit" else given.args
    answer = given.answer
    if answer is None:
        answer = _reason() if way == "deny" else _answer(pause)
    return Given(way != "deny", by, args, answer, pause.version if given.version is None else given.version)


def _way(pause: Pause) -> str:
    """Whole words and no default: nobody approves by pressing Enter."""
    ways = ["approve", "deny", *(["edit"] if pause.args else [])]
    return Terminal().choose("Decision", ways)


def _answer(pause: Pause) -> Any:
    if pause.expects == "approval":
        return None
    if pause.expects == "choice":
        return _asked(Field("choice", {"enum": list(pause.choices)}))
    schema = _SCHEMAS.get(pause.expects, pause.schema or {})
    fields = fields_of(schema)
    if not fields:
        return _asked(whole(schema))
    filled = {field.name: _asked(field) for field in fields}
    return {name: value for name, value in filled.items() if value is not ABSENT}


def _reason() -> Any:
    """Of a tool that may have run it is its result, so it may be any JSON; else it is taken as a text."""
    text = Terminal().ask("Why, or a result (Enter for none)")
    try:
        said = read(Field("answer", {}, required=False), text)
    except Unreadable:
        return text
    return None if said is ABSENT else said


def _edited(args: Any) -> Any:
    if not isinstance(args, Mapping):
        return _asked(Field("args", {}, default=args))
    return {name: _asked(_argument(name, value)) for name, value in args.items()}


def _argument(name: str, value: Any) -> Field:
    return Field(name, TEXT if isinstance(value, str) else {}, default=value)


def _asked(field: Field) -> Any:
    """Ask until it fits."""
    default = "" if field.default is ABSENT else _default(field.default)
    while True:
        said = Terminal().ask(f"{shown(field.name)} ({field.hint})", default)
        if default and said == default:
            return field.default  # as it was: not every value can be typed
        try:
            return read(field, said)
        except Unreadable as exc:
            write(printable(str(exc)), "red")


def _default(value: Any) -> str:
    try:
        return as_text(value)
    except (TypeError, ValueError):  # a value that only the log can carry
        return repr(value)
