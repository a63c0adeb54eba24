"""Forms on a terminal: the fields of a JSON schema, and a value from what a person types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.core.json_schema import mismatch

ABSENT: Any = object()
_YES, _NO = ("yes", "y", "true"), ("no", "n", "false")
TEXT = {"type": "string"}
_WORDS = {"string": "text", "integer": "whole number", "boolean": "yes or no", "null": "null"}


class Field(NamedTuple):
    """One value that is asked for."""

    name: str
    schema: dict[str, Any]  # resolved, with the definitions that its parts refer to
    required: bool = True
    default: Any = ABSENT

    @property
    def kinds(self) -> tuple[str, ...]:
        """The JSON types that it may have; none where the schema does not say."""
        return _kinds(self.schema, self.schema.get("$defs", {}))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The only values it may have; none where there are others."""
        return (self.schema["const"],) if "const" in self.schema else tuple(self.schema.get("enum", ()))

    @property
    def hint(self) -> str:
        """What to type, in a few words."""
        words = "one of " + ", ".join(map(as_text, self.choices)) if self.choices else _said(self.kinds)
        about = self.schema.get("description") or ""
        optional = "" if self.required or self.default is not ABSENT else "may be left out"
        return "; ".join(filter(None, [words, " ".join(str(about).split()), optional]))


class Unreadable(Exception):
    """What was typed is not a value of the field."""


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of a form, those that are needed first; the whole answer where it is not made of fields."""
    defs = schema.get("$defs", {})
    root = _resolved(schema, defs)
    inside: Mapping[str, Any] = root.get("properties", {})
    if not inside:
        return []
    needed = [name for name in root.get("required", ()) if name in inside]
    return [
        _field(name, _resolved(inside[name], defs), defs, name in needed)
        for name in [*needed, *(each for each in inside if each not in needed)]
    ]


def whole(schema: Mapping[str, Any]) -> Field:
    """An answer that is one value."""
    defs = schema.get("$defs", {})
    return _field("answer", _resolved(schema, defs), defs, True)


def read(field: Field, text: str) -> Any:
    """The value that was typed; `ABSENT` when nothing was. Raises `Unreadable` saying what is expected."""
    said = text.strip()
    if not said:
        if field.default is ABSENT and field.required:
            raise Unreadable(f"{field.name} is needed: {field.hint}")
        return field.default
    value = _value(field, said)
    why = mismatch(field.schema, value, field.name)  # without the extra that forms need; `decide` checks the whole
    if why is not None:
        raise Unreadable(why)
    return value


def as_text(value: Any) -> str:
    """A value as somebody would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _field(name: str, schema: dict[str, Any], defs: Mapping[str, Any], required: bool) -> Field:
    kept = {**schema, "$defs": dict(defs)} if defs else schema
    return Field(name, kept, required, schema.get("default", ABSENT))


def _resolved(schema: Any, defs: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a schema itself, where it only refers to one; what stands beside the reference wins."""
    part: dict[str, Any] = schema if isinstance(schema, dict) else {}
    for _ in defs:  # a definition may refer to the next one, never for ever
        if "$ref" not in part:
            break
        beside = {name: value for name, value in part.items() if name != "$ref"}
        part = {**defs.get(str(part["$ref"]).removeprefix("#/$defs/"), {}), **beside}
    return part


def _kinds(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> tuple[str, ...]:
    parts = schema.get("anyOf") or schema.get("oneOf")
    if parts:
        return tuple(kind for part in parts for kind in _kinds(_resolved(part, defs), defs))
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _said(kinds: tuple[str, ...]) -> str:
    if not kinds or {"object", "array"} & set(kinds):
        return "JSON"
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds)


def _value(field: Field, said: str) -> Any:
    if field.choices:
        return _chosen(field, said)
    if "boolean" in field.kinds and said.lower() in (*_YES, *_NO):
        return said.lower() in _YES
    if "string" in field.kinds and (said != "null" or "null" not in field.kinds):
        return said
    try:
        return json.loads(said)
    except ValueError:
        raise Unreadable(f"{field.name}: {field.hint}, not {said!r}") from None


def _chosen(field: Field, said: str) -> Any:
    for each in field.choices:
        if said in (as_text(each), json.dumps(each)):
            return each
    raise Unreadable(f"{field.name}: {field.hint}, not {said!r}")
