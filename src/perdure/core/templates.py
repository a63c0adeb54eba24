"""Texts with places for values: `Execute: {command}?`.

A place is a name, or a dotted path into mappings and lists: `{args.env}`, `{args.files.0}`. There is nothing else: no
attributes, no format specs, no calls. `{{name}}` stands for the text `{name}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from perdure.core.codec import encode_result
from perdure.core.errors import InvalidInputError
from perdure.core.render import to_json

_PLACE = re.compile(r"\{\{[\w.-]+\}\}|\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")
_SPOKEN = frozenset({int, float, Decimal, Fraction, UUID, timedelta})
_MOMENTS = (date, datetime, time)
_NOTHING = object()
_INDEX = 9  # digits of the longest index that is looked for


def filled(template: str, values: Mapping[str, Any], *, longest: int | None = None) -> str:
    """The text with its values; a name that is not among them stays visible as `{name}`.

    Values are taken as they are: a place that stands inside one is not filled. With `longest`, a value is cut after so
    many characters, and says so.
    """

    def put(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][1:-1]
        value = _at(values, found[1].split("."))
        return found[0] if value is _NOTHING else _cut(spoken(value), longest)

    return _PLACE.sub(put, template)


def names_in(template: str) -> set[str]:
    """The first names of its places: what has to be among the values."""
    return {found[1].split(".")[0] for found in _PLACE.finditer(template) if found[1] is not None}


def spoken(value: Any) -> str:
    """A value as a person reads it, whatever it is: text as it is, times in ISO form, the rest as JSON."""
    if isinstance(value, str):
        return well_formed(value)
    if type(value) in _MOMENTS:
        return cast("datetime", value).isoformat()
    if isinstance(value, PurePath):
        return well_formed(str(value))
    try:
        return str(value) if type(value) in _SPOKEN else json_of(value).decode()
    except ValueError:  # an int of so many digits that Python does not write them
        return json_of(value).decode()


def json_of(value: Any) -> bytes:
    """A value as JSON; what JSON cannot carry is an object with one key such as `$bytes`."""
    try:
        return to_json(encode_result(value))
    except InvalidInputError:
        # Somebody waits to be asked: a value that cannot be shown must not be in the way of the question.
        return to_json(encode_result(f"<{type(value).__name__}>"))


def well_formed(text: str) -> str:
    """The text without lone surrogates, which no JSON can carry."""
    return text.encode("utf-8", "replace").decode()


def _at(values: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(values, Mapping):
            values = cast("Mapping[Any, Any]", values)[name] if name in values else _NOTHING
        elif isinstance(values, list | tuple):
            values = _item(cast("list[Any]", values), name)
        else:
            return _NOTHING
    return values


def _item(values: list[Any] | tuple[Any, ...], name: str) -> Any:
    known = name.isascii() and name.isdigit() and len(name) <= _INDEX and int(name) < len(values)
    return values[int(name)] if known else _NOTHING


def _cut(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest:,} more characters)"
