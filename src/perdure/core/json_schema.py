"""Whether a value fits the JSON schema of a tool's arguments: the keywords that types of Python lead to, no library.

Approving a tool must not need an extra. Schemas that users write as forms are checked by the library `jsonschema`
(`core/answers`): they may have any keyword. One that is not known here is not looked at.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from itertools import islice
from typing import Any

_MOST = 3  # mismatches that are told
_LONGEST = 200  # characters of one
_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: type(value) is bool,
    "integer": lambda value: type(value) is int,  # 5.0 is one to JSON schema, and none to the code that asked for one
    "number": lambda value: type(value) in (int, float),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
}
_FORMATS: dict[str, Callable[[str], object]] = {"date": date.fromisoformat, "uuid": uuid.UUID}


def mismatch(schema: Mapping[str, Any], value: Any, what: str) -> str | None:
    """Why a value does not fit a schema; None when it does."""
    try:
        found = list(islice(_Checker(schema).problems(schema, value, what), _MOST))
    except RecursionError:
        return f"{what} cannot be checked: its schema leads nowhere"
    except (TypeError, ValueError, AttributeError, re.error) as exc:  # it comes from a log, maybe a stranger's
        return f"{what} cannot be checked: not a JSON schema: {exc}"
    return "; ".join(each[:_LONGEST] for each in found) or None


class _Checker:
    """Checks values against parts of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._parts = schema.get("$defs", {})

    def problems(self, schema: Any, value: Any, place: str) -> Iterator[str]:
        """What does not fit, each with its place."""
        if not isinstance(schema, Mapping):
            if schema is False:
                yield f"{place}: {value!r} is not allowed"
            return
        yield from self._of_reference(schema, value, place)
        yield from self._of_choices(schema, value, place)
        told = schema.get("type")
        types = [told] if isinstance(told, str) else told or []
        if types and not any(_TYPES.get(each, _anything)(value) for each in types):
            yield f"{place}: {value!r} is not of type {', '.join(map(repr, types))}"
        elif isinstance(value, Mapping):
            yield from self._of_object(schema, value, place)
        elif isinstance(value, list | tuple):
            yield from self._of_array(schema, value, place)
        else:
            yield from (f"{place}: {why}" for why in _of_leaf(schema, value))

    def _of_reference(self, schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
        name = schema.get("$ref")
        if name is not None:
            part = self._parts.get(str(name).removeprefix("#/$defs/"))
            if part is None:
                yield f"{place} cannot be checked: its schema leads nowhere ({name})"
            yield from self.problems(part, value, place)

    def _of_choices(self, schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
        if "enum" in schema and not any(_equal(each, value) for each in schema["enum"]):
            yield f"{place}: {value!r} is not one of {list(schema['enum'])!r}"
        if "const" in schema and not _equal(schema["const"], value):
            yield f"{place}: {schema['const']!r} was expected, not {value!r}"
        for name in ("anyOf", "oneOf"):
            if name in schema and all(any(self.problems(each, value, place)) for each in schema[name]):
                yield f"{place}: {value!r} is not valid under any of the given schemas"
        for each in schema.get("allOf", ()):
            yield from self.problems(each, value, place)

    def _of_object(self, schema: Mapping[str, Any], value: Mapping[Any, Any], place: str) -> Iterator[str]:
        known, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{place}: {name!r} is a required property"
        for name, each in value.items():
            if name in known:
                yield from self.problems(known[name], each, f"{place}.{name}")
            elif other is False:
                yield f"{place}: Additional properties are not allowed ({name!r} was unexpected)"
            else:
                yield from self.problems(other, each, f"{place}.{name}")
        yield from (f"{place}: {why}" for why in _of_size(schema, "Properties", value))

    def _of_array(self, schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        for at, each in enumerate(value):
            yield from self.problems(first[at] if at < len(first) else rest, each, f"{place}[{at}]")
        yield from (f"{place}: {why}" for why in _of_size(schema, "Items", value))


def _of_leaf(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _of_size(schema, "Length", value)
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            yield f"{value!r} does not match {schema['pattern']!r}"
        read = _FORMATS.get(str(schema.get("format")))
        if read is not None and not _reads(read, value):
            yield f"{value!r} is not a {schema['format']!r}"
    elif type(value) in (int, float):
        yield from _of_range(schema, value)


def _of_size(schema: Mapping[str, Any], what: str, value: Any) -> Iterator[str]:
    if len(value) < schema.get(f"min{what}", 0):
        yield f"{value!r} is too short"
    if len(value) > schema.get(f"max{what}", len(value)):
        yield f"{value!r} is too long"


def _of_range(schema: Mapping[str, Any], value: float) -> Iterator[str]:
    bounds = (
        ("minimum", "less than the minimum of", lambda bound: value < bound),
        ("exclusiveMinimum", "less than or equal to the minimum of", lambda bound: value <= bound),
        ("maximum", "greater than the maximum of", lambda bound: value > bound),
        ("exclusiveMaximum", "greater than or equal to the maximum of", lambda bound: value >= bound),
        ("multipleOf", "not a multiple of", lambda bound: bool(value % bound)),
    )
    for name, words, is_outside in bounds:
        if name in schema and is_outside(schema[name]):
            yield f"{value!r} is {words} {schema[name]!r}"


def _equal(one: Any, other: Any) -> bool:
    """True is not 1 to JSON."""
    return (type(one) is bool) == (type(other) is bool) and one == other


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _anything(value: Any) -> bool:
    return True
