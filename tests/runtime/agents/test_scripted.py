"""A scripted model goes on where the conversation is, fails, stalls and loops as it is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Model, Reply, ScriptedModel
from perdure.errors import InvalidInputError, ModelError


def after(turns: int) -> list[dict[str, str]]:
    return [{"role": role, "content": ""} for _ in range(turns) for role in ("user", "assistant")]


def texts(model: ScriptedModel, turns: range) -> list[Any]:
    replies = [model.reply_now(after(turn)) for turn in turns]
    return [reply.text or [(each.name, each.args) for each in reply.tool_calls] for reply in replies]


def test_the_answer_is_told_by_the_conversation_not_by_the_process() -> None:
    script = [("look", {"n": 1}), [("a", {}), ("b", {})], "done"]
    expected = [[("look", {"n": 1})], [("a", {}), ("b", {})], "done"]
    assert texts(ScriptedModel(script), range(3)) == expected
    assert [texts(ScriptedModel(script), range(turn, turn + 1))[0] for turn in range(3)] == expected
    assert isinstance(ScriptedModel([]), Model)


def test_calls_are_counted_and_requests_kept() -> None:
    model = ScriptedModel(["one", "two"])
    texts(model, range(2))
    assert (model.calls, [len(each) for each in model.requests]) == (2, [0, 2])


def test_a_loop_goes_on_for_ever() -> None:
    model = ScriptedModel(["first", ScriptedModel.loop("a", "b")])
    assert texts(model, range(5)) == ["first", "a", "b", "a", "b"]


def test_a_failure_comes_before_the_answer_and_the_last_one_stays() -> None:
    model = ScriptedModel([OSError("one"), ValueError("two"), "answer", KeyError("for ever")])
    for error in (OSError, ValueError):
        with pytest.raises(error):
            model.reply_now(after(0))
    assert model.reply_now(after(0)).text == "answer"
    for _ in range(3):
        with pytest.raises(KeyError):
            model.reply_now(after(1))


async def test_a_stalling_model_can_be_left() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ScriptedModel([ScriptedModel.stall(), "never"]).reply(after(0))
    assert (await ScriptedModel([ScriptedModel.stall(0.001), "late"]).reply(after(0))).text == "late"
    assert ScriptedModel([ScriptedModel.stall(0.001), "late"]).reply_now(after(0)).text == "late"


async def test_streams_give_words_and_then_the_reply() -> None:
    reply = Reply(text="one two")
    assert [item async for item in ScriptedModel([reply]).stream([])] == ["one", " two", reply]


def test_an_end_of_the_script_and_wrong_items_are_named() -> None:
    with pytest.raises(ModelError, match="has 1 answers, and was asked for number 2"):
        ScriptedModel(["one"]).reply_now(after(1))
    for wrong in (7, ("name",), [], ScriptedModel.loop(), ScriptedModel.loop(OSError())):
        with pytest.raises(InvalidInputError):
            ScriptedModel([wrong])


def test_a_reply_whose_calls_are_no_tool_calls_is_refused_when_it_is_made() -> None:
    wrong: Any = ("look", {})
    with pytest.raises(InvalidInputError, match="ToolCall"):
        Reply(tool_calls=[wrong])
