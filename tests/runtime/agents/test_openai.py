"""A model behind an OpenAI-compatible server: asked, streamed, tried again, and its key never told."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from perdure import OpenAICompatible, Perdure, Reply, ToolCall, Usage, sync, tool
from perdure.errors import InvalidInputError, ModelError, ModelRefusedError, ModelUnavailableError
from tests.runtime.agents.chat_server import ChatServer as chat
from tests.runtime.agents.chat_server import Cut, Fail, Raw, Stall

KEY = "sk-very-secret-1234567890"
USAGE = Usage(input_tokens=11, output_tokens=4, total_tokens=15)
SAID: list[Any] = [{"role": "user", "content": "hi"}]


def model(server: Any, **options: Any) -> OpenAICompatible:
    return OpenAICompatible("m", base_url=server.url, api_key=KEY, wait=0.001, **options)


@tool
async def look(city: str) -> str:
    """Look up the weather."""
    return f"{city}: fine"


async def test_an_agent_speaks_with_the_server_in_its_words() -> None:
    with chat([("look", {"city": "Rome"})], "Fine.") as server:
        async with Perdure.open("memory://") as store:
            agent = store.agent("a", model=model(server), tools=[look], settings={"temperature": 0}, instructions="Go.")
            done = await agent.run("weather?", thread="t")
    call = {"id": "c0", "type": "function", "function": {"name": "look", "arguments": '{"city":"Rome"}'}}
    assert (done.text, server.asked[1].path) == ("Fine.", "/v1/chat/completions")
    assert server.asked[1].body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Go."},
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c0", "content": "Rome: fine"},
        ],
        "temperature": 0,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Look up the weather.",
                    "parameters": look.schema.parameters,
                },
            }
        ],
    }
    assert [each["usage"]["total_tokens"] for each in done.messages if "usage" in each] == [15, 15]


async def test_an_answer_has_text_calls_and_usage() -> None:
    with chat([("a", {"n": 1}), ("b", "no json")], "text") as server:
        assert await model(server).reply(SAID) == Reply(
            tool_calls=[ToolCall("a", {"n": 1}, "c0"), ToolCall("b", "no json", "c1")], usage=USAGE
        )
        assert model(server).reply_now(SAID) == Reply(text="text", usage=USAGE)


async def test_streams_give_pieces_and_add_up_to_the_same_answer() -> None:
    with chat("It is fine.", [("a", {"n": 1}), ("b", {"m": [2, 3]})]) as server:
        assert [item async for item in model(server).stream(SAID)] == [
            "It i", "s fi", "ne.", Reply(text="It is fine.", usage=USAGE),
        ]  # fmt: skip
        calls = [ToolCall("a", {"n": 1}, "c0"), ToolCall("b", {"m": [2, 3]}, "c1")]
        assert [item async for item in model(server).stream(SAID)] == [Reply(tool_calls=calls, usage=USAGE)]


async def test_what_may_pass_is_tried_again() -> None:
    with chat(Fail(429), Fail(503), Fail(500, "oops"), "ok", Fail(500), "ok", Fail(502), "ok") as server:
        assert (await model(server).reply(SAID)).text == "ok"
        assert model(server).reply_now(SAID).text == "ok"
        assert "ok" in [item async for item in model(server).stream(SAID)]
        assert len(server.asked) == 8


async def test_a_server_says_when_to_come_back() -> None:
    with chat(Fail(429, headers={"retry-after": "0.01"}), Fail(429, headers={"retry-after": "soon"}), "ok") as server:
        assert (await model(server).reply(SAID)).text == "ok"


async def test_a_server_that_stays_down_is_named_with_its_status() -> None:
    answers = [Fail(503, {"error": {"message": "overloaded"}})] * 2
    with chat(*answers) as server, pytest.raises(ModelUnavailableError, match="status 503: overloaded") as raised:
        await model(server, attempts=2).reply(SAID)
    assert (raised.value.status, isinstance(raised.value, ConnectionError)) == (503, True)
    with pytest.raises(ModelUnavailableError, match="connect"):
        await model(server, attempts=2).reply(SAID)
    with pytest.raises(ModelUnavailableError):
        model(server, attempts=1).reply_now(SAID)


async def test_a_server_that_stalls_is_left() -> None:
    with chat(Stall(1), "ok") as server:
        assert (await model(server, timeout=0.2).reply(SAID)).text == "ok"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Fail(401), "OPENAI_API_KEY"),
        (Fail(404), "check the model and base_url"),
        (Fail(400), "correct the messages, tools or settings"),
        (Fail(429, {"error": {"message": "used up", "code": "insufficient_quota"}}), "budget"),
        (Fail(418), "correct the request"),
    ],
)
async def test_what_the_server_refuses_is_not_tried_again_and_advice_is_given(answer: Fail, said: str) -> None:
    with chat(answer) as server, pytest.raises(ModelRefusedError, match=said) as raised:
        await model(server).reply(SAID)
    assert (raised.value.status, f"status {answer.status}" in str(raised.value)) == (answer.status, True)


@pytest.mark.parametrize("answer", [Raw(b"<html>"), Raw(b"[]"), Raw(b"{}"), Raw(b'{"choices": []}')])
async def test_an_answer_that_is_none_is_told(answer: Raw) -> None:
    with chat(answer) as server, pytest.raises(ModelError, match="its answer"):
        await model(server).reply(SAID)


@pytest.mark.parametrize("answer", [Cut("It is"), Raw(b'data: {"error": {"message": "gone"}}\n\n')])
async def test_a_stream_that_is_cut_off_is_no_answer(answer: Any) -> None:
    with chat(answer) as server, pytest.raises(ModelUnavailableError):
        async for _ in model(server).stream(SAID):
            pass


async def test_the_key_is_sent_and_never_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"bad key {KEY}"}}
    with chat("ok", Fail(401, echo), Fail(500, echo), Fail(500, echo)) as server:
        async with Perdure.open("memory://") as store:
            agent = store.agent("a", model=model(server, attempts=2), retry=1)
            await agent.run("hi", thread="t")
            with pytest.raises(ModelRefusedError) as refused:
                await agent.run("hi again", thread="t")
            with pytest.raises(ModelUnavailableError) as failed:
                await agent.run("once more", thread="t", key="k")
            entries = [each.payload for each in await store.thread("t").entries()]
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    told = [str(refused.value), str(failed.value), repr(model(server)), caplog.text, *map(repr, entries)]
    assert [KEY in each for each in told] == [False] * len(told)


async def test_the_key_comes_from_the_environment_and_a_client_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    with chat("ok", "ok") as server:
        async with httpx.AsyncClient() as client:
            for _ in range(2):
                await OpenAICompatible("m", base_url=server.url + "/", client=client).reply(SAID)
        assert [each.headers["authorization"] for each in server.asked] == ["Bearer from-the-environment"] * 2


async def test_a_streamed_agent_is_recorded_piece_by_piece() -> None:
    with chat([("look", {"city": "Rome"})], "It is fine.") as server:
        async with Perdure.open("memory://") as store:
            agent = store.agent("a", model=model(server), tools=[look])
            events = [each async for each in agent.stream("weather?", thread="t")]
            streamed = [item for chunk in await store.thread("t").streamed() for item in chunk.items]
    assert [each.text for each in events if each.kind == "text"] == ["It i", "s fi", "ne."]
    assert [each for each in streamed if isinstance(each, str)] == ["It i", "s fi", "ne."]


def test_synchronous_agents_ask_it_too() -> None:
    with chat("ok") as server, sync.Perdure.open("memory://") as store:
        assert store.agent("a", model=model(server)).run("hi", thread="t").text == "ok"


async def test_what_cannot_be_sent_or_reached_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="base_url"):
        OpenAICompatible("m", base_url="ftp://host")
    with chat() as server, pytest.raises(InvalidInputError, match="JSON"):
        await model(server).reply(SAID, settings={"odd": object()})
    assert "pass" not in repr(OpenAICompatible("m", base_url="http://user:pass@host/v1"))
