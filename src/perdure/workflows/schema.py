"""The JSON Schema of workflow files, for editors."""

from __future__ import annotations

from typing import Any

from perdure.workflows.definition import INPUT_TYPES
from perdure.workflows.file import KINDS

_NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,99}$"}
_TIME = {"type": ["number", "string"], "description": "Seconds, or a text such as 30s, 5m, 2h or 1d."}
_TEMPLATE = {"type": "string", "description": "A text with paths such as {{ steps.plan.output.city }}."}

_RETRY = {
    "type": ["object", "integer"],
    "additionalProperties": False,
    "properties": {
        "times": {"type": "integer", "minimum": 1, "description": "How often the step is tried in all."},
        "delay": _TIME,
        "backoff": {"type": "number", "minimum": 1, "maximum": 100},
        "on": {"type": ["string", "array"], "items": {"type": "string"}, "description": "Names of exceptions."},
    },
}
_APPROVAL = {
    "type": ["string", "object"],
    "additionalProperties": False,
    "required": ["ask"],
    "properties": {
        "ask": _TEMPLATE,
        "args": {"type": "object"},
        "who": {"type": ["string", "array"], "items": {"type": "string"}},
        "deadline": _TIME,
        "choices": {"type": "array", "items": {"type": "string"}},
        "on_deny": {"enum": ["stop", "continue"]},
    },
}
_WAIT = {
    "type": ["number", "string", "object"],
    "additionalProperties": False,
    "properties": {"seconds": _TIME, "until": _TEMPLATE, "signal": {"type": "string"}},
    "maxProperties": 1,
}
_STEP: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": _NAME,
        "agent": {"type": "string"},
        "tool": {"type": "string"},
        "parallel": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}},
        "approval": _APPROVAL,
        "wait": _WAIT,
        "input": {},
        "args": {"type": "object"},
        "foreach": {"type": ["string", "array"]},
        "as": _NAME,
        "limit": {"type": "integer", "minimum": 1},
        "when": {"type": ["string", "boolean"]},
        "retry": _RETRY,
        "timeout": _TIME,
        "on_error": {
            "oneOf": [
                {"enum": ["fail", "continue"]},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["fallback"],
                    "properties": {"fallback": {"$ref": "#/$defs/step"}},
                },
            ]
        },
        "checkpoint": {"type": "boolean"},
    },
    "oneOf": [{"required": [kind]} for kind in KINDS],
}
_INPUTS = {
    "type": "object",
    "propertyNames": _NAME,
    "additionalProperties": {
        "oneOf": [
            {"enum": [*INPUT_TYPES, None]},
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "type": {"enum": list(INPUT_TYPES)},
                    "default": {},
                    "required": {"type": "boolean"},
                    "description": {"type": "string"},
                },
            },
        ]
    },
}
_TOP = {"name": _NAME, "inputs": _INPUTS, "output": {}}

JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A Perdure workflow",
    "type": "object",
    "additionalProperties": False,
    "required": ["steps"],
    "properties": {
        "workflow": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"checkpoint": {"type": "boolean"}, "description": {"type": "string"}, **_TOP},
        },
        "steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}},
        **_TOP,
    },
    "$defs": {"step": _STEP},
}
