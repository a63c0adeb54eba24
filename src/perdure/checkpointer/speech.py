"""Messages as they are given and as they come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.app.identity import new_message_id
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id
from perdure.core.message import Message


def as_messages(messages: Sequence[Any], metadata: Mapping[str, Any]) -> list[Message]:
    """Messages with an id each and with what is told of all of them; what a message says of itself wins."""
    if isinstance(messages, Message | Mapping | str):
        raise InvalidInputError("messages must be a list of messages, not a single one")
    return [_told(as_message(each), metadata) for each in messages]


def _told(message: Message, metadata: Mapping[str, Any]) -> Message:
    named = new_message_id() if message.id is None else check_id(message.id, "the message id")
    if named == message.id and not metadata:
        return message
    return msgspec.structs.replace(message, metadata={**metadata, **message.metadata}, id=named)


def as_message(value: Any) -> Message:
    """A message, also where it was kept as a mapping."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping) or "role" not in value:
        raise InvalidInputError(f"a message must be a Message or a mapping with a role, not {value!r}")
    answered = {"tool_call_id": value["tool_call_id"]} if "tool_call_id" in value else {}
    return Message(
        role=value["role"],
        content=value.get("content", ""),
        tools_calls=value.get("tools_calls", value.get("tool_calls")) or (),
        metadata={**answered, **(value.get("metadata") or {})},
        id=str(named) if isinstance(named := value.get("id"), int) else named,
    )
