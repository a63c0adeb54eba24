"""Edits of a state as JSON Patch (RFC 6902), on the state as `core.render` shows it.

A state of text, numbers, lists and dicts is its own rendering. What JSON has no word for is an object with one key that
starts with `$`, and so is an object of a registered class, whose fields are at `/$object/2`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.render import to_json

OBJECT = ("$object", 2)  # where the fields of an opened object are

Token = str | int
Pointer = tuple[Token, ...]


def rendered(value: Raw) -> Any:
    """A value as JSON has it."""
    return msgspec.json.decode(to_json(bytes(value)))


def key(name: str) -> str:
    """The key under which a dict's key is found: one that starts with `$` gets a second one."""
    return f"${name}" if name[:1] == "$" else name


def replaced(at: Pointer, old: Raw | None, new: Raw | None) -> dict[str, Any]:
    """The operation for one place, where None is nothing."""
    if new is None:
        return {"op": "remove", "path": pointer(at)}
    return {"op": "add" if old is None else "replace", "path": pointer(at), "value": rendered(new)}


def spliced(at: Pointer, start: int, removed: list[Raw], added: list[Raw]) -> Iterable[dict[str, Any]]:
    """The operations for a range of a list, one for each item."""
    both = min(len(removed), len(added))
    for index in range(both):
        yield replaced((*at, start + index), removed[index], added[index])
    for _ in removed[both:]:
        yield replaced((*at, start + both), removed[both], None)
    for index, item in enumerate(added[both:], start + both):
        yield replaced((*at, index), None, item)


def pointer(at: Pointer) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in at)
