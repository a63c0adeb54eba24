"""The reference page of the checkpointers; `python -m tests.docs.checkpointer_reference` writes it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from perdure import checkpointer
from perdure.checkpointer.calls import Calls
from perdure.checkpointer.directory import Directory
from perdure.checkpointer.mending import Mending
from perdure.checkpointer.states import States
from perdure.checkpointer.talk import Talk
from perdure.checkpointer.values import Values
from tests.docs.pages import ROOT
from tests.docs.signatures import shown

PAGE = ROOT / "docs" / "reference" / "checkpointer.md"
MADE = (
    checkpointer.InMemoryCheckpointer, checkpointer.SQLiteCheckpointer, checkpointer.PgCheckpointer,
    checkpointer.MySQLCheckpointer,
)  # fmt: skip
VALUES = (checkpointer.AgentState, checkpointer.ExecutionState, checkpointer.Message, checkpointer.ThreadInfo)
PARTS = (States, Talk, Directory, Values, Mending, Calls)
FUNCTIONS = (checkpointer.bind, checkpointer.current_checkpointer)

_TEXT = """\
# Checkpointers

Every public name of `perdure.checkpointer`, with its signature; [the guide](../guides/session-memory.md) shows how they
are used, and lists the options.

{made}

## BaseCheckpointer

{base} Every call whose name begins with `a` has a twin without it for synchronous code, with the same arguments.

{calls}

## Values

{values}

## Functions

{functions}
"""


def page() -> str:
    """`docs/reference/checkpointer.md`."""
    return _TEXT.format(
        made="\n\n".join(map(_made, MADE)),
        base=inspect.getdoc(checkpointer.BaseCheckpointer),
        calls="\n\n".join(_function(name, call) for name, call in calls()),
        values="\n\n".join(map(_value, VALUES)),
        functions="\n\n".join(_function(each.__name__, each) for each in FUNCTIONS),
    )


def calls() -> Iterator[tuple[str, Any]]:
    """The public calls, twins left out, in the order of the parts they are written in."""
    found = [
        (name, value)
        for cls in PARTS
        for name, value in vars(cls).items()
        if callable(value) and not name.startswith("_")
    ]
    names = dict(found)
    for name in names:
        if f"a{name}" not in names:
            yield name, getattr(checkpointer.BaseCheckpointer, name)


def _made(cls: type) -> str:
    return f"## {cls.__name__}\n\n```text\n{shown(cls.__name__, vars(cls)['__init__'])}\n```\n\n{inspect.getdoc(cls)}"


def _value(cls: Any) -> str:
    own = [name for name, value in vars(cls).items() if isinstance(value, property)]
    names = ", ".join(f"`{name}`" for name in (*cls.__struct_fields__, *own))
    methods = [
        (name, getattr(cls, name))
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, classmethod))
    ]
    said = f"### {cls.__name__}\n\n{inspect.getdoc(cls)}\n\nAttributes: {names}."
    return "\n\n".join([said, *(_function(f"{cls.__name__}.{name}", each) for name, each in methods)])


def _function(name: str, function: Any) -> str:
    return f"```text\n{shown(name, function)}\n```\n\n{inspect.getdoc(function)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
