"""Listing and searching the messages of a thread, for both kinds of callers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from perdure import MessageLine, Perdure, Retention
from perdure.app.handle import key_of
from perdure.app.store import parts_of
from perdure.core.errors import InvalidIdError, InvalidInputError, NotFoundError
from perdure.testing.clock import START, ManualClock
from tests.app.conversing import MINUTE, clock, numbers, store, talk, texts, thread, told

__all__ = ["clock", "store", "thread"]
TALK = [
    *("Hello Anna", "Hello, how can I help?", "Find Müller's report", "nothing found", "There is no report, Anna"),
]


@pytest.fixture(autouse=True)
async def _said(thread: Any, clock: ManualClock) -> None:
    await talk(thread, clock)


async def test_messages_come_oldest_first_and_with_a_limit_the_newest(thread: Any) -> None:
    assert texts(await thread.messages()) == TALK
    assert texts(await thread.messages(2)) == TALK[-2:]
    assert await thread.messages(limit=0) == []
    assert texts(await thread.messages(limit=99)) == TALK


async def test_a_line_tells_what_is_known_of_a_message(thread: Any) -> None:
    lines = await thread.message_lines()
    assert numbers(lines) == [1, 2, 3, 4, 5]
    assert [line.id for line in lines] == ["m1", "m2", "s3", None, "m5"]
    assert [line.role for line in lines] == ["user", "assistant", "user", "tool", "assistant"]
    assert [line.at for line in lines] == [START + minutes * MINUTE for minutes in range(5)]
    assert [(line.node, line.run) for line in lines[:2]] == [("chat", None), ("chat", "r1")]
    assert {(line.thread_id, line.user) for line in lines} == {("t", "alice")}
    assert [line.message for line in lines] == await thread.messages()
    assert all(isinstance(line, MessageLine) for line in lines)


async def test_pages_go_back_and_forth_by_id_or_number(thread: Any) -> None:
    assert numbers(await thread.message_lines(2)) == [4, 5]
    assert numbers(await thread.message_lines(2, before=4)) == [2, 3]
    assert numbers(await thread.message_lines(2, before="m2")) == [1]
    assert numbers(await thread.message_lines(2, after="m1")) == [2, 3]
    assert numbers(await thread.message_lines(2, after=0)) == [1, 2]
    assert numbers(await thread.message_lines(after="s3")) == [4, 5]
    assert numbers(await thread.message_lines(after=1, before=5)) == [2, 3, 4]
    assert texts(await thread.messages(1, before="m5")) == [TALK[3]]
    assert await thread.message_lines(after="m5") == await thread.message_lines(before="m1") == []


async def test_a_search_finds_all_its_words_in_any_order_and_case(thread: Any) -> None:
    assert texts(await thread.messages(search="ANNA hello")) == [TALK[0]]
    assert numbers(await thread.message_lines(search="report")) == [3, 5]
    assert numbers(await thread.message_lines(1, "report")) == [5]
    assert numbers(await thread.message_lines(1, "report", after=0)) == [3]
    assert numbers(await thread.message_lines(search="müller")) == [3]
    assert await thread.messages(search="report help") == await thread.messages(search="repo") == []


async def test_a_search_without_a_word_looks_for_what_stands_there(thread: Any) -> None:
    assert numbers(await thread.message_lines(search="?")) == [2]
    assert numbers(await thread.message_lines(search=" ' ")) == [3]
    assert numbers(await thread.message_lines(search="%")) == []
    assert numbers(await thread.message_lines(search="")) == [1, 2, 3, 4, 5]
    assert await thread.message_lines(0, ",") == []
    assert numbers(await thread.message_lines(1, ",")) == [5]


async def test_filters_hold_together(thread: Any) -> None:
    assert numbers(await thread.message_lines(role="user")) == [1, 3]
    assert numbers(await thread.message_lines(role=["tool", "user"])) == [1, 3, 4]
    assert numbers(await thread.message_lines(role=[])) == []
    assert numbers(await thread.message_lines(node="chat")) == [1, 2]
    assert numbers(await thread.message_lines(run="r1")) == [2, 4]
    assert numbers(await thread.message_lines(run="r1", role="tool")) == [4]
    assert numbers(await thread.message_lines(search="report", role="assistant")) == [5]
    assert texts(await thread.messages(role="tool")) == [TALK[3]]


async def test_metadata_is_compared_exactly(thread: Any) -> None:
    assert numbers(await thread.message_lines(metadata={"n": 1})) == [2]
    assert numbers(await thread.message_lines(metadata={"n": 1.0})) == [4]
    assert numbers(await thread.message_lines(metadata={"n": True, "run_id": "r2"})) == [5]
    assert numbers(await thread.message_lines(1, metadata={"run_id": "r1"})) == [4]
    assert numbers(await thread.message_lines(metadata={})) == [1, 2, 3, 4, 5]
    assert await thread.message_lines(metadata={"other": None}) == []


async def test_times_are_from_and_up_to_and_naive_ones_are_refused(thread: Any) -> None:
    at = START + MINUTE
    elsewhere = at.astimezone(timezone(timedelta(hours=5)))
    for since in (at, elsewhere):
        assert numbers(await thread.message_lines(since=since)) == [2, 3, 4, 5]
        assert numbers(await thread.message_lines(until=since)) == [1]
    assert numbers(await thread.message_lines(since=at, until=at + 2 * MINUTE)) == [2, 3]
    always = {"since": datetime.min.replace(tzinfo=UTC), "until": datetime.max.replace(tzinfo=UTC)}
    assert numbers(await thread.message_lines(**always)) == [1, 2, 3, 4, 5]
    with pytest.raises(InvalidInputError, match="time zone"):
        await thread.message_lines(since=at.replace(tzinfo=None))


BAD: list[tuple[str, Any]] = [
    *(("limit", bad) for bad in (-1, True, "5", 1 << 40, 1.0)),
    *(("search", bad) for bad in (5, b"x", ["a"])),
    *((name, bad) for name in ("before", "after") for bad in (1.5, True, -1, 1 << 70, ("m1",), "", "a\0b", "x" * 600)),
    *(("role", bad) for bad in (5, [5], "a\0b")),
    *(("node", 5), ("run", b"r"), ("since", "yesterday"), ("until", 5)),
    *(("metadata", [1]), ("metadata", {"a": object()})),
]


async def test_what_cannot_be_asked_is_named(thread: Any) -> None:
    for name, bad in BAD:
        with pytest.raises(InvalidInputError) as caught:
            await thread.message_lines(**{name: bad})
        assert ("message" if name in ("before", "after") else name) in str(caught.value), (name, bad)
        with pytest.raises(InvalidInputError):
            await thread.messages(**{name: bad})


async def test_an_unknown_filter_is_named_with_the_known_ones(thread: Any) -> None:
    with pytest.raises(TypeError, match=r"'colour', only by role, node, run, since, until, metadata"):
        await thread.messages(colour="red")
    with pytest.raises(TypeError, match="'user'"):
        await thread.analytics(user="alice")


async def test_a_message_that_is_not_there_is_no_place(thread: Any) -> None:
    for place in ({"before": "unknown"}, {"after": "unknown"}):
        with pytest.raises(NotFoundError, match="message 'unknown' of thread 't'"):
            await thread.messages(**place)


async def test_a_message_is_found_by_its_id(thread: Any) -> None:
    assert await thread.message("m2") == told(
        "Hello, how can I help?", "assistant", "m2", node="chat", run_id="r1", n=1
    )
    assert (await thread.message("s3"))["content"] == TALK[2]
    with pytest.raises(NotFoundError, match="message 'm9'"):
        await thread.message("m9")
    for bad in ("", 5, None, "a\0b"):
        with pytest.raises(InvalidIdError):
            await thread.message(bad)


async def test_an_absent_thread_has_no_messages(store: Any) -> None:
    absent = store.thread("absent", user="alice")
    assert await absent.messages() == await absent.messages(5) == await absent.message_lines(search="hello") == []
    with pytest.raises(NotFoundError):
        await absent.message("m1")
    assert not await absent.delete_message("m1")
    assert (await absent.analytics()).messages == 0
    assert await absent.repair_history() == []
    with pytest.raises(NotFoundError):
        await absent.info()


async def test_the_same_id_of_two_users_is_two_threads(store: Any, thread: Any) -> None:
    bobs = store.thread("t", user="bob")
    await bobs.add_messages(told("Hello from Bob", id="m1"))
    assert texts(await bobs.messages(search="hello")) == ["Hello from Bob"]
    assert texts(await thread.messages(search="hello")) == TALK[:2]
    assert (await bobs.message("m1")).content == "Hello from Bob"
    assert await bobs.delete_message("m1")
    assert (await thread.message("m1")).content == TALK[0]
    assert [line.user for line in await store.search("hello", user="alice")] == ["alice"] * 2


async def test_a_large_message_in_the_state_is_found_and_given_back(thread: Any) -> None:
    large = {"role": "user", "content": "needle " + "x" * 100_000, "id": "big"}
    await thread.append("messages", large)
    assert await thread.messages(search="needle") == [large]
    assert await thread.message("big") == large
    state = await thread.load()
    state["messages"] = state["messages"][-1:]
    await thread.save(state)
    assert await thread.messages(1, "needle") == [large]


async def test_what_was_said_is_as_old_after_a_prune_as_before(thread: Any, clock: ManualClock) -> None:
    for turn in range(4):
        clock.advance(MINUTE)
        state = await thread.load()
        cut = state["messages"][-2:]
        await thread.save({"messages": [*cut, {"role": "user", "content": f"turn {turn}"}], "text": "x" * 500})
    before = await thread.message_lines()
    await thread.prune(1)
    await thread.rename("so that somebody reads on")
    assert await thread.message_lines() == before
    (known,) = [line for line in before if line.message == {"role": "user", "content": "turn 1"}]
    fork = await thread.fork(to="fork")
    assert [(line.number, line.at) for line in await fork.message_lines(since=known.at)] == [
        (line.number, line.at) for line in before if line.at >= known.at
    ]


async def test_messages_that_a_policy_drops_are_found_no_more(thread: Any) -> None:
    turns = [{"role": "user", "content": f"turn{turn}"} for turn in range(5)]
    for turn in range(3):
        await thread.save({"messages": turns[turn : turn + 3], "text": "x" * 500})
    assert await thread.messages(search="turn0") == turns[:1]
    await thread.prune(Retention(last=1, messages="drop"))
    assert await thread.messages(search="turn0") == []
    assert texts(await thread.messages()) == texts([line.message for line in await thread.message_lines()])


async def test_a_rewind_takes_messages_back_and_a_redo_says_them_again(thread: Any) -> None:
    point = await thread.checkpoint("@2")
    await thread.rewind(point)
    assert texts(await thread.messages(search="hello")) == TALK[:2]
    assert await thread.messages(search="report") == []
    await thread.redo()
    assert texts(await thread.messages(search="report")) == [TALK[2], TALK[4]]
    assert numbers(await thread.message_lines()) == [1, 2, 3, 4, 5]


async def test_lists_and_limits_without_ids_read_nothing_off_the_log() -> None:
    async with Perdure.open("memory://") as memory:
        thread = memory.thread("t")
        for n in range(50):
            await thread.append("messages", {"role": "user", "content": f"{n}"})
        await thread.add_messages("apart")
        assert await thread.messages(2) == [{"role": "user", "content": "49"}, "apart"]
        assert len(await thread.messages()) == 51
        storage, key = parts_of(memory).storage, await key_of(thread)
        found = await storage.projection(key)
        assert found is not None
        assert found.version == 0
        await thread.messages(role="user")
        found = await storage.projection(key)
        assert found is not None
        assert found.version == found.row.head
