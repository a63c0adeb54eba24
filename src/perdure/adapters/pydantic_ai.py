"""Any model of Pydantic AI as the model of an agent (extra `pydantic-ai`)."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from perdure.core.extras import check_releases, missing
from perdure.runtime.agents.conversation import shown_to_model
from perdure.runtime.agents.model import Reply, Said, ToolCall, ToolSchema, Usage
from perdure.runtime.agents.openai_wire import arguments_of

try:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        SystemPromptPart,
        TextPart,
        TextPartDelta,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.tools import ToolDefinition
except ImportError as exc:
    raise missing("perdure.adapters.pydantic_ai", "pydantic-ai") from exc
check_releases("perdure.adapters.pydantic_ai", "pydantic-ai")


class PydanticAIModel:
    """A model of Pydantic AI, or its name: `PydanticAIModel("anthropic:claude-sonnet-4-5")`.

    Keys and providers are Pydantic AI's. `settings` of the agent are its model settings.
    """

    def __init__(self, model: Model | str) -> None:
        self._model = infer_model(model)

    @property
    def name(self) -> str:
        """What the model is called."""
        return f"{self._model.system}:{self._model.model_name}"

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.name!r})"

    async def reply(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> Reply:
        """Ask, and give the answer."""
        return _reply(await self._model.request(history(messages), _settings(settings), _parameters(tools)))

    async def stream(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> AsyncIterator[str | Reply]:
        """Ask, and give the text as it comes, then the whole answer."""
        asked = self._model.request_stream(history(messages), _settings(settings), _parameters(tools))
        async with asked as response:
            async for event in response:
                text = _text(event)
                if text:
                    yield text
            whole = response.get()
        yield _reply(whole)


def history(messages: Sequence[Said]) -> list[Any]:
    """A conversation in Pydantic AI's words; what follows each other on our side is one request."""
    found: list[Any] = []
    for answers, group in groupby(messages, lambda said: said.get("role") == "assistant"):
        if answers:
            found += [ModelResponse(parts=_answered(said)) for said in group]
        else:
            found.append(ModelRequest(parts=[_asked(said) for said in group]))
    return found


def _asked(said: Said) -> Any:
    role, content = said.get("role"), said.get("content")
    text = content if isinstance(content, str) else shown_to_model(content)
    if role == "system":
        return SystemPromptPart(content=text)
    if role == "tool":
        return ToolReturnPart(tool_name=str(said.get("name", "")), content=text, tool_call_id=said["tool_call_id"])
    return UserPromptPart(content=text)


def _answered(said: Said) -> list[Any]:
    content = said.get("content")
    text = [TextPart(content=content if isinstance(content, str) else shown_to_model(content))] if content else []
    calls = said.get("tool_calls") or ()
    return [*text, *(ToolCallPart(each["name"], _given(each.get("args")), each["id"]) for each in calls)]


def _given(args: Any) -> Any:
    return args if isinstance(args, str | dict) else shown_to_model(args)


def _settings(settings: Mapping[str, Any] | None) -> Any:
    return dict(settings) if settings else None


def _parameters(tools: Sequence[ToolSchema]) -> ModelRequestParameters:
    known = [
        ToolDefinition(name=each.name, description=each.description, parameters_json_schema=each.parameters)
        for each in tools
    ]
    return ModelRequestParameters(function_tools=known)


def _text(event: Any) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _reply(response: ModelResponse) -> Reply:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [
        ToolCall(part.tool_name, arguments_of(part.args), part.tool_call_id)
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    usage = response.usage
    total = usage.input_tokens + usage.output_tokens
    spent = Usage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=total,
        cached_tokens=getattr(usage, "cache_read_tokens", 0) or 0,
    )  # fmt: skip
    return Reply(text=text, tool_calls=calls, usage=spent)
