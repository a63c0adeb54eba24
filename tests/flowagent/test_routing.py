"""Who gets a conversation, and who keeps it: several agents, several users, restarts in between."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    CheckpointManager,
    InMemoryCheckpointStorage,
    Message,
    ModelRouter,
    Orchestrator,
    ScriptedModel,
    SQLiteCheckpointStorage,
    StandardAgent,
)
from perdure.errors import InvalidInputError, NotFoundError
from perdure.testing.servers import require, shared_postgres


class Weather(StandardAgent):
    """Tells the weather of a city."""

    required_fields = ({"name": "city", "prompt": "Which city?"},)

    def can_handle(self, msg: Message) -> bool:
        return "weather" in str(msg.content)

    async def on_running(self, msg: Message) -> str:
        self.status = "COMPLETED"
        return f"{self.user_id}: rain in {self.collected_fields['city']}"


class Booking(StandardAgent):
    """Books hotels."""

    required_fields = (
        {"name": "city", "prompt": "Which city?", "choices": ["Paris", "Rome"]},
        {"name": "nights", "type": "integer", "min": 1, "max": 14},
        {"name": "mail", "type": "email"},
    )

    async def on_running(self, msg: Message) -> str:
        self.status = "COMPLETED"
        return f"{self.user_id}: {self.collected_fields['nights']} nights in {self.collected_fields['city']}"


async def test_the_first_agent_that_can_handle_a_message_keeps_the_conversation_until_it_is_completed() -> None:
    orchestrator = Orchestrator([Weather, Booking])
    assert await orchestrator.handle_message("ann", "a hotel") == "Which city? (Paris, Rome)".replace(
        " (Paris, Rome)", ""
    )
    assert (
        await orchestrator.handle_message("ann", "how is the weather")
        == "'how is the weather' is none of Paris, Rome. Which city?"
    )
    assert await orchestrator.handle_message("ann", "rome") == "Please give nights."
    assert await orchestrator.handle_message("ann", "3") == "Please give mail."
    assert await orchestrator.handle_message("ann", "ann@example.org") == "ann: 3 nights in Rome"
    assert orchestrator.active("ann") is None
    assert await orchestrator.handle_message("ann", "and the weather?") == "Which city?"
    assert type(orchestrator.active("ann")) is Weather


@pytest.mark.parametrize(
    ("given", "problem"),
    [("0", "At least 1, please."), ("15", "At most 14, please."), ("many", "'many' is no whole number.")],
)
async def test_a_value_that_does_not_fit_is_asked_for_again(given: str, problem: str) -> None:
    orchestrator = Orchestrator([Booking])
    for message in ("hello", "Paris"):
        await orchestrator.handle_message("ann", message)
    assert await orchestrator.handle_message("ann", given) == f"{problem} Please give nights."
    agent = orchestrator.active("ann")
    assert agent is not None
    assert (agent.collected_fields, agent.status) == ({"city": "Paris"}, "WAITING_FOR_INPUT")


async def test_an_agent_may_check_its_fields_itself() -> None:
    class Even(StandardAgent):
        required_fields = ("number",)

        async def validate_field(self, name: str, value: Any) -> int:
            if int(value) % 2:
                raise ValueError("An even number, please.")
            return int(value)

        async def on_running(self, msg: Message) -> int:
            return self.collected_fields["number"]

    orchestrator = Orchestrator([Even])
    await orchestrator.handle_message("ann", "hello")
    assert await orchestrator.handle_message("ann", "3") == "An even number, please. Please give number."
    assert await orchestrator.handle_message("ann", "4") == 4


async def test_a_rule_routes() -> None:
    def rule(message: Message, agents: Sequence[StandardAgent]) -> Any:
        return {"b": "Booking", "w": Weather, "x": "Nobody"}.get(str(message.content))

    orchestrator = Orchestrator([Weather, Booking], router=rule)
    await orchestrator.handle_message("u1", "b")
    await orchestrator.handle_message("u2", "w")
    await orchestrator.handle_message("u3", "the weather")  # the rule has no opinion: the agents are asked
    assert [type(orchestrator.active(user)) for user in ("u1", "u2", "u3")] == [Booking, Weather, Weather]
    with pytest.raises(NotFoundError, match="agent 'Nobody', which the router named"):
        await orchestrator.handle_message("u4", "x")


async def test_a_model_routes_and_what_it_makes_up_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    orchestrator = Orchestrator([Weather, Booking], router=ModelRouter(ScriptedModel(["Booking"])))
    await orchestrator.handle_message("u1", "the weather")
    assert type(orchestrator.active("u1")) is Booking
    chatty = ScriptedModel(["The best one is the Weather agent!"])
    orchestrator = Orchestrator([Weather, Booking], router=ModelRouter(chatty))
    await orchestrator.handle_message("u2", "the weather")
    assert type(orchestrator.active("u2")) is Weather
    assert "named no agent" in caplog.text


async def test_nobody_can_handle_it() -> None:
    with pytest.raises(NotFoundError, match="an agent that can handle this message of user 'ann'"):
        await Orchestrator([Weather]).handle_message("ann", "a hotel")
    with pytest.raises(InvalidInputError, match="router must be a function"):
        Orchestrator([Weather], router="Weather")  # type: ignore[arg-type]


async def test_an_agent_without_a_user_serves_everybody_with_a_copy() -> None:
    orchestrator = Orchestrator([Booking(agent_id="booking")])
    await orchestrator.handle_message("ann", "hello")
    await orchestrator.handle_message("bob", "hello")
    await orchestrator.handle_message("ann", "Paris")
    ann, bob = orchestrator.active("ann"), orchestrator.active("bob")
    assert ann is not None
    assert bob is not None
    assert (ann.collected_fields, bob.collected_fields, len(bob.history)) == ({"city": "Paris"}, {}, 2)


async def test_after_a_restart_the_agent_of_the_conversation_goes_on(tmp_path: Path) -> None:
    for message, expected in (
        ("a hotel", "Which city?"), ("Paris", "Please give nights."), ("2", "Please give mail."),
        ("a@b.org", "ann: 2 nights in Paris"), ("another", "Which city?"),
    ):  # fmt: skip
        async with SQLiteCheckpointStorage(tmp_path / "c.db") as storage:  # a new process each time
            manager = CheckpointManager(storage)
            orchestrator = Orchestrator([Weather, Booking], checkpoint_manager=manager, auto_checkpoint=True)
            assert await orchestrator.handle_message("ann", message) == expected


async def test_a_message_that_is_sent_again_gets_its_answer_again() -> None:
    manager = CheckpointManager(InMemoryCheckpointStorage())
    orchestrator = Orchestrator([Booking], checkpoint_manager=manager, auto_checkpoint=True)
    message = Message("user", "a hotel", id="m1")
    first = await orchestrator.handle_message("ann", message)
    saved = len(await manager.list_by_user("ann"))
    assert await orchestrator.handle_message("ann", message) == first == "Which city?"
    again = Orchestrator([Booking], checkpoint_manager=manager, auto_checkpoint=True)
    assert await again.handle_message("ann", message) == first
    assert len(await manager.list_by_user("ann")) == saved


async def test_messages_of_one_user_are_handled_in_their_order_and_users_at_the_same_time() -> None:
    at_work: list[str] = []

    class Slow(StandardAgent):
        async def on_running(self, msg: Message) -> str:
            at_work.append(f"{self.user_id} begins {msg.content}")
            await asyncio.sleep(0.01)
            at_work.append(f"{self.user_id} ends {msg.content}")
            return str(msg.content)

    orchestrator = Orchestrator([Slow])
    await asyncio.gather(*(orchestrator.handle_message(user, str(at)) for at in range(3) for user in ("ann", "bob")))
    assert at_work[:2] == ["ann begins 0", "bob begins 0"]
    assert [each for each in at_work if each.startswith("ann")] == [
        f"ann {what} {at}" for at in range(3) for what in ("begins", "ends")
    ]


async def test_no_message_reaches_the_agent_of_another_user(tmp_path: Path) -> None:
    """50 conversations of two users at once, with restarts at random."""
    rng, storage = random.Random(7), SQLiteCheckpointStorage(tmp_path / "c.db")

    def fresh() -> Orchestrator:
        return Orchestrator([Weather, Booking], checkpoint_manager=CheckpointManager(storage), auto_checkpoint=True)

    orchestrator = fresh()
    for at in range(25):
        users = (f"a{at}", f"b{at}")
        for message in ("a hotel", "Rome", "5", "x@y.org"):
            answers = await asyncio.gather(*(orchestrator.handle_message(user, message) for user in users))
            if rng.random() < 0.3:
                orchestrator = fresh()
        assert answers == [f"{user}: 5 nights in Rome" for user in users]
        for user in users:
            for point in await CheckpointManager(storage).list_by_user(user, limit=3):
                assert point.user_id == user
    await storage.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_conversation_that_is_killed_after_its_saves_ends_as_if_it_were_not(kind: str, tmp_path: Path) -> None:
    """Every fifth save here, each one by `python -m tests.flowagent.conversation_kills`."""
    address = str(tmp_path / "c.db")
    if kind == "postgres":
        address = require(shared_postgres).database(f"conversations_{os.getpid()}")
    command = [sys.executable, "-m", "tests.flowagent.conversation_kills", kind, address, str(tmp_path), "5"]
    done = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout)
    assert done["wrong"] == []
    assert done["kills"] == 4
