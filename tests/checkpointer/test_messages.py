"""Messages: kept in order, each once, found by what they say and by what is known of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.checkpointer import InMemoryCheckpointer, Message
from perdure.core.times import to_datetime
from perdure.errors import InvalidFilterError, InvalidIdError, InvalidInputError, NotFoundError
from perdure.testing.clock import ManualClock
from tests.checkpointer.places import ALICE, BOB, Face, Making, said, texts

MINUTE = timedelta(minutes=1)


async def test_a_batch_is_one_write(face: Face) -> None:
    """S2.51."""
    await face.put_messages(ALICE, said(*map(str, range(30))))
    assert texts(await face.list_messages(ALICE)) == list(map(str, range(30)))
    entries = await _entries(face)
    assert (len(entries), len({each.at for each in entries})) == (30, 1)
    await face.put_messages(ALICE, [])
    assert len(await _entries(face)) == 30


async def _entries(face: Face) -> Any:
    async def read(checkpointer: Any) -> Any:
        return await checkpointer.thread(ALICE).entries()

    # Whatever a twin can do, code of one's own can do: the same coroutine, driven or awaited.
    work = read(face.checkpointer)
    return face.checkpointer._drive(work) if face.sync else await work


async def test_a_message_that_is_said_again_is_the_same_one(face: Face) -> None:
    await face.put_messages(ALICE, said("one", "two"))
    await face.put_messages(ALICE, said("two", "three"))
    await face.put_messages(ALICE, said("one", "two", "three", *map(str, range(10))))
    assert texts(await face.list_messages(ALICE)) == ["one", "two", "three", *map(str, range(10))]


async def test_a_message_is_edited_by_its_id_and_keeps_its_place(face: Face) -> None:
    await face.put_messages(ALICE, said("one", "two", "three"))
    await face.put_messages(ALICE, [Message.text_message("zwei", id="two")])
    assert texts(await face.list_messages(ALICE)) == ["one", "zwei", "three"]
    assert (await face.get_message(ALICE, "two")).text() == "zwei"
    assert texts(await face.list_messages(ALICE, search="two")) == []


async def test_messages_without_an_id_get_one(face: Face) -> None:
    await face.put_messages(ALICE, [Message("user", "same"), {"role": "user", "content": "same"}])
    one, two = await face.list_messages(ALICE)
    assert (one.text(), two.text()) == ("same", "same")
    assert None not in (one.id, two.id)
    assert one.id != two.id


async def test_mappings_are_messages_too(face: Face) -> None:
    call = {"id": "c1", "function": {"name": "search"}}
    await face.put_messages(
        ALICE,
        [
            {"role": "assistant", "content": None, "tool_calls": [call], "id": 7},
            {"role": "tool", "content": "found", "tool_call_id": "c1", "id": "b"},
        ],
    )
    assert await face.list_messages(ALICE) == [
        Message("assistant", None, [call], {}, "7"), Message("tool", "found", [], {"tool_call_id": "c1"}, "b"),
    ]  # fmt: skip


@pytest.mark.parametrize("messages", [Message("user", "one"), {"role": "user"}, "text", ["text"], [{"content": "x"}]])
async def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidInputError, match="message"):
        await InMemoryCheckpointer().aput_messages(ALICE, messages)


@pytest.mark.parametrize("name", ["", "x" * 513, "\0", "\ud800"])
async def test_an_id_that_nobody_could_ask_for_is_refused(name: str) -> None:
    with pytest.raises(InvalidIdError, match="message id"):
        await InMemoryCheckpointer().aput_messages(ALICE, [Message("user", "one", id=name)])


async def test_the_newest_are_listed_in_the_order_they_were_said(face: Face) -> None:
    """S2.25: `limit`."""
    await face.put_messages(ALICE, said(*map(str, range(20))))
    assert texts(await face.list_messages(ALICE, limit=3)) == ["17", "18", "19"]
    assert texts(await face.list_messages(ALICE, limit=3, offset=2)) == ["15", "16", "17"]
    assert texts(await face.list_messages(ALICE, offset=18)) == ["0", "1"]
    assert texts(await face.list_messages(ALICE, limit=0)) == []
    assert texts(await face.list_messages(ALICE, limit=1000)) == list(map(str, range(20)))
    assert await face.list_messages(BOB) == []


async def test_pages_by_the_id_of_a_message(face: Face) -> None:
    """S2.3: a page at a time, also when more is said meanwhile."""
    await face.put_messages(ALICE, said(*map(str, range(10))))
    page = await face.list_messages(ALICE, limit=4)
    await face.put_messages(ALICE, said("10"))
    before = await face.list_messages(ALICE, limit=4, before=page[0].id)
    assert (texts(page), texts(before)) == (["6", "7", "8", "9"], ["2", "3", "4", "5"])
    assert texts(await face.list_messages(ALICE, limit=2, after=page[-1].id)) == ["10"]
    assert texts(await face.list_messages(ALICE, limit=2, after="2")) == ["3", "4"]
    assert texts(await face.list_messages(ALICE, limit=2, after="2", offset=1)) == ["4", "5"]
    assert texts(await face.list_messages(ALICE, after="2", before="5")) == ["3", "4"]
    with pytest.raises(NotFoundError):
        await face.list_messages(ALICE, before="nowhere")


async def test_search_finds_all_words_in_any_order_and_case(face: Face) -> None:
    """S2.25: `search`."""
    await face.put_messages(ALICE, said("Wetter in München?", "weather QUERY", "the query of weather", "no"))
    assert texts(await face.list_messages(ALICE, search="weather query")) == ["weather QUERY", "the query of weather"]
    assert texts(await face.list_messages(ALICE, search="weather query", limit=1)) == ["the query of weather"]
    assert texts(await face.list_messages(ALICE, search="MÜNCHEN wetter")) == ["Wetter in München?"]
    assert texts(await face.list_messages(ALICE, search="weath")) == []
    assert len(await face.list_messages(ALICE, search="")) == 4


async def test_messages_are_found_by_what_is_known_of_them(make: Making, clock: ManualClock) -> None:
    """S2.26, S2.58: role, node, run, time, metadata; alone and together."""
    face = make(clock=clock)
    start = to_datetime(clock.now())
    for number, role in enumerate(["user", "assistant", "tool", "assistant"]):
        config = {**ALICE, "run_id": f"run {number // 2}"}
        await face.put_messages(config, said(str(number), role=role), {"node": f"n{number % 2}", "mood": [number]})
        clock.advance(MINUTE)

    async def found(**filters: Any) -> list[str]:
        return texts(await face.list_messages(ALICE, **filters))

    assert await found(role="assistant") == ["1", "3"]
    assert await found(role=["user", "tool"]) == ["0", "2"]
    assert await found(node="n1") == ["1", "3"]
    assert await found(run_id="run 1") == ["2", "3"]
    assert await found(since=start + MINUTE, until=start + 3 * MINUTE) == ["1", "2"]
    assert await found(metadata={"mood": [2]}) == ["2"]
    assert await found(metadata={"mood": [2], "node": "n1"}) == []
    assert await found(role="assistant", node="n1", run_id="run 0", since=start, metadata={"mood": [1]}) == ["1"]
    assert await found(role="assistant", search="3", limit=1) == ["3"]


@pytest.mark.parametrize(
    "filters",
    [
        {"role": 3},
        {"since": "yesterday"},
        {"metadata": "x"},
        {"search": 3},
        {"before": 1.5},
        {"limit": -1},
        {"limit": "3"},
        {"offset": -1},
    ],
)
async def test_what_cannot_be_asked_is_refused(filters: dict[str, Any]) -> None:
    with pytest.raises((InvalidFilterError, InvalidInputError)):
        await InMemoryCheckpointer().alist_messages(ALICE, **filters)


async def test_a_filter_that_nobody_knows_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="rolle"):
        InMemoryCheckpointer().alist_messages(ALICE, rolle="user")  # type: ignore[call-arg]


async def test_a_message_is_read_and_deleted_by_its_id(face: Face) -> None:
    """N2: `aget_message`, `adelete_message`."""
    await face.put_messages(ALICE, said("one", "secret", "three"))
    assert (await face.get_message(ALICE, "secret")).text() == "secret"
    assert await face.delete_message(ALICE, "secret") is True
    assert await face.delete_message(ALICE, "secret") is False
    with pytest.raises(NotFoundError):
        await face.get_message(ALICE, "secret")
    assert texts(await face.list_messages(ALICE)) == ["one", "three"]
    assert texts(await face.list_messages(ALICE, search="secret")) == []
    assert not any(b"secret" in (each.payload or b"") for each in (await _entries(face))[:3])


async def test_a_search_across_threads_and_numbers_of_them(face: Face) -> None:
    """S2.48, S2.58."""
    for thread in ("a", "b"):
        await face.put_messages({**ALICE, "thread_id": thread}, said(f"weather in {thread}", "hello"))
    await face.put_messages(BOB, said("weather for bob"))
    found = await face.search({"user_id": "alice"}, "weather")
    assert [(each.thread_id, each.message.text()) for each in found] == [("b", "weather in b"), ("a", "weather in a")]
    assert len(await face.search({}, "weather", limit=2)) == 2
    numbers = await face.analytics({"user_id": "alice"})
    assert (numbers.conversations, numbers.messages, numbers.by_role) == (2, 4, {"user": 4})
    assert (await face.analytics({})).conversations == 3


async def test_a_conversation_in_numbers(face: Face) -> None:
    """S2.46: counted by the storage."""
    await face.put_messages(
        ALICE,
        [
            Message("user", "weather?", metadata={"tokens": 3}, id="a"),
            Message("assistant", "", [{"id": "c1"}, {"id": "c2"}], {"usage": {"total_tokens": 40}}, "b"),
            Message("tool", "failed", metadata={"tool_call_id": "c1", "is_error": True, "duration": 1.5}, id="c"),
        ],
    )
    found = await face.analytics(ALICE, topics=lambda text: ["sky"] if "weather" in text else [])
    assert (found.messages, found.by_role) == (3, {"assistant": 1, "tool": 1, "user": 1})
    assert (found.tool_calls, found.errors, found.tokens, found.duration) == (2, 1, 43, timedelta(seconds=1.5))
    assert found.topics == {"sky": 1}
    assert found.first is not None
