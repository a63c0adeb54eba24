"""What the loop asks of a model, and what a model answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from perdure.core.errors import InvalidInputError

Said = Mapping[str, Any]  # a message: role, content, and what its role brings


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]  # a JSON schema


class ToolCall(msgspec.Struct, frozen=True):
    """A tool that a model asks for; `args` as it gave them, right or wrong."""

    name: str
    args: Any
    id: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that an answer took."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0  # of the input, what the provider had cached


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answers: a text, tools that it asks for, or both."""

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    usage: Usage | None = None

    def __post_init__(self) -> None:
        calls: tuple[Any, ...] = tuple(self.tool_calls)
        wrong = next((each for each in calls if not isinstance(each, ToolCall)), None)
        if wrong is not None:
            raise InvalidInputError(f"tool_calls of a Reply are ToolCall(name, args, id), not {wrong!r}")
        msgspec.structs.force_setattr(self, "tool_calls", calls)


@runtime_checkable
class Model(Protocol):
    """Something that goes on with a conversation.

    `messages` are mappings with a `role` ("system", "user", "assistant", "tool") and a `content`; an assistant's may
    have `tool_calls` (`id`, `name`, `args`), a tool's has the `tool_call_id` that it answers and the `name` of the
    tool. An error that is raised ends the attempt; the run is tried again by its retries.

    Two more methods are used where a model has them: `stream`, with the same parameters, gives pieces of text as they
    come and the whole `Reply` at the end; `reply_now` is `reply` for `perdure.sync`, where nothing can be awaited.
    """

    async def reply(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema], settings: Mapping[str, Any]
    ) -> Reply:
        """The next answer."""
        ...


class StreamingModel(Model, Protocol):
    """A model that gives its text piece by piece."""

    def stream(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema], settings: Mapping[str, Any]
    ) -> AsyncIterator[str | Reply]: ...
