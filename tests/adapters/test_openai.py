"""Answers of the OpenAI SDK are recorded, and come back as its own types."""

from __future__ import annotations

from typing import Any

import pytest
from openai import NOT_GIVEN, AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from perdure import Perdure, sync
from perdure.adapters.openai import journal
from perdure.errors import InvalidInputError
from tests.runtime.agents.chat_server import ChatServer, Fail
from tests.runtime.scenes import Killed

KEY = "sk-very-secret-1234567890"
SAID: list[Any] = [{"role": "user", "content": "hi"}]


def later(server: ChatServer) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0)


def at_once(server: ChatServer) -> OpenAI:
    return OpenAI(base_url=server.url, api_key=KEY, max_retries=0)


async def test_an_answer_is_recorded_and_after_a_crash_it_comes_back_as_it_was() -> None:
    with ChatServer("hello", [("look", {"city": "Rome"})]) as server:
        async with Perdure.open("memory://") as store, later(server) as own:

            async def turn(dies: bool) -> list[Any]:
                async with store.thread("t").run(key="k") as run:
                    client = journal(own, run)
                    one = await client.chat.completions.create(model="m", messages=SAID, temperature=0)
                    said = [*SAID, one.choices[0].message]  # objects of the SDK, as its users hand them on
                    two = await client.chat.completions.create(model="m", messages=said, timeout=9, tools=NOT_GIVEN)
                    if dies:
                        raise Killed
                return [one, two]

            with pytest.raises(Killed):
                await turn(True)
            one, two = await turn(False)
            seen = await store.thread("t").seen()
        assert len(server.asked) == 2
    assert (type(one), one.choices[0].message.content, one.usage.total_tokens) == (ChatCompletion, "hello", 15)
    assert two.choices[0].message.tool_calls[0].function.arguments == '{"city": "Rome"}'
    assert ([each["role"] for each in seen.messages], seen.settings) == (["user", "assistant"], {"model": "m"})


def test_a_synchronous_client_is_recorded_in_a_synchronous_run() -> None:
    with ChatServer("hello") as server, sync.Perdure.open("memory://") as store, at_once(server) as own:
        for _ in range(2):
            with store.thread("t").run(key="k") as run:
                made = journal(own, run).chat.completions.create(model="m", messages=SAID)
                assert (type(made), made.choices[0].message.content) == (ChatCompletion, "hello")
        assert len(server.asked) == 1


async def test_responses_are_recorded_too() -> None:
    with ChatServer("one", "two") as server:
        async with Perdure.open("memory://") as store, later(server) as own:
            for _ in range(2):
                async with store.thread("t").run(key="k") as run:
                    client = journal(own, run).with_options(timeout=20)
                    made = await client.responses.create(model="m", input="hi")
                    more = await client.responses.create(model="m", input=[{"role": "user", "content": "hi"}])
                    with pytest.raises(InvalidInputError, match="stream"):
                        await client.responses.create(model="m", input="hi", stream=True)
        assert (type(made), made.output_text, more.output_text, len(server.asked)) == (Response, "one", "two", 2)


async def test_a_stream_is_recorded_chunk_by_chunk() -> None:
    with ChatServer("It is fine.") as server:
        async with Perdure.open("memory://") as store, later(server) as own:
            for _ in range(2):
                async with store.thread("t").run(key="k") as run:
                    client = journal(own, run)
                    async with await client.chat.completions.create(model="m", messages=SAID, stream=True) as stream:
                        chunks = [each async for each in stream]
        assert len(server.asked) == 1
    said = [each.choices[0].delta.content for each in chunks if each.choices]
    assert ({type(each) for each in chunks}, said[:3]) == ({ChatCompletionChunk}, ["It i", "s fi", "ne."])


def test_a_synchronous_stream_is_recorded_too() -> None:
    with ChatServer("It is fine.") as server, sync.Perdure.open("memory://") as store, at_once(server) as own:
        for _ in range(2):
            with store.thread("t").run(key="k") as run:
                made = journal(own, run).chat.completions.create(model="m", messages=SAID, stream=True)
                with made as stream:
                    said = "".join(each.choices[0].delta.content or "" for each in stream if each.choices)
        assert (said, len(server.asked)) == ("It is fine.", 1)


async def test_keys_and_headers_are_not_recorded_and_errors_are_the_sdks_own() -> None:
    with ChatServer("ok", Fail(401)) as server:
        async with Perdure.open("memory://") as store, later(server) as own:
            async with store.thread("t").run() as run:
                client = journal(own, run)
                secret = {"X-Key": "another-secret"}
                await client.chat.completions.create(model="m", messages=SAID, extra_headers=secret)
                with pytest.raises(Exception, match="401"):
                    await client.chat.completions.create(model="m", messages=[*SAID, *SAID])
                assert client.base_url == own.base_url
            entries = [repr(each.payload) for each in await store.thread("t").entries()]
        assert server.asked[0].headers["x-key"] == "another-secret"
    assert [KEY in each or "another-secret" in each for each in entries] == [False] * len(entries)


async def test_clients_and_runs_that_do_not_fit_are_refused() -> None:
    with ChatServer() as server, at_once(server) as own:
        async with Perdure.open("memory://") as store, store.thread("t").run() as run:
            with pytest.raises(InvalidInputError, match=r"perdure\.sync"):
                journal(own, run)
            with pytest.raises(InvalidInputError, match="AsyncOpenAI"):
                journal(object(), run)  # type: ignore[type-var]
