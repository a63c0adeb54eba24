"""A thread as its users hold it, on every storage, for both kinds of callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import ANY_USER, Message, Perdure, Thread, register
from perdure.core.entries import EntryKind
from perdure.core.errors import (
    AmbiguousThreadError,
    InvalidInputError,
    InvalidPathError,
    InvalidRefError,
    KeyReusedError,
    NestingTooDeepError,
    NotFoundError,
    PerdureError,
    ThreadExistsError,
    UnsupportedValueError,
    VersionConflictError,
)
from perdure.testing.clock import ManualClock


@pytest.fixture(params=["memory", "file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {"memory": "memory://", "file": f"file://{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    return places[request.param]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[Perdure]:
    async with Perdure.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def thread(store: Perdure) -> Thread:
    return store.thread("ticket-42", user="alice")


async def test_both_doors_lead_to_the_same_state(thread: Thread) -> None:
    await thread.append("messages", {"role": "user", "content": "hi"})
    await thread.update(set={"context.city": "Paris"}, append={"messages": ["reply"]})
    state = await thread.load()
    state["done"] = (1, 2)
    point = await thread.save(state, kind="pre_operation", note="before deploy", metadata={"by": "me"})
    assert await thread.load() == state
    assert (point.version, point.kind, point.note, point.metadata) == (
        3,
        "pre_operation",
        "before deploy",
        {"by": "me"},
    )


async def test_an_absent_state_is_an_error_unless_a_default_is_given(thread: Thread) -> None:
    with pytest.raises(NotFoundError):
        await thread.load()
    assert await thread.load(default={"fresh": True}) == {"fresh": True}
    assert await thread.load("@7", default=None) is None


async def test_a_state_can_be_any_value(store: Perdure) -> None:
    for at, value in enumerate([None, 5, [1, {"a": ()}], "text", {1: 2}]):
        thread = store.thread(f"t{at}")
        await thread.save(value)
        assert await thread.load() == value


async def test_a_stale_save_is_refused_and_changes_nothing(store: Perdure, thread: Thread) -> None:
    await thread.save({"n": 1})
    other = store.thread("ticket-42", user="alice")
    await other.save({"n": 2})
    with pytest.raises(VersionConflictError) as caught:
        await thread.save({"n": 3})
    assert (caught.value.expected, caught.value.actual) == (1, 2)
    assert await other.load() == {"n": 2}


async def test_append_goes_on_after_somebody_elses_change_but_does_not_count_it_as_seen(
    store: Perdure, thread: Thread
) -> None:
    await thread.save({"n": 1, "messages": []})
    await store.thread("ticket-42", user="alice").update(set={"n": 2})
    await thread.append("messages", "mine")
    assert await thread.load("@-1") == {"n": 2, "messages": ["mine"]}
    with pytest.raises(VersionConflictError):
        await thread.save({"n": 1, "messages": ["mine"]})


async def test_a_handle_that_has_seen_nothing_adopts_the_head(store: Perdure, thread: Thread) -> None:
    await thread.save({"n": 1})
    await store.thread("ticket-42", user="alice").save({"n": 2})
    assert await thread.load() == {"n": 2}


async def test_update_with_set_is_refused_when_the_state_changed(store: Perdure, thread: Thread) -> None:
    await thread.load(default=None)
    await thread.save({"n": 1})
    await store.thread("ticket-42", user="alice").update(set={"n": 2})
    with pytest.raises(VersionConflictError):
        await thread.update(set={"n": 3})


async def test_expected_zero_means_the_thread_must_be_new(thread: Thread) -> None:
    await thread.save({"n": 1}, expected=0)
    with pytest.raises(VersionConflictError):
        await thread.save({"n": 1}, expected=0)
    with pytest.raises(InvalidInputError):
        await thread.save({}, expected=True)


async def test_the_same_key_again_gives_the_earlier_answer(store: Perdure, thread: Thread) -> None:
    point = await thread.save({"n": 1}, key="k", note="a")
    await thread.save({"n": 2})
    again = await store.thread("ticket-42", user="alice").save({"n": 1}, key="k", note="a")
    assert again == point
    assert await thread.load() == {"n": 2}


@pytest.mark.parametrize("other", [{"n": 2}, {"n": True}, {"n": 1, "m": 0}])
async def test_the_same_key_with_another_request_is_refused(thread: Thread, other: Any) -> None:
    await thread.save({"n": 1}, key="k")
    with pytest.raises(KeyReusedError):
        await thread.save(other, key="k")
    with pytest.raises(KeyReusedError):
        await thread.append("messages", "x", key="k")


async def test_a_key_makes_append_happen_once(thread: Thread) -> None:
    first = await thread.append("messages", "a", key="k")
    assert await thread.append("messages", "a", key="k") == first
    assert await thread.load() == {"messages": ["a"]}


async def test_states_at_every_kind_of_ref(thread: Thread, clock: ManualClock) -> None:
    for n in range(1, 5):
        point = await thread.save({"n": n}, status="error" if n == 4 else None)
        clock.advance(timedelta(hours=1))
    assert await thread.load("@2") == {"n": 2}
    assert await thread.load("@-1") == {"n": 4}
    assert await thread.load("@-3") == {"n": 2}
    assert await thread.load(f"@{point.id}") == {"n": 4}
    assert await thread.load("@2h") == {"n": 3}
    assert await thread.load("@before-error") == {"n": 3}
    for absent in ("@9", "@-9", "@chk_nothing", "@tag:none", "@5d"):
        with pytest.raises(NotFoundError):
            await thread.load(absent)
    with pytest.raises(InvalidRefError):
        await thread.load("yesterday")


async def test_history_lists_newest_first_in_pages(thread: Thread) -> None:
    for n in range(7):
        await thread.save({"n": n}, kind="routine" if n % 2 else "manual", metadata={"n": n})
    everything = await thread.history()
    assert [point.version for point in everything] == [7, 6, 5, 4, 3, 2, 1]
    assert [point.parent_checkpoint_id for point in everything[:-1]] == [point.id for point in everything[1:]]
    page = await thread.history(limit=3)
    assert page + await thread.history(limit=9, before=page[-1]) == everything
    assert [point.version for point in await thread.history(kind="routine")] == [6, 4, 2]
    assert [point.version for point in await thread.history(metadata={"n": 3})] == [4]
    assert await thread.history(metadata={"n": 3.0}) == []


async def test_update_makes_a_checkpoint_only_when_asked(thread: Thread) -> None:
    await thread.append("messages", 1)
    await thread.append("messages", 2, checkpoint=True)
    assert [point.version for point in await thread.history()] == [2]


async def test_entries_are_the_log(thread: Thread) -> None:
    await thread.append("messages", 1)
    await thread.save({"n": 1})
    entries = await thread.entries()
    assert [(entry.version, entry.kind) for entry in entries] == [
        (1, EntryKind.STATE_UPDATED),
        (2, EntryKind.STATE_SAVED),
    ]
    assert await thread.entries(after=1) == entries[1:]
    assert await thread.entries(limit=1) == entries[:1]


async def test_messages_are_everything_that_was_said(thread: Thread) -> None:
    await thread.append("messages", {"content": "a"}, {"content": "b"})
    await thread.update(set={"messages.1.content": "b, corrected"})
    state = await thread.load()
    state["messages"] = [*state["messages"][1:], {"content": "c"}]
    await thread.save(state)
    assert await thread.messages() == [{"content": "a"}, {"content": "b, corrected"}, {"content": "c"}]
    assert await thread.messages(limit=1) == [{"content": "c"}]
    assert await thread.messages(limit=0) == []


async def test_frozen_messages_are_saved_by_what_was_added(thread: Thread) -> None:
    state: dict[str, Any] = {"messages": [], "n": 0}
    for n in range(30):
        state["messages"].append(Message("user", f"text {n} " * 50))
        state["n"] = n
        await thread.save(state)
    sizes = [len(entry.payload or b"") for entry in await thread.entries()]
    assert await thread.load() == state
    assert max(sizes[1:]) < 700
    state["messages"][3] = Message("user", "replaced")
    await thread.save(state)
    assert await thread.load() == state


class Note(msgspec.Struct, frozen=True):
    """Frozen, but it holds a list, which is not."""

    words: list[str]


async def test_a_frozen_struct_that_holds_something_mutable_is_compared_by_its_bytes(thread: Thread) -> None:
    register(Note, tag="tests.Note")
    state: dict[str, Any] = {"notes": [Note([str(n)]) for n in range(30)]}
    for turn in range(4):
        state["notes"].append(Note(["new"]))
        state["notes"][3].words.append(f"changed in place, turn {turn}")
        await thread.save(state)
        assert await thread.load("@-1") == state


async def test_a_fork_shares_the_past_and_goes_its_own_way(store: Perdure, thread: Thread) -> None:
    for n in range(1, 4):
        await thread.save({"n": n})
    branch = await thread.fork("@2", to="what-if")
    assert await branch.load() == {"n": 2}
    await branch.append("list", "b")
    await thread.delete()
    assert await branch.load() == {"n": 2, "list": ["b"]}
    assert await branch.load("@1") == {"n": 1}
    assert [point.version for point in await branch.history()] == [2, 1]
    assert (await branch.info()).forked_from == 2
    with pytest.raises(ThreadExistsError):
        await branch.fork(to="what-if")
    with pytest.raises(NotFoundError):
        await thread.load()


async def test_a_checkpoint_of_the_parent_is_a_ref_in_the_fork(thread: Thread) -> None:
    point = await thread.save({"n": 1})
    await thread.save({"n": 2})
    branch = await thread.fork(to="what-if")
    assert await branch.load(f"@{point.id}") == {"n": 1}


async def test_compare_names_what_changed(thread: Thread) -> None:
    await thread.save({"status": "open", "list": [1], "gone": 1})
    await thread.save({"status": "closed", "list": [1, 2], "new": True})
    found = await thread.compare("@1", "@2")
    assert found.changed_fields == ["status", "list", "gone", "new"]
    assert str(found.differences[0]) == "status: 'open' -> 'closed'"


async def test_a_thread_of_another_user_is_not_there(store: Perdure, thread: Thread) -> None:
    point = await thread.save({"n": 1})
    mallory = store.thread("ticket-42", user="mallory")
    assert await mallory.load(default=None) is None
    assert await mallory.history() == []
    for ref in ("@1", f"@{point.id}"):
        assert await mallory.load(ref, default="nothing") == "nothing"
    await mallory.save({"n": "mallory's"})
    assert await thread.load() == {"n": 1}


async def test_a_caller_who_names_no_user_means_the_thread_that_belongs_to_nobody(
    store: Perdure, thread: Thread
) -> None:
    await thread.save({"secret": 1})
    for nobodys in (store.thread("ticket-42"), store.thread("ticket-42", user="")):
        assert await nobodys.load(default=None) is None
        assert await nobodys.history() == await nobodys.entries() == await nobodys.messages() == []
    await store.thread("ticket-42").append("messages", "nobody's")
    assert await store.thread("ticket-42", user="").load() == {"messages": ["nobody's"]}
    assert await thread.load() == {"secret": 1}


async def test_trusted_code_gets_the_only_match_or_is_told_the_users(store: Perdure, thread: Thread) -> None:
    await thread.save({"n": 1})
    only = store.thread("ticket-42", user=ANY_USER)
    assert (await only.load(), only.user) == ({"n": 1}, "alice")
    await only.save({"n": 2})
    assert await thread.load() == {"n": 2}
    await store.thread("ticket-42", user="bob").save({"n": 3})
    await store.thread("ticket-42").save({"n": 4})
    with pytest.raises(AmbiguousThreadError, match="user=") as caught:
        await store.thread("ticket-42", user=ANY_USER).load()
    assert set(caught.value.users) == {"alice", "bob", None}
    assert all(repr(each) in str(caught.value) for each in ("alice", "bob"))
    assert await only.load() == {"n": 2}


async def test_what_cannot_be_kept_is_refused_before_anything_is_written(thread: Thread) -> None:
    await thread.save({"n": 1})
    for write in (
        lambda: thread.save({"n": 2, "tools": [object()]}),
        lambda: thread.append("messages", {"x": object()}),
        lambda: thread.update(set={"n": 2, "bad": object()}),
        lambda: thread.save({"n": 2}, metadata={"bad": object()}),
    ):
        with pytest.raises(UnsupportedValueError):
            await write()
    assert await thread.load() == {"n": 1}
    assert (await thread.info()).version == 1


async def test_large_values_are_kept_once(store: Perdure, thread: Thread) -> None:
    text, data = "é" * 80_000, bytes(range(256)) * 400
    state: dict[str, Any] = {"document": text, "data": (data,), "messages": [{"content": text}]}
    await thread.save(state)
    state["copy"] = text
    await thread.save(state)
    assert await thread.load() == state
    assert await thread.load("@1") == {key: value for key, value in state.items() if key != "copy"}
    assert await thread.messages() == [{"content": text}]
    assert (await store.sizes()).blobs == 2


async def test_a_long_thread_is_restored_from_a_snapshot(url: str, store: Perdure, thread: Thread) -> None:
    state: dict[str, Any] = {"messages": []}
    for n in range(120):
        state["messages"].append({"n": n, "content": f"{n}" * 300})
        state["summary"] = f"{n} " * 300  # a folder of files waits until the changes weigh more than the state
        await thread.save(state)
    assert (await thread.info()).sizes.snapshots >= 1
    if url != "memory://":
        async with Perdure.open(url) as again:
            assert await again.thread("ticket-42", user="alice").load() == state
    for version in (1, 50, 119):
        assert (await thread.load(f"@{version}"))["messages"] == state["messages"][:version]


async def test_many_writers_of_one_thread_lose_nothing(store: Perdure) -> None:
    handles = [store.thread("shared", user="alice") for _ in range(20)]
    await asyncio.gather(*(handle.append("messages", n) for n, handle in enumerate(handles)))
    state = await store.thread("shared", user="alice").load()
    assert sorted(state["messages"]) == list(range(20))
    assert (await handles[0].info()).version == 20


@pytest.mark.parametrize("url", ["file", "sqlite"], indirect=True)
async def test_a_thread_made_again_by_somebody_else_is_not_mixed_up_with_the_old_one(url: str) -> None:
    async with Perdure.open(url) as one, Perdure.open(url) as two:
        await one.thread("t").save({"old": 1})
        await two.thread("t").delete()
        await two.thread("t").save({"new": 1})
        await one.thread("t").append("messages", "x")
        assert await two.thread("t").load() == {"new": 1, "messages": ["x"]}


@pytest.mark.parametrize("given", [{"default": {}}, {}])
async def test_who_saw_that_there_is_nothing_does_not_overwrite_what_came_since(
    store: Perdure, given: dict[str, Any]
) -> None:
    one, two = store.thread("t", user="alice"), store.thread("t", user="alice")
    for each in (one, two):
        with suppress(NotFoundError):
            assert await each.load(**given) == {}
    await one.save({"by": "one"})
    with pytest.raises(VersionConflictError):
        await two.save({"by": "two"})
    assert await two.load() == {"by": "one"}
    assert (await two.save({"by": "both"})).version == 2


@pytest.mark.parametrize("url", ["file", "sqlite"], indirect=True)
async def test_who_saw_that_a_thread_is_gone_makes_a_new_one(url: str) -> None:
    async with Perdure.open(url) as one, Perdure.open(url) as two:
        mine = one.thread("t", user="alice")
        await mine.save({"n": 1})
        await two.thread("t", user="alice").delete()
        assert await mine.load(default=None) is None
        await mine.save({"n": 2})
        assert await two.thread("t", user="alice").load() == {"n": 2}


@pytest.mark.parametrize("url", ["file", "sqlite"], indirect=True)
async def test_an_append_to_a_thread_made_again_does_not_let_its_caller_erase_it(url: str) -> None:
    async with Perdure.open(url) as one, Perdure.open(url) as two:
        mine, theirs = one.thread("t"), two.thread("t")
        await mine.save({"log": []})
        await mine.append("log", "mine")
        state = await mine.load()
        await theirs.delete()
        await theirs.save({"log": [], "theirs": "precious"})
        await theirs.append("log", "theirs")  # at the very version that the other one has seen
        await mine.append("log", "late")
        with pytest.raises(VersionConflictError):
            await mine.save(state)
        assert await theirs.load() == {"log": ["theirs", "late"], "theirs": "precious"}


@pytest.mark.parametrize("url", ["file", "sqlite"], indirect=True)
async def test_a_thread_that_somebody_else_deleted_is_gone_for_who_knew_it_and_new_for_others(url: str) -> None:
    async with Perdure.open(url) as one, Perdure.open(url) as two:
        knows = one.thread("t", user="alice")
        await knows.save({"n": 1})
        await two.thread("t", user="alice").delete()
        for write in (lambda: knows.append("messages", "x"), lambda: knows.save({"n": 2})):
            with pytest.raises((NotFoundError, VersionConflictError)):
                await write()
        await one.thread("t", user="alice").append("messages", "fresh")
        assert await two.thread("t", user="alice").load() == {"messages": ["fresh"]}


@pytest.mark.parametrize("url", ["file", "sqlite"], indirect=True)
async def test_a_thread_written_by_a_fresh_process_each_turn_still_gets_snapshots(url: str) -> None:
    for turn in range(40):
        async with Perdure.open(url) as store:
            await store.thread("t").update(set={"newest": f"{turn} " * 1000}, append={"messages": [f"{turn} " * 100]})
    async with Perdure.open(url) as store:
        assert (await store.thread("t").info()).sizes.snapshots >= 1
        assert len((await store.thread("t").load())["messages"]) == 40


async def test_a_handle_keeps_its_store_open(url: str) -> None:
    thread = Perdure.open(url).thread("t")
    await thread.append("messages", 1)
    assert await thread.load() == {"messages": [1]}


async def test_a_thread_made_again_is_not_the_one_a_handle_has_seen(store: Perdure, thread: Thread) -> None:
    await thread.save({"a": 1})
    await store.thread("ticket-42", user="alice").delete()
    await store.thread("ticket-42", user="alice").save({"other": 1})
    with pytest.raises(VersionConflictError):
        await thread.save({"a": 2})
    assert await store.thread("ticket-42", user="alice").load() == {"other": 1}


async def test_a_single_path_to_delete_is_one_path(thread: Thread) -> None:
    await thread.save({"user": 1, "u": 1, "s": 2})
    await thread.update(delete="user")
    assert await thread.load() == {"u": 1, "s": 2}


async def test_a_path_deeper_than_a_state_may_be_is_refused_before_anything_is_written(thread: Thread) -> None:
    await thread.save({"a": 1})
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    for path, value in ((".".join("y" * 5000), 1), (".".join("y" * 60), deep)):
        with pytest.raises(NestingTooDeepError):
            await thread.update(set={path: value})
    assert (await thread.info()).version == 1


@dataclass
class Plan:
    goal: str


async def test_fields_of_an_object_are_set_but_never_added_or_deleted(thread: Thread) -> None:
    register(Plan, tag="tests.Plan")
    await thread.save({"plan": Plan("a")})
    await thread.update(set={"plan.goal": "b"})
    for change in ({"set": {"plan.other": 1}}, {"delete": ["plan.goal"]}):
        with pytest.raises(InvalidPathError):
            await thread.update(**change)  # type: ignore[arg-type]
    assert await thread.load() == {"plan": Plan("b")}


async def test_a_thread_that_belongs_to_nobody_can_be_named(store: Perdure) -> None:
    await store.thread("solo").save({"n": 1})
    await store.thread("solo", user="bob").save({"n": 2})
    assert await store.thread("solo", user="").load() == {"n": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda thread: thread.append(["a", "b"], 1),
        lambda thread: thread.update(set=[("a", 1)]),
        lambda thread: thread.update(delete=5),
        lambda thread: thread.update(delete=0),
        lambda thread: thread.update(delete=None),
        lambda thread: thread.update(delete=""),
        lambda thread: thread.history(since="2026-01-01"),
        lambda thread: thread.entries(after="1"),
    ],
)
async def test_wrong_arguments_are_named_by_our_errors(thread: Thread, wrong: Any) -> None:
    with pytest.raises(PerdureError):
        await wrong(thread)
