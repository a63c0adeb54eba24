"""Histories that a crash left open are closed, and lost states made again from what was said."""

from __future__ import annotations

from typing import Any

from perdure.checkpointer import AgentState, Message
from perdure.core.entries import EntryKind
from perdure.core.history import INTERRUPTED
from tests.checkpointer.places import ALICE, Face, said, texts
from tests.checkpointer.test_states import Trip

CALLS = Message(
    "assistant", "", [{"id": "c1", "name": "search"}, {"id": "c2", "function": {"name": "book"}}], id="calls"
)


def result(call: str, text: str, **metadata: Any) -> Message:
    return Message("tool", text, metadata={"tool_call_id": call, **metadata}, id=f"result {call}")


async def kinds(face: Face) -> list[str]:
    async def read() -> list[str]:
        return [each.kind for each in await face.checkpointer.thread(ALICE).entries()]

    work = read()
    return face.checkpointer._drive(work) if face.sync else await work


async def test_calls_without_a_result_are_closed_in_their_place(face: Face) -> None:
    """B14: marked results, in the state and among the messages, and an entry that tells of it."""
    context = [*said("book it"), CALLS, result("c1", "found"), *said("hello?")]
    await face.put_checkpoint(ALICE, Trip(context=context, city="Oslo"), context)
    (open_call,) = await face.repair_history(ALICE)
    assert (open_call.call_id, open_call.name) == ("c2", "book")
    state = await face.get_state(ALICE)
    closing = Message(
        "tool", INTERRUPTED, metadata={"tool_call_id": "c2", "name": "book", "repaired": True, "is_error": True},
        id="repaired-c2",
    )  # fmt: skip
    assert (state.city, state.context) == ("Oslo", [*context[:3], closing, *context[3:]])
    assert await face.get_message(ALICE, "repaired-c2") == closing
    assert EntryKind.HISTORY_REPAIRED in await kinds(face)
    before = await kinds(face)
    assert await face.repair_history(ALICE) == []
    assert await kinds(face) == before


async def test_there_is_nothing_to_close_where_there_is_no_state(face: Face) -> None:
    assert await face.repair_history(ALICE) == []
    await face.put_messages(ALICE, said("hello"))
    assert await face.repair_history(ALICE) == []


async def test_a_result_that_was_recorded_is_used(face: Face) -> None:
    """B14: nobody is told that a result is unknown when it lies among the messages."""
    context = [*said("book it"), CALLS]
    await face.put_checkpoint(ALICE, AgentState(context=context), context)
    await face.put_messages(ALICE, [result("c1", "found")])
    assert [each.call_id for each in await face.repair_history(ALICE)] == ["c2"]
    found = (await face.get_state(ALICE)).context
    assert texts(found) == ["book it", "", "found", INTERRUPTED]
    assert texts(await face.list_messages(ALICE)) == ["book it", "", "found", INTERRUPTED]


async def test_a_state_is_made_again_from_what_was_said(face: Face) -> None:
    """S2.53, B14."""
    messages = [*said("book it"), CALLS, result("c1", "found"), result("c2", "booked")]
    await face.put_messages(ALICE, messages)
    assert (await face.repair_conversation(ALICE)).context == messages
    await face.put_state(ALICE, Trip(city="Oslo", context=[]))
    again = await face.repair_conversation(ALICE)
    assert (again, await face.get_state(ALICE)) == (Trip(city="Oslo", context=messages),) * 2
    assert await face.list_messages(ALICE) == messages


async def test_what_is_made_again_has_no_open_calls(face: Face) -> None:
    """B14."""
    await face.put_messages(ALICE, [*said("book it"), CALLS])
    state = await face.repair_conversation(ALICE)
    assert texts(state.context) == ["book it", "", INTERRUPTED, INTERRUPTED]
    assert texts(await face.list_messages(ALICE)) == texts(state.context)
    assert await face.repair_history(ALICE) == []
