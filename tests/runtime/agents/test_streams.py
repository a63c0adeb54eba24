"""Watching an agent: what it says comes piece by piece, is recorded, and is not said twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, Reply, ScriptedModel, tool
from perdure.app.store import parts_of
from tests.runtime.scenes import Killed


@tool
async def look(city: str) -> str:
    return f"{city}: fine"


SCRIPT = [("look", {"city": "Rome"}), "It is fine today."]


async def heard(agent: Any, **options: Any) -> list[Any]:
    return [event async for event in agent.stream("weather?", thread="t", **options)]


async def test_events_tell_text_tools_and_the_result_in_order() -> None:
    async with Perdure.open("memory://") as store:
        events = await heard(store.agent("helper", model=ScriptedModel(SCRIPT), tools=[look]))
    assert [(each.kind, each.text, each.name) for each in events] == [
        ("reply", "", ""), ("tool_call", "", "look"), ("tool_result", "Rome: fine", "look"), ("text", "It", ""),
        ("text", " is", ""), ("text", " fine", ""), ("text", " today.", ""), ("reply", "", ""), ("result", "", ""),
    ]  # fmt: skip
    assert (events[1].args, events[-1].result.text) == ({"city": "Rome"}, "It is fine today.")


async def test_pieces_are_read_from_outside_too() -> None:
    async with Perdure.open("memory://") as store:
        await heard(store.agent("helper", model=ScriptedModel(SCRIPT), tools=[look]))
        chunks = await store.thread("t").streamed()
    assert [item for chunk in chunks for item in chunk.items if isinstance(item, str)] == (
        ["It", " is", " fine", " today."]
    )


async def test_a_stream_that_was_cut_off_is_made_again_and_a_whole_one_is_not(tmp_path: Path) -> None:
    class Dying(ScriptedModel):
        dies = True

        async def stream(self, messages: Any, **given: Any) -> Any:
            async for item in super().stream(messages, **given):
                yield item
                if self.dies and item == " is":
                    raise Killed

    model = Dying(SCRIPT)
    async with Perdure.open(f"sqlite:///{tmp_path}/store.db") as store:
        agent = store.agent("helper", model=model, tools=[look])
        with pytest.raises(Killed):
            await heard(agent)
        model.dies = False
        assert [each.result for each in await store.recover()] == ["It is fine today."]
        assert model.calls == 3


async def test_a_model_that_does_not_stream_is_heard_as_a_whole() -> None:
    class Plain:
        async def reply(self, messages: Any, **given: Any) -> Reply:
            return Reply(text="all at once")

    async with Perdure.open("memory://") as store:
        events = await heard(store.agent("plain", model=Plain()))
    assert [(each.kind, each.text) for each in events[:2]] == [("text", "all at once"), ("reply", "")]


async def test_a_pause_ends_a_stream_and_the_next_one_goes_on() -> None:
    asks = tool(require_approval=True)(look.function)
    async with Perdure.open("memory://") as store:
        agent = store.agent("helper", model=ScriptedModel(SCRIPT), tools=[asks])
        waits = (await heard(agent))[-1].result
        assert waits.status == "input_required"
        await store.decide(waits.pauses[0], approved=True, by="ann")
        assert (await heard(agent))[-1].result.text == "It is fine today."


@pytest.mark.parametrize("first", ["stream", "run"])
async def test_the_same_prompt_goes_on_with_a_run_whether_anybody_listens_or_not(first: str) -> None:
    asks = tool(require_approval=True)(look.function)

    async def asked(agent: Any, how: str) -> Any:
        run = agent.run("weather?", thread="t")
        if how == "run":
            return await run
        run.close()
        return (await heard(agent))[-1].result

    async with Perdure.open("memory://") as store:
        agent = store.agent("helper", model=ScriptedModel(SCRIPT), tools=[asks])
        waits = await asked(agent, first)
        await store.decide(waits.pauses[0], approved=True, by="ann")
        done = await asked(agent, "run" if first == "stream" else "stream")
    assert (done.text, done.run.id) == ("It is fine today.", waits.run.id)
    assert [each["role"] for each in done.messages] == ["user", "assistant", "tool", "assistant"]


async def test_an_answer_that_was_heard_to_its_end_is_not_asked_for_again_by_somebody_else(tmp_path: Path) -> None:
    async with Perdure.open(f"sqlite:///{tmp_path}/store.db") as store:
        model = ScriptedModel(["It is fine today."])
        agent = store.agent("helper", model=model)
        storage = parts_of(store).storage
        append = storage.append

        async def dying(write: Any) -> Any:
            done = await append(write)
            if [entry.kind.value for entry in write.entries] == ["step.finished"]:
                raise Killed
            return done

        storage.append = dying
        with pytest.raises(Killed):
            await heard(agent)
        storage.append = append
        assert ((await agent.resume("t")).text, model.calls) == ("It is fine today.", 1)


async def test_whoever_stops_listening_lets_go_of_the_run() -> None:
    async with Perdure.open("memory://") as store:
        agent = store.agent("helper", model=ScriptedModel(SCRIPT), tools=[look])
        events = agent.stream("weather?", thread="t")
        async for event in events:
            if event.kind == "tool_result":
                break
        await events.aclose()
        assert [each.result for each in await store.recover()] == ["It is fine today."]


async def test_what_the_model_raises_reaches_the_listener() -> None:
    async with Perdure.open("memory://") as store:
        agent = store.agent("helper", model=ScriptedModel([OSError("down")]))
        with pytest.raises(OSError, match="down"):
            await heard(agent)
