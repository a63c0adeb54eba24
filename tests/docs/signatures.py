"""Public names and their signatures as the reference shows them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_LINE = 110


def shown(name: str, function: Callable[..., Any]) -> str:
    """A signature on one line, or one line for each argument where that is too long."""
    signature = inspect.signature(function)
    given = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    parts = _parts(given)
    returns = f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(parts)}){returns}"
    return line if len(line) <= _LINE else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def _parts(given: list[inspect.Parameter]) -> list[str]:
    parts: list[str] = []
    for each in given:
        if each.kind is each.KEYWORD_ONLY and "*" not in parts and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(_part(each))
    return parts


def _part(each: inspect.Parameter) -> str:
    star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    default = (
        "" if each.default is each.empty else f" = {'…' if type(each.default) is object else _value(each.default)}"
    )
    return f"{star}{each.name}: {each.annotation}{default}"


def _value(default: object) -> str:
    plain = default is None or isinstance(default, str | int | bool | tuple)
    return repr(default) if plain else "…"


def methods(cls: type) -> list[tuple[str, Any]]:
    """The public methods of a class in the order they are written, then those of the parts of ours it is made of."""
    names = {name: None for each in _made_of(cls) for name in vars(each) if not name.startswith("_")}
    found = [(name, getattr(cls, name)) for name in names]
    return [(name, value) for name, value in found if callable(value)]


def _made_of(cls: type) -> list[type]:
    ours = ("perdure.app.", "perdure.sync.", "perdure.runtime.")
    return [each for each in cls.__mro__ if each.__module__.startswith(ours) or each is cls]


def properties(cls: type) -> list[str]:
    """The public attributes of a class that are not methods: properties and fields."""
    fields = list(getattr(cls, "__struct_fields__", ()))
    return fields + [
        name
        for each in _made_of(cls)
        for name, value in vars(each).items()
        if isinstance(value, property) and not name.startswith("_")
    ]
