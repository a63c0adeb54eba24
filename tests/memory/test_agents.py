"""What agents recall in their instructions, and what they remember of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, ScriptedModel, sync
from perdure.errors import InvalidInputError
from perdure.memory import AgentMemory, MemoryManager
from tests.checkpoints.places import PLACES
from tests.memory.test_isolation import Listening
from tests.memory.test_manager import texts

INSTRUCTIONS = "You help.\n{memory}"
REMEMBERS = AgentMemory(store_on_complete=True, extract=True)


@pytest.mark.parametrize("kind", ["file", "sqlite"])
async def test_a_preference_is_known_in_other_threads_and_after_a_restart_and_an_old_address_never_again(
    kind: str, tmp_path: Path
) -> None:
    """S0.26, S0.30, S0.31, S0.40: `{memory}` in a system prompt has what was stated in earlier runs."""
    url, given = PLACES[kind](tmp_path)
    asked: list[Sequence[Mapping[str, Any]]] = []
    for at, prompt in enumerate(["I prefer window seats. I live in Oslo.", "I moved to Bergen", "Where to send it?"]):
        async with Perdure.open(url, **given) as store:
            model = Listening()
            agent = store.agent("clerk", model=model, instructions=INSTRUCTIONS, memory=REMEMBERS)
            await agent.run(prompt, thread=f"t{at}", user="alice")
            asked += model.heard
    first, second, third = (each[0]["content"] for each in asked)
    assert first == "You help.\n"
    assert "User prefers window seats" in second
    assert "User lives in Oslo" in second
    assert "User prefers window seats" in third
    assert "User lives in Bergen" in third
    assert "User lives in Oslo" not in third


async def test_outcomes_are_stored_once_when_told_so_and_nothing_otherwise(tmp_path: Path) -> None:
    """S0.31, S0.38: an agent contributes to memory only when it is told to."""
    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice")
        silent = store.agent("silent", model=ScriptedModel(["done"]), instructions=INSTRUCTIONS, memory=True)
        await silent.run("I live in Oslo", thread="a", user="alice")
        await store.agent("none", model=ScriptedModel(["done"])).run("I live in Rome", thread="b", user="alice")
        assert await memory.get_all() == []
        teller = store.agent(
            "teller", model=ScriptedModel(["paid 3 bills"]), memory=AgentMemory(store_on_complete=True)
        )
        await teller.run("pay my bills", thread="c", user="alice", key="k")
        await teller.run("pay my bills", thread="c", user="alice", key="k")
        (fact,) = await memory.get_all()
        assert (fact.text, fact.kind, fact.agent) == ("pay my bills → paid 3 bills", "outcome", "teller")
        assert (fact.source.thread, fact.mentions) == ("c", 1)
        await teller.run("pay", thread="of nobody")
        assert len(await memory.get_all()) == 1


async def test_a_run_that_is_cut_off_after_it_remembered_does_so_once() -> None:
    class Cut(Exception):
        pass

    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice")
        agent = store.agent("clerk", model=ScriptedModel(["noted"]), memory=REMEMBERS, retry=1)
        finish, cuts = type(agent.spec.memory).finish, iter([True, False])

        async def cut_off(self: Any, done: Any) -> None:
            await finish(self, done)
            if next(cuts):
                raise Cut

        type(agent.spec.memory).finish = cut_off  # type: ignore[method-assign, union-attr]
        try:
            with pytest.raises(Cut):
                await agent.run("I like tea", thread="t", user="alice")
            await agent.resume("t", user="alice")
        finally:
            type(agent.spec.memory).finish = finish  # type: ignore[method-assign, union-attr]
        assert {each.text: each.mentions for each in await memory.get_all()} == {
            "User likes tea": 1,
            "I like tea → noted": 1,
        }


async def test_an_agent_that_another_asks_recalls_for_what_it_was_asked() -> None:
    async with Perdure.open("memory://") as store:
        await MemoryManager(store, user="alice").add_text("User likes jasmine tea")
        model = Listening()
        inner = store.agent(
            "cook",
            model=model,
            instructions=INSTRUCTIONS,
            description="Cooks.",
            memory=AgentMemory(store_on_complete=True),
        )
        outer = ScriptedModel([("cook", {"prompt": "which tea"}), "done"])
        await store.agent("host", model=outer, tools=[inner]).run("guests come", thread="t", user="alice")
        assert "jasmine" in model.heard[0][0]["content"]
        (outcome,) = await MemoryManager(store, user="alice").get_all(filters={"kind": "outcome"})
        assert (outcome.text, outcome.agent) == ("which tea → ok", "cook")


async def test_both_layers_switch_off_independently() -> None:
    """S0.32: memory without checkpoints, checkpoints without memory."""
    async with Perdure.open("memory://") as store:
        await MemoryManager(store, user="alice").add_text("User likes tea")
        assert await store.threads() == []  # memory needs no thread
        model = Listening()
        off = AgentMemory(recall=False)
        await store.agent("a", model=model, instructions=INSTRUCTIONS, memory=off).run("tea", thread="t", user="alice")
        await store.agent("b", model=model, instructions=INSTRUCTIONS).run("tea", thread="t", user="alice")
        assert [each[0]["content"] for each in model.heard] == [INSTRUCTIONS, INSTRUCTIONS]
        assert len(await store.threads()) == 1


async def test_the_block_keeps_to_its_budget_the_most_relevant_first() -> None:
    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice")
        for at in range(50):
            await memory.add_text(f"User owns boat number {at}")
        await memory.add_text("User likes jasmine tea", valid_to=None)
        await memory.add_text("User owns a kayak")
        for budget in (0, 20, 100, 200, 500):
            block = await memory.build_context("jasmine tea", max_tokens=budget)
            assert len(block) <= 3 * budget
        lines = block.split("\n")
        assert ["jasmine" in lines[2], "kayak" in lines[3], "number 49" in lines[4]] == [True] * 3
        assert await memory.build_context("tea", max_tokens=100, count_tokens=lambda text: 1_000) == ""


def test_a_synchronous_agent_has_a_memory() -> None:
    with sync.Perdure.open("memory://") as store:
        memory = sync.MemoryManager(store, user="alice")
        memory.add_text("User likes tea")
        seen: list[Any] = []

        class Plain(ScriptedModel):
            def reply_now(self, messages: Any, **more: Any) -> Any:
                seen.append(messages[0]["content"])
                return super().reply_now(messages, **more)

        agent = store.agent("clerk", model=Plain(["ok"]), instructions=INSTRUCTIONS, memory=memory)
        agent.run("tea", thread="t", user="alice")
        assert "User likes tea" in seen[0]
        assert texts(memory.for_user("bob").get_all()) == []


async def test_what_is_no_memory_is_refused() -> None:
    async with Perdure.open("memory://") as store:
        with pytest.raises(InvalidInputError, match="memory must be True, a MemoryManager or an AgentMemory"):
            store.agent("a", model=ScriptedModel(["x"]), memory="yes")  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="max_tokens"):
            AgentMemory(max_tokens=-1)
