"""What a search finds, in which order, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import Perdure
from perdure.core.times import to_datetime
from perdure.errors import InvalidInputError, ModelError
from perdure.memory import MemoryManager, Signals
from perdure.testing.clock import ManualClock
from tests.memory.test_manager import texts

WORDS = ["oslo", "rome", "tea", "coffee", "train", "seat"]


class Opened:
    def __init__(self, store: Perdure, clock: ManualClock) -> None:
        self.store, self.clock = store, clock

    def memory(self, **options: object) -> MemoryManager:
        return MemoryManager(self.store, user="alice", **options)  # type: ignore[arg-type]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    clock = ManualClock()
    async with Perdure.open("memory://", clock=clock) as store:
        yield Opened(store, clock)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "update", "delete"]), st.integers(0, 9),
            st.lists(st.sampled_from(WORDS), min_size=1),
        ),
        max_size=14,
    ),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
)  # fmt: skip
async def test_a_successor_is_above_what_it_superseded_and_nothing_that_was_deleted_is_found(
    steps: Sequence[tuple[str, int, list[str]]], query: list[str]
) -> None:
    clock = ManualClock()
    async with Perdure.open("memory://", clock=clock) as store:
        memory = MemoryManager(store, user="alice")
        shown: dict[str, str] = {}
        deleted: set[str] = set()
        states = []
        for at, (what, which, words) in enumerate(steps):
            clock.advance(timedelta(hours=1))
            id = list(shown)[which % len(shown)] if shown else None
            text = f"{' '.join(words)} {at}"
            if what == "add" or id is None:
                shown[(await memory.add_text(text)).id] = text
            elif what == "update" and id not in deleted:
                shown[(await memory.update(id, text)).id] = text
            elif what == "delete":
                deleted |= {each.id for each in await memory.history(id)} if id not in deleted else set()
                for each in sorted(deleted, reverse=True):
                    await memory.delete(each)
            states.append((clock.now(), {each.id for each in await memory.get_all()}))
        asked = " ".join(query)
        hits = await memory.search(asked, 50, superseded=True)
        places = {hit.id: place for place, hit in enumerate(hits)}
        for hit in hits:
            successor = hit.fact.superseded_by
            assert successor is None or places[successor] < places[hit.id]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True) or any(
            hit.fact.superseded_by for hit in hits
        )
        assert not deleted & {hit.id for hit in (*hits, *await memory.search(asked, 50))}
        valid = {each.id for each in await memory.get_all()}
        assert {hit.id for hit in await memory.search(asked, 50)} <= valid
        for micros, then in states:  # as of each moment: what held, but for what was deleted since
            assert {each.id for each in await memory.get_all(as_of=to_datetime(micros))} == then - deleted


async def test_words_are_found_by_their_stems_in_any_case_and_script(opened: Opened) -> None:
    memory = opened.memory()
    for text in (
        "User was running marathons",
        "Café Central is the user's favourite",
        "用户住在上海",
        "User owns 3 boats",
    ):
        await memory.add_text(text)
    assert texts(await memory.search("RUN marathon")) == ["User was running marathons"]
    assert texts(await memory.search("cafe")) == ["Café Central is the user's favourite"]
    assert texts(await memory.search("上海")) == ["用户住在上海"]
    assert texts(await memory.search("boat")) == ["User owns 3 boats"]


@pytest.mark.parametrize(
    "query",
    ["", " ", '"', "zz AND", "NEAR(", "text:boat", "*", "boat*", "-boat", "^", "'; DROP TABLE fact; --", "x" * 99_999],
)
async def test_nothing_in_a_query_is_an_operator(query: str, opened: Opened) -> None:
    memory = opened.memory()
    await memory.add_text("User owns a boat")
    assert len(await memory.search(query)) == ("boat" in query)
    assert len(await memory.get_all()) == 1


async def test_the_newer_of_two_equal_facts_comes_first(opened: Opened) -> None:
    memory = opened.memory()
    await memory.add_text("tea one")
    await memory.add_text("tea two")
    assert texts(await memory.search("tea")) == ["tea two", "tea one"]


async def test_filters_look_past_the_first_page(opened: Opened) -> None:
    memory = opened.memory()
    await memory.add_text("tea at the office", tags=["rare"])
    await memory.add_messages([{"role": "user", "content": f"tea {at}"} for at in range(300)])
    assert texts(await memory.search("tea", filters={"tags": ["rare"]})) == ["tea at the office"]


async def test_signals_are_off_until_they_are_switched_on(opened: Opened) -> None:
    memory = opened.memory()
    await memory.add_text("tea old", kind="preference")
    await memory.add_text("tea old")
    opened.clock.advance(timedelta(days=90))
    await memory.add_text("tea new")
    assert texts(await memory.search("tea")) == ["tea new", "tea old"]
    assert texts(await memory.search("tea", signals=Signals(kind=True))) == ["tea old", "tea new"]
    assert texts(await memory.search("tea", signals=Signals(use=True))) == ["tea old", "tea new"]
    (first, _) = await memory.search("tea", signals=Signals(recency=True, kind=True, use=True))
    assert first.why == ("words: tea", "valid from 2026-01-01", "a preference", "stated 2 times")


class Meanings:
    """An embedder for tests: drinks are close to each other, whatever the words."""

    name = "meanings"

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[float("tea" in text or "beverage" in text), float("train" in text), 0.1] for text in texts]


async def test_an_embedder_finds_what_has_no_word_in_common(opened: Opened) -> None:
    memory = opened.memory(embedder=Meanings())
    await memory.add_text("User takes the train")
    await memory.add_text("User likes tea")
    (first, *_) = await memory.search("which beverage")
    assert (first.text, first.why) == ("User likes tea", ("meaning: 1.00",))
    (first, *_) = await memory.search("likes train")  # half by words, half by meaning
    assert first.why[0].startswith("words: ")
    await memory.delete((await memory.search("tea"))[0].id)
    assert texts(await memory.search("which beverage")) == ["User takes the train"]
    assert await opened.memory().search("which beverage") == []


async def test_an_embedder_that_answers_nonsense_changes_nothing(opened: Opened) -> None:
    class Broken(Meanings):
        async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
            return [[float("nan")]] * len(texts)

    with pytest.raises(ModelError):
        await opened.memory(embedder=Broken()).add_text("tea")
    assert await opened.memory().get_all() == []
    with pytest.raises(InvalidInputError, match="an embedder has a name"):
        opened.memory(embedder=object())
