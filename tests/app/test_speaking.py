"""Adding messages to a thread and closing its open calls, for both kinds of callers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import EntryKind, Message, Orphan, Perdure, sync
from perdure.core.errors import (
    InvalidIdError,
    InvalidInputError,
    KeyReusedError,
    NotFoundError,
    UnsupportedValueError,
    VersionConflictError,
)
from perdure.core.history import INTERRUPTED
from tests.app.conversing import clock, kinds, numbers, store, thread, told

__all__ = ["clock", "store", "thread"]


# ── add ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_messages_are_added_in_one_write_and_are_not_part_of_the_state(thread: Any) -> None:
    await thread.save({"n": 1})
    assert await thread.add_messages(told("one"), {"role": "user", "content": "two"}, "three") == 4
    entries = await thread.entries(after=1)
    assert {entry.kind for entry in entries} == {EntryKind.MESSAGE_ADDED}
    assert len({entry.write_id for entry in entries}) == 1
    assert await thread.messages() == [told("one"), {"role": "user", "content": "two"}, "three"]
    assert await thread.load() == {"n": 1}
    assert (await thread.info()).state_version == 1


async def test_the_first_message_makes_the_thread(store: Any) -> None:
    thread = store.thread("new", user="alice", agent="writer", name="A name", tags=["a"])
    assert await thread.add_messages(told("hi")) == 1
    info = await thread.info()
    assert (info.agent, info.name, info.tags, info.user) == ("writer", "A name", ("a",), "alice")
    with pytest.raises(NotFoundError):
        await thread.load()


async def test_adding_nothing_writes_nothing(thread: Any) -> None:
    assert await thread.add_messages() == 0
    await thread.save({"n": 1})
    assert await thread.add_messages() == 1


async def test_the_same_message_again_writes_nothing(thread: Any) -> None:
    first = told("hello", id="m1")
    version = await thread.add_messages(first)
    assert await thread.add_messages(first) == version
    assert await thread.add_messages(first, told("new", id="m2")) == version + 1
    assert await kinds(thread) == ["message.added"] * 2
    assert await thread.messages() == [first, told("new", id="m2")]


async def test_the_same_id_with_another_message_takes_the_place_of_the_first(thread: Any) -> None:
    await thread.add_messages(told("draft", id="m1"), told("other", id="m2"))
    await thread.add_messages(told("final", id="m1"))
    lines = await thread.message_lines()
    assert [(line.number, line.id, line.message.content) for line in lines] == [(1, "m1", "final"), (2, "m2", "other")]
    assert await thread.messages(search="draft") == []
    assert (await thread.message("m1")).content == "final"


async def test_messages_without_an_id_are_added_as_often_as_they_are_said(thread: Any) -> None:
    await thread.add_messages("again", "again")
    await thread.add_messages("again")
    assert await thread.messages() == ["again"] * 3


async def test_many_messages_that_another_process_wrote_are_known(tmp_path: Path) -> None:
    said = [told(f"text {n}", id=f"m{n}") for n in range(20)]
    for _ in range(2):
        with sync.Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
            assert store.thread("t").add_messages(*said) == 20
            assert store.thread("t").messages() == said


async def test_a_key_makes_messages_be_said_once(store: Any, thread: Any) -> None:
    said = (told("one", id="m1"), told("two"))
    version = await thread.add_messages(*said, key="k")
    await thread.add_messages("between")
    assert await thread.add_messages(*said, key="k") == version
    assert await store.thread("t", user="alice").add_messages(*said, key="k") == version
    assert len(await thread.messages()) == 3
    with pytest.raises(KeyReusedError):
        await thread.add_messages("other", key="k")
    with pytest.raises(InvalidIdError):
        await thread.add_messages("other", key="")


async def test_a_value_that_cannot_be_kept_is_named_and_nothing_is_added(thread: Any) -> None:
    with pytest.raises(UnsupportedValueError, match=r"messages\[1\]\.tool"):
        await thread.add_messages("fine", {"tool": object()})
    assert await thread.messages() == []


async def test_messages_do_not_stand_in_the_way_of_a_save(store: Any, thread: Any) -> None:
    await thread.save({"n": 1})
    await store.thread("t", user="alice").add_messages("by somebody else")
    await thread.save({"n": 2})
    await store.thread("t", user="alice").save({"n": 3})
    await thread.add_messages("mine")
    with pytest.raises(VersionConflictError):
        await thread.save({"n": 4})


async def test_a_thread_that_somebody_made_again_is_added_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with sync.Perdure.open(url) as one, sync.Perdure.open(url) as other:
        one.thread("t").save({"n": 1})
        other.thread("t").delete()
        other.thread("t").save({"n": 2})
        one.thread("t").add_messages("hi")
        assert other.thread("t").messages() == ["hi"]
        seen = one.thread("t")
        seen.load()
        other.thread("t").delete()
        with pytest.raises(NotFoundError):
            seen.add_messages("to the one that was seen")


async def test_who_added_a_message_is_told(store: Any) -> None:
    await store.thread("t", actor="worker-1").add_messages("hi")
    (entry,) = await store.thread("t").entries()
    assert entry.actor == "worker-1"


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/x.db", "file://{}/store"])
async def test_twenty_who_add_to_one_thread_lose_nothing(url: str, tmp_path: Path) -> None:
    async with Perdure.open(url.format(tmp_path)) as store:

        async def speak(who: int) -> None:
            thread = store.thread("t")
            for n in range(5):
                await thread.add_messages(told(f"w{who} n{n}", id=f"{who}-{n}"))
                assert len(await thread.messages(search=f"w{who}")) == n + 1

        await asyncio.gather(*(speak(who) for who in range(20)))
        lines = await store.thread("t").message_lines()
        assert numbers(lines) == list(range(1, 101))
        assert {line.id for line in lines} == {f"{who}-{n}" for who in range(20) for n in range(5)}
        assert await store.thread("t").messages() == [line.message for line in lines]


# ── save with messages ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_state_and_messages_are_saved_in_one_write(thread: Any) -> None:
    point = await thread.save({"n": 1}, messages=[told("one", id="m1"), "two"])
    assert await kinds(thread) == ["message.added", "message.added", "state.saved"]
    assert (point.version, len({entry.write_id for entry in await thread.entries()})) == (3, 1)
    assert await thread.messages() == [told("one", id="m1"), "two"]
    assert await thread.load() == {"n": 1}
    again = await thread.save({"n": 2}, messages=[told("one", id="m1")])
    assert again.version == 4


async def test_a_save_with_messages_and_a_key_is_made_once(store: Any, thread: Any) -> None:
    point = await thread.save({"n": 1}, messages=[told("one", id="m1")], key="k")
    await thread.save({"n": 2})
    for handle in (thread, store.thread("t", user="alice")):
        assert await handle.save({"n": 1}, messages=[told("one", id="m1")], key="k") == point
    with pytest.raises(KeyReusedError):
        await thread.save({"n": 1}, messages=[told("other", id="m1")], key="k")
    assert len(await thread.messages()) == 1


async def test_a_refused_save_adds_no_messages(store: Any, thread: Any) -> None:
    await thread.save({"n": 1})
    await store.thread("t", user="alice").save({"n": 2})
    with pytest.raises(VersionConflictError):
        await thread.save({"n": 3}, messages=["lost"])
    with pytest.raises(InvalidInputError, match="takes no messages"):
        await thread.save({"n": 3}, messages=["lost"], after="@1")
    assert await thread.messages() == []


# ── repair of histories ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_open_calls_of_a_history_are_closed(thread: Any) -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "search"}}]}
    await thread.save({"messages": [asked, {"role": "user", "content": "still there?"}], "n": 1})
    assert await thread.repair_history() == [Orphan(0, "c1", "search")]
    state = await thread.load()
    closed = {"role": "tool", "tool_call_id": "c1", "name": "search", "content": INTERRUPTED}
    assert state == {"messages": [asked, closed, {"role": "user", "content": "still there?"}], "n": 1}
    assert await kinds(thread) == ["state.saved", "history.repaired", "state.saved"]
    assert len({entry.write_id for entry in (await thread.entries())[1:]}) == 1


async def test_a_history_without_open_calls_is_left_alone(store: Any, thread: Any) -> None:
    for at, state in enumerate([{"messages": []}, {"messages": ["a"]}, {"n": 1}, [1], None, {"messages": "text"}]):
        each = store.thread(f"t{at}")
        await each.save(state)
        assert await each.repair_history() == []
        assert (await each.info()).version == 1
    await thread.add_messages("no state at all")
    assert await thread.repair_history() == []


async def test_our_own_messages_have_ids_of_their_own_and_say_their_text() -> None:
    one, two = Message.text_message("hi"), Message.text_message("hi", "assistant", metadata={"n": 1})
    assert (one.role, two.role, two.metadata, one.text()) == ("user", "assistant", {"n": 1}, "hi")
    assert one.id != two.id
    assert one.message_id == one.id
    assert Message.text_message("hi", id="mine").id == "mine"
    result = Message.tool_message(
        "c1", [{"type": "text", "text": "a"}, {"text": "b"}], is_error=True, metadata={"n": 1}
    )
    assert (result.role, result.text(), result.metadata) == (
        "tool", "a\nb", {"n": 1, "tool_call_id": "c1", "is_error": True},
    )  # fmt: skip
