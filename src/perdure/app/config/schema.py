"""The JSON Schema of `perdure.yaml`, for editors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.app.config.keys import KEYS, PRICE_KEYS, RULE_KEYS, WEBHOOK_KEYS, Key

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
# A value of any type may come out of the environment or a file.
_VARIABLE: dict[str, Any] = {"type": "string", "pattern": r"\$\{[^{}]+\}"}
_TEXT: dict[str, Any] = {"type": "string"}


def json_schema() -> dict[str, Any]:
    """The schema, as JSON values."""
    return {"$schema": _DRAFT, "title": "perdure.yaml", "description": "Settings of Perdure.", **_mapping(KEYS)}


def _mapping(keys: Iterable[Key]) -> dict[str, Any]:
    root: dict[str, Any] = {"type": ["object", "null"], "additionalProperties": False, "properties": {}}
    for key in keys:
        at = root
        *above, last = key.name.split(".")
        for each in above:
            inside = {"type": ["object", "null"], "additionalProperties": False, "properties": {}}
            at = at["properties"].setdefault(each, inside)
        at["properties"][last] = _described(key)
    return root


def _described(key: Key) -> dict[str, Any]:
    told: dict[str, Any] = {"description": key.about, **_schema(key)}
    if key.default is not None and key.default != () and key.kind != "mode":
        told["default"] = key.default
    return told


def _schema(key: Key) -> dict[str, Any]:
    if key.kind in ("text", "secret", "password"):
        return {**_TEXT, "minLength": 1}
    if key.kind == "texts":
        return {"type": "array", "items": {**_TEXT, "minLength": 1}}
    if key.kind == "settings":
        return {"type": "object"}
    if key.kind == "pairs":
        return {"type": "object", "additionalProperties": _TEXT}
    if key.kind == "webhooks":
        return {"type": "array", "items": {**_mapping(WEBHOOK_KEYS), "type": "object", "required": ["url"]}}
    if key.kind in ("prices", "rules"):
        inside = _mapping(PRICE_KEYS if key.kind == "prices" else RULE_KEYS)
        return {"type": "object", "additionalProperties": {**inside, "type": "object"}}
    return {"anyOf": [_scalar(key), _VARIABLE]}


def _scalar(key: Key) -> dict[str, Any]:
    if key.kind == "flag":
        return {"type": "boolean"}
    if key.kind == "choice":
        return {"enum": list(key.choices)}
    if key.kind == "count":
        return {"type": "integer", "minimum": key.least}
    if key.kind == "mode":
        return {"type": ["string", "integer"]}
    types = ["number", "null"] if key.null else "number"
    return {"type": types, "minimum": 0} if key.zero or key.kind == "number" else {"type": types, "exclusiveMinimum": 0}
