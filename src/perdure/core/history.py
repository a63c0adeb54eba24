"""Histories that a model accepts: every tool call is answered.

A process that died between a call and its result leaves the call open, and model providers refuse such a history. It is
closed with a result that says so: nobody knows whether the tool ran.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.message import CALL_BLOCKS, Message

INTERRUPTED = "interrupted: no result of this call was recorded; it may or may not have run"
_REPAIRED = {"repaired": True, "is_error": True}
_RESULT = "tool_result"


class Orphan(msgspec.Struct, frozen=True):
    """A tool call without a result."""

    at: int  # the index of the message that makes the call
    call_id: str
    name: str


def orphans(messages: Sequence[Any]) -> list[Orphan]:
    """The calls that no later message answers, wherever it stands."""
    later: set[str] = set()
    found: list[Orphan] = []
    for at in range(len(messages) - 1, -1, -1):
        calls = _calls(messages[at])
        found += [Orphan(at, call, name) for call, name in reversed(calls) if call not in later]
        later.update(_answers(messages[at]))
    return found[::-1]


class Mended(msgspec.Struct, frozen=True):
    """A history without open calls."""

    messages: list[Any]
    open_calls: list[Orphan]
    results: list[Any]  # those that close them, in order


def mended(messages: Sequence[Any], only: Collection[str] | None = None) -> Mended:
    """Close every open call in its place, or only those of these ids."""
    open_calls = [each for each in orphans(messages) if only is None or each.call_id in only]
    results = [closed_by(each, messages[each.at]) for each in open_calls]
    added: dict[int, list[Any]] = {}
    for orphan, result in zip(open_calls, results, strict=True):
        added.setdefault(_place(messages, orphan.at), []).append(result)
    made = [each for at, message in enumerate(messages) for each in (message, *added.get(at, ()))]
    return Mended(made, open_calls, results)


def closed_by(orphan: Orphan, message: Any) -> Any:
    """The result that closes a call, in the words of the message that made it: providers refuse fields of others."""
    if isinstance(message, Message):
        told = {"tool_call_id": orphan.call_id, "name": orphan.name, **_REPAIRED}
        return Message(role="tool", content=INTERRUPTED, metadata=told, id=f"repaired-{orphan.call_id}")
    if any(block.get("id") == orphan.call_id for block in _blocks(message)):
        block = {"type": _RESULT, "tool_use_id": orphan.call_id, "content": INTERRUPTED, "is_error": True}
        return {"role": "user", "content": [block]}
    told = {"metadata": dict(_REPAIRED)} if _field(message, "metadata") is not None else {}
    return {"role": "tool", "tool_call_id": orphan.call_id, "name": orphan.name, "content": INTERRUPTED, **told}


def _place(messages: Sequence[Any], at: int) -> int:
    """After a call and the messages that directly follow it and are nothing but results."""
    while at + 1 < len(messages) and is_result(messages[at + 1]):
        at += 1
    return at


def is_result(message: Any) -> bool:
    blocks = _blocks(message)
    others = [block for block in blocks if block.get("type") != _RESULT]
    return bool(_answers(message)) and (_field(message, "role") == "tool" or (bool(blocks) and not others))


def _calls(message: Any) -> list[tuple[str, str]]:
    """The tool calls a message makes: their ids and names."""
    if _field(message, "role") == "tool":
        return []
    calls = _field(message, "tools_calls") or _field(message, "tool_calls")
    blocks = [block for block in _blocks(message) if block.get("type") in CALL_BLOCKS]
    found = [*_mappings(calls), *blocks]
    return [(call, _name(each)) for each in found if isinstance(call := each.get("id"), str)]


def _name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    name = call.get("name") or (function.get("name") if isinstance(function, Mapping) else None)
    return name if isinstance(name, str) else ""


def _answers(message: Any) -> list[str]:
    """The ids of the calls that a message answers."""
    metadata = _field(message, "metadata")
    told = metadata.get("tool_call_id") if isinstance(metadata, Mapping) else None
    direct = _field(message, "tool_call_id") or told
    names = ("tool_use_id", "call_id", "tool_call_id")
    blocks = [block.get(name) for block in _blocks(message) if block.get("type") == _RESULT for name in names]
    return [each for each in (direct, *blocks) if isinstance(each, str)]


def _blocks(message: Any) -> list[Mapping[str, Any]]:
    return _mappings(_field(message, "content"))


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
