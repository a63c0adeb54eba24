"""Threads and the small values beside them: titles, tags, owners; results of tools; values that expire."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import ANY_USER
from perdure.checkpointer import AgentState, InMemoryCheckpointer, ThreadInfo
from perdure.errors import AmbiguousThreadError, InvalidIdError, InvalidInputError
from perdure.testing.clock import ManualClock
from tests.checkpointer.places import ALICE, BOB, Face, Making, said


def at(thread: str, user: str = "alice") -> dict[str, str]:
    return {"thread_id": thread, "user_id": user}


def info(thread: str, name: str | None = None, user: str | None = "alice", **fields: Any) -> ThreadInfo:
    return ThreadInfo(thread_id=thread, user_id=user, thread_name=name, **fields)


async def names(face: Face, config: dict[str, Any] | None = None, **asked: Any) -> list[str]:
    whose = {"user_id": "alice"} if config is None else config
    return [each.thread_id for each in await face.list_threads(whose, **asked)]


async def test_a_thread_that_only_has_a_state_is_listed(face: Face) -> None:
    """S2.29."""
    await face.put_state(at("a"), AgentState())
    await face.put_messages(at("b"), said("hello"))
    await face.put_state(at("c", "bob"), AgentState())
    assert await names(face) == ["b", "a"]
    await face.put_state(at("a"), AgentState())
    assert await names(face, limit=1) == ["a"]
    assert await names(face, {}) == ["a", "c", "b"]
    assert (await face.get_thread(at("b"))).user_id == "alice"


async def test_a_thread_is_named_tagged_and_renamed(face: Face) -> None:
    """S2.27, S2.28, S2.30, N2: `aget_thread`."""
    assert await face.get_thread(ALICE) is None
    about = {"tags": ["weather"], "participants": ["alice", "bot"], "level": 3}
    await face.put_thread(ALICE, info("t", "Weather", metadata=about, run_id="run_1", status="archived"))
    found = await face.get_thread(ALICE)
    assert (found.thread_id, found.user_id, found.thread_name, found.run_id) == ("t", "alice", "Weather", "run_1")
    assert (found.metadata, found.tags, found.participants) == (about, ("weather",), ("alice", "bot"))
    assert found.status == "archived"
    await face.put_thread(ALICE, info("t", "Rain", metadata={**about, "tags": ["rain"]}))
    again = await face.get_thread(ALICE)
    assert (again.thread_name, again.tags, again.status, again.run_id) == ("Rain", ("rain",), "archived", None)


async def test_a_given_time_counts_until_something_is_newer(face: Face) -> None:
    given = datetime(2024, 3, 1, 12, tzinfo=UTC)
    await face.put_thread(ALICE, info("t", "Weather", updated_at=given))
    assert (await face.get_thread(ALICE)).updated_at == given
    await face.put_thread(ALICE, info("t", "Weather", updated_at="2024-03-02T12:00:00"))
    found = await face.get_thread(ALICE)
    assert (found.updated_at, found.metadata) == (datetime(2024, 3, 2, 12, tzinfo=UTC), {})
    await face.put_thread(ALICE, found)
    assert (await face.get_thread(ALICE)).updated_at == found.updated_at
    await face.put_thread(ALICE, info("t", "Rain"))
    assert (await face.get_thread(ALICE)).updated_at > given.replace(year=2025)
    with pytest.raises(InvalidInputError, match="updated_at"):
        await face.put_thread(ALICE, info("t", "Weather", updated_at="yesterday"))


async def test_threads_are_found_by_what_is_known_of_them(face: Face) -> None:
    for thread, tag, level in (("a", "x", 1), ("b", "x", 2), ("c", "y", 2)):
        about = {"tags": [tag], "level": level}
        await face.put_thread(at(thread), info(thread, f"Trip {thread}", metadata=about, status=f"s{level}"))
    assert await names(face, tag="x") == ["b", "a"]
    assert await names(face, metadata={"level": 2}) == ["c", "b"]
    assert await names(face, metadata={"level": 2}, tag="x") == ["b"]
    assert await names(face, status="s1") == ["a"]
    assert await names(face, search="TRIP B") == ["b"]
    assert await names(face, offset=1, limit=1) == ["b"]
    assert await names(face, {"user_id": "bob"}, search="Trip") == []


async def test_an_info_of_another_thread_or_user_is_refused(face: Face) -> None:
    await face.put_state(ALICE, AgentState())
    await face.put_state({"thread_id": "nobody's"}, AgentState())
    for config, wrong in (
        (ALICE, info("other")),
        (ALICE, info("t", user="bob")),
        ({"thread_id": "t"}, info("t", user="bob")),  # it is alice's
        ({"thread_id": "nobody's"}, info("nobody's")),
    ):
        with pytest.raises(InvalidInputError, match="the thread info is of"):
            await face.put_thread(config, wrong)
    assert len(await face.list_threads()) == 2


async def test_trusted_code_finds_the_only_thread_of_an_id(face: Face) -> None:
    """S2.35."""
    await face.put_thread({"thread_id": "t"}, info("t", "Weather"))  # whose it is, only the info says
    await face.put_state({"thread_id": "t"}, AgentState(context_summary="hers"))
    assert (await face.get_state(ALICE)).context_summary == "hers"
    await face.put_state(BOB, AgentState(context_summary="his"))
    with pytest.raises(AmbiguousThreadError):
        await face.get_state({"thread_id": "t"})
    assert (await face.get_state(ALICE)).context_summary == "hers"


async def test_a_thread_id_alone_lists_and_searches_the_threads_of_its_owner() -> None:
    checkpointer = InMemoryCheckpointer(user_id_type="int")
    for user, thread in ((0, "t"), (0, "more"), (7, "his"), (None, "nobodys")):
        config = {"thread_id": thread, "user_id": user}
        await checkpointer.aput_messages(config, said("hello", f"of {user}"))
    for thread, found in {"t": ["more", "t"], "his": ["his"], "nobodys": ["nobodys"], "none": ["nobodys"]}.items():
        config = {"thread_id": thread}
        assert [each.thread_id for each in await checkpointer.alist_threads(config)] == found
        assert [each.thread_id for each in await checkpointer.asearch(config, "hello")] == found
    assert len(await checkpointer.asearch({}, "hello")) == 4


async def test_any_user_in_a_config_is_trusted_code_and_refused_where_isolation_is_enforced() -> None:
    checkpointer = InMemoryCheckpointer()
    await checkpointer.aput_state(ALICE, AgentState(context_summary="hers"))
    config = {"thread_id": "t", "user_id": ANY_USER}
    assert (await checkpointer.aget_state(config)).context_summary == "hers"
    for kind in ("string", "int"):
        enforced = InMemoryCheckpointer(enforce_user_isolation=True, user_id_type=kind)
        with pytest.raises(InvalidInputError, match="needs a user_id"):
            await enforced.aget_state(config)


async def test_isolation_asks_every_config_for_its_user() -> None:
    """N2: `enforce_user_isolation`."""
    checkpointer = InMemoryCheckpointer(enforce_user_isolation=True)
    for work in (
        checkpointer.aput_state({"thread_id": "t"}, AgentState()),
        checkpointer.aput_messages({"thread_id": "t"}, said("x")),
        checkpointer.aget_tool_result({"thread_id": "t", "user_id": ""}, "call"),
        checkpointer.aput_tool_result({"thread_id": "t"}, "call", 1),
        checkpointer.aget_cache_value("n", "k", config={"thread_id": "t"}),
        checkpointer.aclean_thread({"thread_id": "t"}),
        checkpointer.alist_threads({"thread_id": "t"}),
        checkpointer.aget_state({"thread_id": "t"}),
        checkpointer.alist_threads(),
        checkpointer.asearch({}, "x"),
        checkpointer.aanalytics({"user_id": ""}),
        checkpointer.aput_thread({"thread_id": "t"}, info("t")),
    ):
        with pytest.raises(InvalidInputError, match="user_id"):
            await work
    await checkpointer.aput_state(ALICE, AgentState())


async def test_a_thread_is_deleted_with_everything_that_belongs_to_it(face: Face) -> None:
    """N2: `aclean_thread`."""
    for config in (ALICE, BOB):
        await face.put_checkpoint(config, AgentState(), said("hello"))
        await face.put_tool_result(config, "call_1", {"found": 3})
    branch = await face.fork(ALICE, "branch")
    assert await face.clean_thread(ALICE) is True
    assert await face.clean_thread(ALICE) is False
    assert (await face.get_state(ALICE), await face.list_messages(ALICE)) == (None, [])
    assert (await face.get_thread(ALICE), await face.get_tool_result(ALICE, "call_1")) == (None, None)
    assert await face.search({"user_id": "alice"}, "hello", limit=1) != []  # the branch's
    assert len(await face.list_messages(branch)) == 1
    assert (await face.get_tool_result(BOB, "call_1"), len(await face.list_messages(BOB))) == ({"found": 3}, 1)
    await face.put_messages(ALICE, said("again"))
    assert len(await face.list_messages(ALICE)) == 1


async def test_results_of_tools_are_kept_by_call(face: Face) -> None:
    """N2: `aput_tool_result`, `aget_tool_result`."""
    await face.put_tool_result(ALICE, "call.1", {"rows": [1, (2, 3)]})
    await face.put_tool_result(ALICE, "call.2", None)
    await face.put_tool_result({"thread_id": "t"}, "call.1", "again")  # before her thread is there, and still hers
    assert await face.get_tool_result(ALICE, "call.1") == "again"
    assert await face.get_tool_result({"thread_id": "t"}, "call.2") is None
    assert await face.get_tool_result(BOB, "call.1") is None
    assert await face.list_threads() == []
    await face.put_state(ALICE, AgentState())
    await face.put_tool_result({"thread_id": "t"}, "call.3", 3)
    assert await face.get_tool_result(ALICE, "call.3") == 3
    with pytest.raises(InvalidIdError):
        await face.put_tool_result(ALICE, "", 1)


async def test_cached_values_live_as_long_as_was_asked(make: Making, clock: ManualClock) -> None:
    """N2: `aput_cache_value` and its siblings."""
    face = make(clock=clock)
    await face.put_cache_value("prices", "a.b", {"eur": 3}, ttl_seconds=60)
    await face.put_cache_value("prices", "always", (1, 2))
    await face.put_cache_value("other", "a.b", "apart")
    assert await face.get_cache_value("prices", "a.b") == {"eur": 3}
    assert await face.list_cache_keys("prices") == ["a.b", "always"]
    assert await face.list_cache_keys("prices", "al") == ["always"]
    clock.advance(timedelta(seconds=60))
    assert await face.get_cache_value("prices", "a.b") is None
    assert await face.list_cache_keys("prices") == ["always"]
    await face.put_cache_value("prices", "a.b", 4, ttl_seconds=1)
    assert await face.get_cache_value("prices", "a.b") == 4
    assert [await face.clear_cache_value("prices", key) for key in ("always", "always", "no")] == [True, False, False]
    assert await face.get_cache_value("prices", "always") is None
    assert (await face.get_cache_value("other", "a.b"), await face.list_threads()) == ("apart", [])


@pytest.mark.parametrize("ttl", [0, -1, float("nan")])
async def test_a_life_that_is_none_is_refused(ttl: float) -> None:
    with pytest.raises(InvalidInputError, match="ttl_seconds"):
        await InMemoryCheckpointer().aput_cache_value("n", "k", 1, ttl_seconds=ttl)


async def test_many_cached_values_leave_little_behind(clock: ManualClock) -> None:
    checkpointer = InMemoryCheckpointer(clock=clock)
    for number in range(1100):
        await checkpointer.aput_cache_value("n", f"key {number % 300}", os.urandom(1000), ttl_seconds=100)
        clock.advance(timedelta(seconds=1))
    assert len(await checkpointer.alist_cache_keys("n")) == 99
    sizes = await checkpointer.store.sizes()
    assert sizes.entry_bytes + sizes.snapshot_bytes < 700_000  # of 1.1 million


async def test_cached_values_do_not_disturb_each_other(face: Face) -> None:
    if face.sync:
        return
    await asyncio.gather(*(face.put_cache_value("n", f"k{number}", number) for number in range(20)))
    await asyncio.gather(*(face.clear_cache_value("n", f"k{number}") for number in range(10)))
    assert await face.list_cache_keys("n") == sorted(f"k{number}" for number in range(10, 20))
