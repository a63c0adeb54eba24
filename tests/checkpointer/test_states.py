"""States: what an agent thinks with comes back as it was, and nobody overwrites what they have not seen."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from perdure.checkpointer import AgentState, InMemoryCheckpointer, Message
from perdure.errors import InvalidInputError, NotFoundError, UnsupportedValueError, VersionConflictError
from tests.checkpointer.places import ALICE, BOB, Face, Making, said, texts


class Trip(AgentState, kw_only=True):
    city: str = ""
    prices: dict[str, Decimal] = msgspec.field(default_factory=dict)
    seen: set[int] = msgspec.field(default_factory=set)


def trip() -> Trip:
    state = Trip(context=said("hello"), context_summary="a trip", city="Oslo", prices={"a": Decimal("1.50")}, seen={3})
    state.execution_meta.step = 4
    state.execution_meta.current_node = "book"
    state.execution_meta.internal_data["tries"] = (1, 2)
    return state


async def test_a_state_comes_back_as_it_was(face: Face) -> None:
    """S2.21, S2.22, S2.23."""
    state = trip()
    assert await face.get_state(ALICE) is None
    assert await face.put_state(ALICE, state) is state
    found = await face.get_state(ALICE)
    assert (type(found), found) == (Trip, trip())
    assert await face.get_state_cache(ALICE) == state


async def test_a_loaded_state_that_somebody_else_changed_is_refused(face: Face) -> None:
    await face.put_state(ALICE, AgentState())
    mine, theirs = await face.get_state(ALICE), await face.get_state_cache(ALICE)
    theirs.context_summary = "theirs"
    await face.put_state(ALICE, theirs)
    mine.context_summary = "mine"
    with pytest.raises(VersionConflictError):
        await face.put_state(ALICE, mine)
    with pytest.raises(VersionConflictError):
        await face.put_checkpoint(ALICE, mine, said("mine"))
    theirs.context_summary = "again"  # it knows what it saved itself
    await face.put_state(ALICE, theirs)
    assert ((await face.get_state(ALICE)).context_summary, await face.list_messages(ALICE)) == ("again", [])


async def test_a_fresh_state_takes_the_place_of_what_is_there(face: Face) -> None:
    await face.put_state(ALICE, AgentState(context_summary="old"))
    await face.put_state(ALICE, AgentState(context_summary="new"))
    assert (await face.get_state(ALICE)).context_summary == "new"


async def test_a_state_of_another_thread_or_user_does_not_conflict(face: Face) -> None:
    """S2.47."""
    await face.put_state(ALICE, AgentState(context_summary="main"))
    state = await face.get_state(ALICE)
    for config in ({**ALICE, "thread_id": "branch"}, BOB):
        await face.put_state(config, AgentState(context_summary="older"))
        await face.put_state(config, state)
        assert (await face.get_state(config)).context_summary == "main"


async def test_a_state_that_went_to_a_branch_still_knows_its_own_thread(face: Face) -> None:
    await face.put_state(ALICE, AgentState())
    state = await face.get_state(ALICE)
    await face.put_state({**ALICE, "thread_id": "branch"}, state)
    await face.put_state(ALICE, AgentState(context_summary="somebody else's"))
    with pytest.raises(VersionConflictError):
        await face.put_state(ALICE, state)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
async def test_a_copy_is_as_old_as_what_it_was_made_of(copied: Callable[[Any], Any]) -> None:
    checkpointer = InMemoryCheckpointer()
    await checkpointer.aput_state(ALICE, trip())
    mine = copied(await checkpointer.aget_state(ALICE))
    assert mine == trip()
    await checkpointer.aput_state(ALICE, AgentState(context_summary="somebody else's"))
    with pytest.raises(VersionConflictError):
        await checkpointer.aput_state(ALICE, mine)


async def test_messages_between_load_and_save_are_no_conflict(face: Face) -> None:
    await face.put_state(ALICE, AgentState())
    state = await face.get_state(ALICE)
    await face.put_messages(ALICE, said("meanwhile"))
    assert await face.put_state(ALICE, state) is state


async def test_a_state_and_messages_go_together(face: Face) -> None:
    """N2: `aput_checkpoint`."""
    state = trip()
    await face.put_checkpoint(ALICE, state, said("one", "two"), metadata={"node": "book", "execution_step": 4})
    assert await face.get_state(ALICE) == state
    kept = await face.list_messages(ALICE)
    assert [(each.text(), dict(each.metadata)) for each in kept] == [
        ("one", {"node": "book", "execution_step": 4}), ("two", {"node": "book", "execution_step": 4}),
    ]  # fmt: skip
    with pytest.raises(UnsupportedValueError, match=r"messages\[1\]"):
        await face.put_checkpoint(ALICE, AgentState(), [*said("three"), Message(role="user", content=object())])
    assert await face.get_state(ALICE) == state
    assert texts(await face.list_messages(ALICE)) == ["one", "two"]


async def test_a_cleared_thread_has_no_state_and_keeps_its_messages(face: Face) -> None:
    await face.put_checkpoint(ALICE, trip(), said("hello"))
    version = (await face.list_states(ALICE))[0].version
    await face.clear_state(ALICE)
    await face.clear_state(ALICE)
    await face.clear_state(BOB)
    assert await face.get_state(ALICE) is None
    assert await face.get_state(ALICE, ref=version) == trip()
    assert texts(await face.list_messages(ALICE)) == ["hello"]
    await face.put_state(ALICE, AgentState())
    assert await face.get_state(ALICE) == AgentState()


async def test_what_else_a_config_says_stands_on_the_point(face: Face) -> None:
    """S2.35: `thread_id` alone is enough."""
    config = {"thread_id": 7, "run_id": "run_1", "tags": ["a", {"b": 1}], "stream": True, "callback": print}
    await face.put_state(config, AgentState())
    await face.put_messages(config, said("hello"))
    (point,) = await face.list_states({"thread_id": "7"})
    assert (point.kind, point.metadata) == ("state", {"run_id": "run_1", "tags": ["a", {"b": 1}], "stream": True})
    assert [dict(each.metadata) for each in await face.list_messages({"thread_id": 7})] == [{"run_id": "run_1"}]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "thread_id"),
        ({"thread_id": None}, "thread_id"),
        ({"thread_id": 1.5}, "1.5"),
        ({"thread_id": True}, "True"),
        ({"thread_id": "t", "user_id": ["alice"]}, "user_id"),
        ("t", "mapping"),
    ],
)
async def test_a_config_that_names_no_thread_is_refused(config: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        await InMemoryCheckpointer().aget_state(config)


async def test_an_attribute_that_was_not_declared_is_refused(make: Making) -> None:
    face = make()
    state = Trip(city="Oslo")
    state.country = "Norway"  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedValueError, match=r"state\.country"):
        await face.put_state(ALICE, state)
    assert await face.get_state(ALICE) is None


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"context": []}, "AgentState"),
        (AgentState(context=()), "context"),  # type: ignore[arg-type]
        (AgentState(execution_meta=None), "execution_meta"),  # type: ignore[arg-type]
    ],
)
async def test_what_is_no_state_is_refused(state: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        await InMemoryCheckpointer().aput_state(ALICE, state)


async def test_a_value_that_cannot_be_kept_is_named() -> None:
    with pytest.raises(UnsupportedValueError, match=r"state\.city"):
        await InMemoryCheckpointer().aput_state(ALICE, Trip(city=object()))  # type: ignore[arg-type]


async def test_a_class_that_nobody_imported_is_named() -> None:
    checkpointer = InMemoryCheckpointer()
    cls: Any = type("Forgotten", (AgentState,), {"__module__": "elsewhere"}, kw_only=True)
    await checkpointer.aput_state(ALICE, cls())
    cls.__name__ = "Other"  # as if another process had not defined it
    with pytest.raises(InvalidInputError, match="'Forgotten': import the module"):
        await checkpointer.aget_state(ALICE)


def _grown() -> type[AgentState]:
    class Profile(AgentState, kw_only=True):
        first_name: str
        born: int

        @classmethod
        def upcast(cls, fields: dict[str, Any]) -> dict[str, Any]:
            name = fields.pop("name", None)
            return fields if name is None else {**fields, "first_name": name, "born": 0}

    return Profile


def _shrunk(**fields: Any) -> type[AgentState]:
    return type("Profile", (AgentState,), {"__annotations__": fields}, kw_only=True)  # type: ignore[call-overload]


async def test_older_fields_are_upcast_when_a_state_is_loaded() -> None:
    checkpointer = InMemoryCheckpointer()
    old: Any = _shrunk(name=str)
    await checkpointer.aput_state(ALICE, old(name="Ada"))
    new: Any = _grown()
    assert await checkpointer.aget_state(ALICE) == new(first_name="Ada", born=0)


async def test_fields_that_do_not_fit_their_class_any_more_are_named() -> None:
    checkpointer = InMemoryCheckpointer()
    old: Any = _shrunk(name=str)
    await checkpointer.aput_state(ALICE, old(name="Ada"))
    newer: Any = _shrunk(title=str)
    with pytest.raises(InvalidInputError, match=r"'name' that Profile no longer has.*upcast"):
        await checkpointer.aget_state(ALICE)
    await checkpointer.aput_state(BOB, newer(title="Dr"))
    newest: Any = _shrunk(title=str, born=int)
    with pytest.raises(InvalidInputError, match=r"lacks the field 'born' that Profile needs.*upcast"):
        await checkpointer.aget_state(BOB)
    del old, newer, newest


async def test_a_state_that_is_no_agents_is_told() -> None:
    checkpointer = InMemoryCheckpointer()
    await checkpointer.thread(ALICE).save({"messages": []})
    with pytest.raises(InvalidInputError, match=r"store\.thread"):
        await checkpointer.aget_state(ALICE)


async def test_older_states_are_listed_loaded_compared_and_gone_back_to(face: Face) -> None:
    for number in range(3):
        await face.put_state(ALICE, AgentState(context=said(*map(str, range(number))), context_summary=str(number)))
        await face.put_messages(ALICE, said(f"turn {number}"))
    newest, _, oldest = await face.list_states(ALICE)
    assert len(await face.list_states(ALICE, limit=2)) == 2
    assert isinstance(newest.timestamp, datetime)
    assert (await face.get_state(ALICE, ref=oldest.version)).context_summary == "0"
    assert (await face.get_state(ALICE, ref=oldest.id)).context_summary == "0"
    compared = await face.compare_states(ALICE, oldest, newest)
    assert compared.changed_fields == ["context", "context_summary"]
    with pytest.raises(NotFoundError):
        await face.get_state(ALICE, ref="@chk_nowhere")


async def test_going_back_leaves_behind_what_was_said_since_and_erases_nothing(face: Face) -> None:
    for number in range(3):
        await face.put_checkpoint(ALICE, AgentState(context_summary=str(number)), said(f"turn {number}"))
    newest, _, oldest = await face.list_states(ALICE)
    back = await face.restore_state(ALICE, oldest)
    assert (back.context_summary, (await face.get_state(ALICE)).context_summary) == ("0", "0")
    assert texts(await face.list_messages(ALICE)) == ["turn 0"]
    assert (await face.get_state(ALICE, ref=newest.version)).context_summary == "2"
    back.context_summary = "from there"
    await face.put_checkpoint(ALICE, back, said("another turn 1"))
    assert texts(await face.list_messages(ALICE)) == ["turn 0", "another turn 1"]


async def test_an_old_state_alone_can_be_put_in_the_place_of_the_newest(face: Face) -> None:
    for number in range(3):
        await face.put_checkpoint(ALICE, AgentState(context_summary=str(number)), said(f"turn {number}"))
    await face.put_state(ALICE, await face.get_state(ALICE, ref="@-3"))
    assert (await face.get_state(ALICE)).context_summary == "0"
    assert len(await face.list_messages(ALICE)) == 3


async def test_only_the_last_states_stay_where_a_limit_is_given_and_all_messages(make: Making) -> None:
    """N2: `state_history_limit`."""
    face = make(state_history_limit=3)
    for number in range(40):
        await face.put_checkpoint(ALICE, AgentState(context_summary="x" * number), said(f"turn {number}"))
    assert 3 <= len(await face.list_states(ALICE, limit=100)) < 30
    assert (await face.get_state(ALICE)).context_summary == "x" * 39
    assert texts(await face.list_messages(ALICE)) == [f"turn {number}" for number in range(40)]


async def test_a_fork_carries_state_and_messages(face: Face) -> None:
    await face.put_checkpoint(ALICE, AgentState(context_summary="before"), said("one", "two"))
    (point,) = await face.list_states(ALICE)
    await face.put_checkpoint(ALICE, AgentState(context_summary="after"), said("three"))
    then = await face.fork({**ALICE, "run_id": "r"}, "then", ref=point)
    now = await face.fork(ALICE, "now")
    assert then == {"thread_id": "then", "user_id": "alice", "run_id": "r"}
    assert (await face.get_state(then)).context_summary == "before"
    assert (await face.get_state(now)).context_summary == "after"
    await face.put_messages(then, said("elsewhere"))
    await face.put_messages(now, [Message.text_message("TWO", id="two")])
    assert texts(await face.list_messages(then)) == ["one", "two", "elsewhere"]
    assert texts(await face.list_messages(now, search="two")) == ["TWO"]
    assert texts(await face.list_messages(ALICE)) == ["one", "two", "three"]
