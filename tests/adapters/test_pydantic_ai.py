"""Models of Pydantic AI drive agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from perdure import Perdure, tool
from perdure.adapters.pydantic_ai import PydanticAIModel, history


@tool
async def look(city: str) -> dict[str, str]:
    """Look up the weather."""
    return {city: "fine"}


def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
    """Ask for the tool, then say what it gave."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"{info.model_settings}: {last.content}")])
    assert [each.name for each in info.function_tools] == ["look"]
    assert info.function_tools[0].parameters_json_schema == look.schema.parameters
    return ModelResponse(parts=[ToolCallPart("look", {"city": "Rome"}, "c1")])


async def pieces(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
    if isinstance(messages[-1].parts[-1], ToolReturnPart):
        yield "It is "
        yield "fine."
    else:
        yield {0: DeltaToolCall("look", '{"city":', tool_call_id="c1")}
        yield {0: DeltaToolCall(json_args=' "Rome"}')}


async def test_an_agent_asks_a_model_of_pydantic_ai() -> None:
    async with Perdure.open("memory://") as store:
        model = PydanticAIModel(FunctionModel(answer))
        agent = store.agent("a", model=model, tools=[look], instructions="Be kind.", settings={"temperature": 0.0})
        done = await agent.run("weather?", thread="t")
    assert done.text == '{\'temperature\': 0.0}: {"Rome":"fine"}'
    assert [each["role"] for each in done.messages] == ["user", "assistant", "tool", "assistant"]
    assert done.messages[-1]["usage"]["total_tokens"] > 0


async def test_streams_come_piece_by_piece() -> None:
    async with Perdure.open("memory://") as store:
        agent = store.agent("a", model=PydanticAIModel(FunctionModel(stream_function=pieces)), tools=[look])
        events = [each async for each in agent.stream("weather?", thread="t")]
    assert [each.text for each in events if each.kind == "text"] == ["It is ", "fine."]
    assert events[-1].result.text == "It is fine."


async def test_its_own_test_model_calls_every_tool() -> None:
    async with Perdure.open("memory://") as store:
        done = await store.agent("a", model=PydanticAIModel(TestModel()), tools=[look]).run("go", thread="t")
    assert [each["name"] for each in done.messages if each["role"] == "tool"] == ["look"]
    assert (bool(done), repr(PydanticAIModel("test"))) == (True, "PydanticAIModel('test:test')")


def test_a_conversation_is_given_in_its_words() -> None:
    said: list[Any] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": "ok", "tool_calls": [{"id": "c", "name": "look", "args": "no json"}]},
        {"role": "tool", "tool_call_id": "c", "name": "look", "content": "fine"},
        {"role": "user", "content": "and?"},
    ]
    kinds = [(type(each), [part.part_kind for part in each.parts]) for each in history(said)]
    assert kinds == [
        (ModelRequest, ["system-prompt", "user-prompt"]),
        (ModelResponse, ["text", "tool-call"]),
        (ModelRequest, ["tool-return", "user-prompt"]),
    ]
