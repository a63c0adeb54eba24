"""Agents: statuses, hooks, fields and history."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from perdure import Message, StandardAgent
from perdure.errors import InvalidInputError


class Working(StandardAgent):
    async def on_running(self, msg: Message) -> Any:
        if msg.content == "fail":
            raise ValueError("as asked")
        return msg.content


async def test_a_message_is_answered_by_the_hook_of_the_status() -> None:
    """S1.14."""
    agent = Working("a", "u")
    assert agent.status == "INITIALIZING"
    assert await agent.reply(Message(content="hi", role="user")) == "hi"
    assert agent.status == "RUNNING"
    assert agent.history == [Message("user", "hi"), Message("assistant", "hi")]


@pytest.mark.parametrize(("status", "answer"), [
    ("RUNNING", "hi"), ("PAUSED", "hi"), ("ERROR", "hi"), ("WAITING_FOR_APPROVAL", None), ("COMPLETED", None),
    ("CANCELLED", None), ("WAITING_FOR_INPUT", "hi"),
])  # fmt: skip
async def test_every_status_has_its_hook(status: str, answer: str | None) -> None:
    assert await Working("a", "u", status=status).reply("hi") == answer


async def test_a_status_of_your_own_needs_its_hook() -> None:
    class Own(StandardAgent):
        def on_shipping(self, msg: Message) -> str:  # a plain function will do
            return "on its way"

    agent = Own("a", "u", status="SHIPPING")
    assert await agent.reply("where?") == "on its way"
    agent.status = "LOST"
    with pytest.raises(InvalidInputError, match=r"add `async def on_lost\(self, msg\)` to Own"):
        await agent.reply("where?")


async def test_an_answer_that_is_no_text_is_returned_as_it_is() -> None:
    class Counting(StandardAgent):
        async def on_running(self, msg: Message) -> dict[str, int]:
            return {"length": len(msg.content)}

    agent = Counting("a", "u")
    assert await agent.reply("four") == {"length": 4}
    assert agent.history == [Message("user", "four")]


async def test_missing_fields_are_asked_for_one_by_one() -> None:
    fields = ["city", {"name": "day", "prompt": "Which day?"}]
    agent = Working("a", "u", required_fields=fields)
    assert agent.missing_fields == ["city", "day"]
    assert await agent.reply("book a trip") == "Please give city."
    assert agent.status == "WAITING_FOR_INPUT"
    assert await agent.reply("Paris") == "Which day?"
    assert await agent.reply("Monday") == "Monday"
    assert (agent.status, agent.collected_fields) == ("RUNNING", {"city": "Paris", "day": "Monday"})


async def test_a_dict_gives_several_fields_at_once() -> None:
    agent = Working("a", "u", required_fields=["city", "day"])
    await agent.reply({"city": "Paris", "day": "Monday"})  # type: ignore[arg-type]
    assert (agent.status, agent.missing_fields) == ("RUNNING", [])


async def test_an_error_is_the_status_and_is_raised() -> None:
    agent = Working("a", "u")
    with pytest.raises(ValueError, match="as asked"):
        await agent.reply("fail")
    assert agent.status == "ERROR"
    assert await agent.reply("again") == "again"
    assert agent.status == "RUNNING"


async def test_the_base_class_can_be_used_as_it_is() -> None:
    assert await StandardAgent("a").reply("hi") is None


def test_a_status_is_text() -> None:
    class Status(Enum):
        DONE = "COMPLETED"

    agent = StandardAgent("a", "u")
    agent.status = Status.DONE  # type: ignore[assignment]
    assert agent.status == "COMPLETED"
    for wrong in (None, 3, ""):
        with pytest.raises(InvalidInputError, match="must be a str"):
            agent.status = wrong  # type: ignore[assignment]


def test_a_misspelt_attribute_is_a_plain_error() -> None:
    with pytest.raises(AttributeError, match=r"^'StandardAgent' object has no attribute 'statsu'$"):
        _ = StandardAgent("a", "u").statsu  # type: ignore[attr-defined]


def test_agents_do_not_share_their_fields() -> None:
    one, other = StandardAgent("a"), StandardAgent("b")
    one.collected_fields["x"] = 1
    assert (other.collected_fields, other.history, list(other.required_fields)) == ({}, [], [])
    assert repr(one) == "StandardAgent(agent_id='a', user_id='', status='INITIALIZING')"


def test_an_agent_without_an_id_gets_one_of_its_own() -> None:
    first, second = StandardAgent(user_id="ann"), StandardAgent(user_id="ann")
    assert first.agent_id
    assert second.agent_id not in ("", first.agent_id)
    assert (first.user_id, StandardAgent("a", "ann").agent_id) == ("ann", "a")
