"""The values of a checkpoint as JSON data that any database can keep, and back, losslessly.

Text, numbers, lists and dicts look as they are; what JSON cannot carry is tagged as `core.render` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from perdure.core.codec import decode, encode
from perdure.core.errors import InvalidInputError
from perdure.core.message import Message, thawed
from perdure.core.render import CannotRead, from_json, to_json

_BARE = Message(role="", content="")
_NOT_OURS = (CannotRead, OverflowError, RecursionError, UnicodeEncodeError)


def shown(value: object, what: str) -> Any:
    """A value as JSON data; raise `UnsupportedValueError` naming the part of `what` that cannot be kept."""
    return msgspec.json.decode(to_json(encode(value, root=what)))


def meant(data: Any) -> Any:
    """The value that was shown. Data somebody made by other means, of values that JSON has not, is taken as it is."""
    try:
        return decode(from_json(msgspec.json.encode(data))) if _is_json(data) else data
    except _NOT_OURS:
        return data


def shown_history(history: Iterable[object]) -> list[dict[str, Any]]:
    """Messages as dicts with a role and a content; anything else as a dict with a value."""
    return [
        _shown_message(each) if isinstance(each, Message) else {"value": shown(each, "history")} for each in history
    ]


def meant_history(data: Iterable[Any]) -> list[Any]:
    """The history that was shown."""
    return [_meant_item(each) for each in data]


def moment(value: object) -> datetime:
    """A point in time from a datetime or its ISO text; raise `InvalidInputError` for anything else."""
    try:
        return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as exc:
        raise InvalidInputError(f"the timestamp of a checkpoint must be a datetime or ISO text, not {value!r}") from exc


def _shown_message(message: Message) -> dict[str, Any]:
    given = {name: getattr(message, name) for name in Message.__struct_fields__}
    return {
        name: shown(thawed(value), f"message.{name}")
        for name, value in given.items()
        if name in ("role", "content") or value != getattr(_BARE, name)
    }


def _meant_item(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return meant(item)
    if "role" in item and "content" in item:
        return Message(**{name: meant(item[name]) for name in Message.__struct_fields__ if name in item})
    return meant(item["value"] if len(item) == 1 and "value" in item else dict(item))


def _is_json(data: Any) -> bool:
    kind = type(data)
    if kind is dict:
        return all(type(key) is str for key in data) and all(map(_is_json, data.values()))
    if kind is list:
        return all(map(_is_json, data))
    return kind in (str, int, bool, type(None)) or (kind is float and isfinite(data))
