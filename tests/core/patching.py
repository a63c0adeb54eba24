"""A small applier of JSON Patch (RFC 6902), written from the standard and not from our code."""

from __future__ import annotations

import copy
from typing import Any


def applied(document: Any, patch: list[dict[str, Any]]) -> Any:
    """The document after the patch; KeyError and IndexError where the patch does not fit."""
    top = [copy.deepcopy(document)]
    for operation in patch:
        tokens = [_unescaped(token) for token in operation["path"].split("/")[1:]]
        parent: Any = top
        for token in ["0", *tokens][:-1]:
            parent = parent[int(token)] if isinstance(parent, list) else parent[token]
        _apply(parent, (["0", *tokens])[-1], operation)
    return top[0]


def _unescaped(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _apply(parent: Any, token: str, operation: dict[str, Any]) -> None:
    place: Any = int(token) if isinstance(parent, list) else token
    if operation["op"] == "add" and isinstance(parent, list):
        if not 0 <= place <= len(parent):
            raise IndexError(operation["path"])
        parent.insert(place, operation["value"])
    elif operation["op"] == "add":
        parent[place] = operation["value"]
    elif operation["op"] == "remove":
        del parent[place]
    else:
        assert operation["op"] == "replace"
        if isinstance(parent, dict) and place not in parent:
            raise KeyError(operation["path"])
        parent[place] = operation["value"]
