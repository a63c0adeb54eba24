"""Conversations in the words of OpenAI's chat completions, which many servers speak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.errors import ModelError
from perdure.runtime.agents.conversation import shown_to_model
from perdure.runtime.agents.model import Reply, Said, ToolCall, ToolSchema, Usage


def request_of(
    model: str, messages: Iterable[Said], tools: Sequence[ToolSchema], settings: Mapping[str, Any], *, stream: bool
) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = {"model": model, "messages": [_message(each) for each in messages], **settings}
    if tools:
        body["tools"] = [{"type": "function", "function": msgspec.to_builtins(each)} for each in tools]
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _message(said: Said) -> dict[str, Any]:
    role, content = str(said.get("role", "user")), said.get("content")
    content = content if isinstance(content, str | list) or content is None else shown_to_model(content)
    if role == "tool":
        return {"role": role, "tool_call_id": said.get("tool_call_id"), "content": content or ""}
    calls = [_call(each) for each in said.get("tool_calls") or ()]
    return {"role": role, "content": content or None, "tool_calls": calls} if calls else {
        "role": role, "content": content or ""}  # fmt: skip


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    if "function" in call:
        return dict(call)
    args = call.get("args")
    # What was no JSON when the model gave it goes back as it came.
    arguments = args if isinstance(args, str) else msgspec.json.encode(args).decode()
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def reply_of(body: Any, name: str) -> Reply:
    """The answer in a response; raise `ModelError` when it has none."""
    try:
        message = body["choices"][0]["message"]
        calls = [_asked(each["id"], each["function"]) for each in message.get("tool_calls") or ()]
        text = message.get("content") or message.get("refusal") or ""
    except (KeyError, IndexError, TypeError, AttributeError) as exc:
        raise ModelError(name, f"its answer has no message: {shown_to_model(body)[:200]}") from exc
    return Reply(text=text, tool_calls=calls, usage=usage_of(body.get("usage")))


def usage_of(usage: Any) -> Usage | None:
    """The tokens that a response tells of."""
    if not isinstance(usage, Mapping):
        return None
    given, made = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") or 0 if isinstance(details, Mapping) else 0
    total = usage.get("total_tokens") or given + made
    return Usage(input_tokens=given, output_tokens=made, total_tokens=total, cached_tokens=cached)


def _asked(call_id: Any, function: Mapping[str, Any]) -> ToolCall:
    return ToolCall(str(function["name"]), arguments_of(function.get("arguments")), str(call_id or ""))


def arguments_of(text: Any) -> Any:
    """Arguments as the model wrote them: an object, or the text itself when it is no JSON."""
    if not text:
        return {}
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


class Pieces:
    """A reply that comes piece by piece."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: Usage | None = None
        self.is_whole = False  # the model said that it is done

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take a chunk, and give the text in it."""
        self._usage = usage_of(chunk.get("usage")) or self._usage
        for choice in chunk.get("choices") or ():
            self.is_whole = self.is_whole or choice.get("finish_reason") is not None
            delta = choice.get("delta") or {}
            for part in delta.get("tool_calls") or ():
                self._add_call(part)
            text = delta.get("content") or ""
            self._text.append(text)
            return text
        return ""

    def _add_call(self, part: Mapping[str, Any]) -> None:
        at = part.get("index")
        call = self._calls.setdefault(at if at is not None else len(self._calls), {"id": "", "name": "", "args": ""})
        function = part.get("function") or {}
        call["id"] = part.get("id") or call["id"]
        call["name"] += function.get("name") or ""
        call["args"] += function.get("arguments") or ""

    def reply(self) -> Reply:
        """What they add up to."""
        calls = [
            ToolCall(each["name"], arguments_of(each["args"]), each["id"]) for _, each in sorted(self._calls.items())
        ]
        return Reply(text="".join(self._text), tool_calls=calls, usage=self._usage)
