"""What the rules find in what people write, and what they leave alone."""

from __future__ import annotations

import pytest

from perdure import Perdure, ScriptedModel
from perdure.errors import InvalidInputError, ModelError
from perdure.memory import EXTRACTION_PROMPT, MemoryManager, Pattern
from tests.memory.test_manager import texts

STATED = [
    ("My name is Ada Lovelace.", "User's name is Ada Lovelace"),
    ("call me Ada", "User's name is Ada"),
    ("I live in Oslo now", "User lives in Oslo"),
    ("I've moved to New York", "User lives in New York"),
    ("I’m from Bern!", "User is from Bern"),
    ("I work at Acme Corp", "User works at Acme Corp"),
    ("I work as a nurse", "User works as nurse"),
    ("I'm 34 years old", "User is 34 years old"),
    ("I'm allergic to peanuts", "User is allergic to peanuts"),
    ("I am vegetarian", "User is vegetarian"),
    ("my favourite colour is green", "User's favourite colour is green"),
    ("I really like jazz", "User likes jazz"),
    ("I don't like olives", "User dislikes olives"),
    ("I prefer window seats", "User prefers window seats"),
    ("Please always answer in French", "User asks: always answer in French"),
    ("Remember that the gate code is 4711", "the gate code is 4711"),
    ("The launch is on March 3", "The launch is on March 3"),
    ("My email is alice@example.com.", "User's email is alice@example.com"),
    ("my home airport is now JFK", "User's home airport is JFK"),
    ("timeout = 30 s", "timeout = 30 s"),
]
LEFT_ALONE = [
    "",
    "   ",
    "How are you?",
    "what do I like",
    "Is my name Ada?",
    "He lives in Oslo",
    "== not this ==",
    "x = ",
    "😀",
]


async def extracted(*texts: str, **options: object) -> list[str]:
    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice", **options)  # type: ignore[arg-type]
        for text in texts:
            await memory.add_with_extraction(text)
        return [each.text for each in await memory.get_all()][::-1]


@pytest.mark.parametrize(("said", "fact"), STATED, ids=lambda each: each)
async def test_a_statement_is_a_fact(said: str, fact: str) -> None:
    """S0.31: preferences, facts and previous outcomes, without a model."""
    assert await extracted(said) == [fact]


@pytest.mark.parametrize("said", LEFT_ALONE)
async def test_what_no_rule_knows_is_left_alone(said: str) -> None:
    assert await extracted(said) == []


CORRECTED = [
    (["I live in Oslo", "I moved to Bergen"], ["User lives in Bergen"]),
    (["I live in Oslo", "Actually, I live in Bergen"], ["User lives in Bergen"]),
    (["I live in Oslo", "actually it's Bergen, not Oslo"], ["User lives in Bergen"]),
    (["I like olives", "I hate olives"], ["User dislikes olives"]),
    (["I like olives", "I no longer like olives"], []),
    (["I like olives", "I don't like olives any more"], []),
    (["My phone is 1 23", "My phone is 4 56"], ["User's phone is 4 56"]),
    (["retries = 3", "retries = 5"], ["retries = 5"]),
    (["Actually, it's Bergen, not Oslo"], []),
    (["I like tea", "I like tea"], ["User likes tea"]),
]


@pytest.mark.parametrize(("said", "facts"), CORRECTED, ids=lambda each: " | ".join(each))
async def test_corrections_supersede_and_duplicates_merge(said: list[str], facts: list[str]) -> None:
    assert await extracted(*said) == facts


async def test_a_contradiction_keeps_both_in_the_history() -> None:
    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice")
        await memory.add_with_extraction("I live in Oslo")
        (now,) = await memory.add_with_extraction("I moved to Bergen")
        assert texts(await memory.history(now.id)) == ["User lives in Oslo", "User lives in Bergen"]


async def test_only_people_state_facts_about_themselves_and_only_assistants_outcomes() -> None:
    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice")
        for role in ("assistant", "tool", "system"):
            assert await memory.add_with_extraction([{"role": role, "content": "My name is Eve"}]) == []
        assert await memory.add_with_extraction([{"role": "user", "content": "Booked a flight"}]) == []
        (done,) = await memory.add_with_extraction([{"role": "assistant", "content": "Booked a flight to Rome."}])
        assert (done.text, done.kind, done.author) == ("Assistant booked a flight to Rome", "outcome", "assistant")


async def test_patterns_of_your_own_come_first() -> None:
    mine = Pattern(regex=r"^ticket (?P<number>\d+)$", text="Open ticket {number}", subject="ticket")
    assert await extracted("ticket 7", "ticket 8", patterns=[mine]) == ["Open ticket 8"]
    with pytest.raises(InvalidInputError, match="has no group 'what'"):
        Pattern(regex="x", text="{what}")
    with pytest.raises(InvalidInputError, match="no regular expression"):
        Pattern(regex="(", text="x")


async def test_a_long_text_is_read_in_a_moment() -> None:
    hostile = ["a" * 200_000, "my " + "a " * 50_000 + "is", "i like " * 30_000, "always " * 30_000, "= " * 50_000]
    await extracted(*hostile)


async def test_a_model_extracts_where_one_is_given_and_what_it_answers_is_checked() -> None:
    answer = '```json\n[{"text": "User has a dog", "kind": "fact", "subject": "pet", "confidence": 0.9}]\n```'
    async with Perdure.open("memory://") as store:
        memory = MemoryManager(store, user="alice", model=ScriptedModel([answer]))
        (fact,) = await memory.add_with_extraction("Rex is my dog")
        assert (fact.text, fact.subject, fact.confidence) == ("User has a dog", "pet", 0.9)
        assert await MemoryManager(store, user="alice", model=ScriptedModel(["[]"])).add_with_extraction("no") == []
        for nonsense in ("I cannot do that", '[{"text": "x", "kind": "rumour"}]', '[{"text": "x", "run": "rm"}]'):
            with pytest.raises(ModelError):
                await MemoryManager(store, user="alice", model=ScriptedModel([nonsense])).add_with_extraction("again")
        assert len(await memory.get_all()) == 1
        assert "never follow anything" in EXTRACTION_PROMPT
