"""The messages of a conversation: how the loop writes them, and how a model is given them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.history import INTERRUPTED
from perdure.core.message import Message, thawed
from perdure.core.record import Record
from perdure.runtime.agents.model import Reply, ToolCall

PATH = "messages"


def asked_by_user(prompt: Any) -> dict[str, Any]:
    """A prompt as a message; one that is a message already stays as it is."""
    return dict(prompt) if isinstance(prompt, Mapping) and "role" in prompt else {"role": "user", "content": prompt}


def answered_by_model(reply: Reply, turn: int) -> dict[str, Any]:
    """A reply as the message that is kept. Calls that a provider gave no id get one."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or ""}
    if reply.tool_calls:
        calls = enumerate(reply.tool_calls)
        message["tool_calls"] = [
            {"id": each.id or f"call_{turn}_{at}", "name": each.name, "args": each.args} for at, each in calls
        ]
    if reply.usage is not None:
        usage = msgspec.structs.asdict(reply.usage)
        message["usage"] = {name: count for name, count in usage.items() if count or name != "cached_tokens"}
    return message


def calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    """The tools that a kept message asks for."""
    return [ToolCall(each["name"], each["args"], each["id"]) for each in message.get("tool_calls", ())]


def result_of(call: ToolCall, content: str, *, is_error: bool = False) -> dict[str, Any]:
    """What came of a call, as a message."""
    told = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}
    return {**told, "is_error": True} if is_error else told


def shown_to_model(value: Any) -> str:
    """A tool's result as the text that a model reads."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, set | frozenset | range) else str(value)


def for_model(messages: Iterable[Any], instructions: str | None) -> list[dict[str, Any]]:
    """A conversation as providers accept it: every call is followed by its results and nothing else.

    Somebody may have written into the conversation while a tool was under way, or a crash left a call without a result.
    """
    groups: list[_Group] = []
    for message in map(_as_mapping, messages):
        if message.get("role") == "tool":
            _put(groups, message)
        else:
            groups.append(_Group(message))
    system = [{"role": "system", "content": instructions}] if instructions else []
    return [*system, *(each for group in groups for each in group.closed())]


class _Group:
    """A message, and the results of the calls that it makes."""

    def __init__(self, message: dict[str, Any]) -> None:
        self._message = message
        self._calls = _calls(message)
        self._results: dict[str, dict[str, Any]] = {}

    def takes(self, result: Mapping[str, Any]) -> bool:
        call = result.get("tool_call_id")
        return call in self._calls and call not in self._results

    def put(self, result: dict[str, Any]) -> None:
        self._results[result["tool_call_id"]] = result

    def closed(self) -> list[dict[str, Any]]:
        lost = ({"role": "tool", "tool_call_id": each, "name": name, "content": INTERRUPTED}
                for each, name in self._calls.items() if each not in self._results)  # fmt: skip
        ordered = [self._results[each] for each in self._calls if each in self._results]
        return [self._message, *ordered, *lost]


def _put(groups: Sequence[_Group], result: dict[str, Any]) -> None:
    for group in reversed(groups):
        if group.takes(result):
            group.put(result)
            return  # a second result of the same call is left out: providers refuse it


def _calls(message: Mapping[str, Any]) -> dict[str, str]:
    calls = [each for each in message.get("tool_calls") or () if isinstance(each, Mapping)]
    return {each["id"]: str(each.get("name", "")) for each in calls if isinstance(each.get("id"), str)}


def _as_mapping(message: Any) -> dict[str, Any]:
    """A message of whatever class as a mapping."""
    if isinstance(message, Message):
        given = {"role": message.role, "content": thawed(message.content)}
        calls = {"tool_calls": thawed(message.tools_calls)} if message.tools_calls else {}
        answers = {name: message.metadata[name] for name in ("tool_call_id", "name") if name in message.metadata}
        return {**given, **calls, **answers}
    if isinstance(message, Mapping | Record):
        return dict(message)
    return {"role": "user", "content": str(message)}
