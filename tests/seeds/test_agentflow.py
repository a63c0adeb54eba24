"""Agentflow's page on session memory, block by block: on memory, on SQLite, and on PostgreSQL with Redis."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis import Redis

import perdure.checkpointer
from perdure.checkpointer import (
    AgentState,
    BaseCheckpointer,
    InMemoryCheckpointer,
    Message,
    PgCheckpointer,
    ThreadInfo,
)
from perdure.errors import StorageUnavailableError
from perdure.testing.servers import RedisServer, require, shared_postgres
from tests.seeds.agentflow_stage import Stage, blocks, conversation
from tests.seeds.places import PATIENT, rows, threads_in

ALICE = {"thread_id": "conv_123", "user_id": "alice"}
ACTIVE = {"thread_id": "active_conv", "user_id": "alice"}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """One database for all blocks that only use a checkpointer: each has a namespace to itself."""
    server, name = require(shared_postgres), f"agentflow_{os.getpid()}"
    yield server.database(name)
    server.drop(name)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Where a block only uses a checkpointer."""
    servers = ("database", "hot") if request.param == "postgres" else ()
    places = [request.getfixturevalue(name) for name in servers]
    made = Stage(request.param, tmp_path, *places, namespace=request.node.name)
    yield made
    await made.close()


@pytest.fixture
async def servers(tmp_path: Path, postgres: str, hot: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Where a block makes a `PgCheckpointer`; one without an address finds it in the environment."""
    monkeypatch.setenv("DATABASE_URL", postgres)
    monkeypatch.setenv("CACHE_URL", hot)
    made = Stage("postgres", tmp_path, postgres, hot)
    yield made
    await made.close()


class Recorded(PgCheckpointer):
    """What the page calls `PgCheckpointer`, where a block makes several under one name."""

    made: list[PgCheckpointer]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made.append(self)


def test_every_name_of_the_page_is_exported() -> None:
    """S2.37, S2.38: one contract, from `….checkpointer`."""
    for name in ("AgentState", "BaseCheckpointer", "InMemoryCheckpointer", "Message", "PgCheckpointer", "ThreadInfo"):
        assert getattr(perdure.checkpointer, name).__name__ == name
        assert name in perdure.checkpointer.__all__
    assert issubclass(PgCheckpointer, BaseCheckpointer)
    assert issubclass(InMemoryCheckpointer, BaseCheckpointer)


async def test_two_layers(servers: Stage, redis: Redis) -> None:
    """S2.6, S2.7, S2.11, S2.12, S2.13."""
    made = (await servers.play("Why This Dual Approach?"))["checkpointer"]
    await made.aput_state(ALICE, AgentState())
    assert threads_in(redis) == {"conv_123"}
    assert all(86400 - 600 < redis.ttl(name) <= 86400 for name in redis.scan_iter())
    assert rows(servers.postgres, "SELECT id, user_id FROM perdure.thread") == [("conv_123", "alice")]


class Research(AgentState, kw_only=True):
    topic: str = ""
    sources: dict[str, int] = msgspec.field(default_factory=dict)


async def test_states(stage: Stage) -> None:
    """S2.1, S2.21, S2.22, S2.23: what the agent thinks with comes back whole, its own fields included."""
    state = Research(context=conversation(), context_summary="about Paris", topic="weather", sources={"wmo": 3})
    state.execution_meta.step = 7
    assert await stage.checkpointer.aget_state(ALICE) is None
    names = await stage.play("1. **State Persistence**: The Agent's Mental Snapshots", state=state)
    assert (type(names["recovered_state"]), names["recovered_state"]) == (Research, state)
    assert (state.summary, names["recovered_state"].execution_meta.step) == ("about Paris", 7)


async def test_messages(stage: Stage) -> None:
    """S2.3, S2.24, S2.25, S2.26: every kind of message, with what is told of all, found by its words."""
    said = conversation()
    await stage.checkpointer.aput_messages(ALICE, [said[0], Message.text_message("be brief", role="system")])
    names = await stage.play("2. **Message Persistence**: The Interaction Chronicle")
    assert names["messages"] == said[:1]
    kept = await stage.checkpointer.alist_messages(ALICE)
    assert [each.role for each in kept] == ["user", "system", "assistant", "tool"]
    told = {"execution_step": 3, "node": "tool_executor"}
    assert [dict(each.metadata) for each in kept[2:]] == [told, {**told, "tool_call_id": "call_1", "is_error": True}]
    assert kept[2].tools_calls == [{"id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}]


async def test_threads(stage: Stage) -> None:
    """S2.27, S2.28, S2.29, S2.30: titles, tags, participants; newest first."""
    await stage.play("3. **Thread Persistence**: The Conversation Metadata")
    participants = {"participants": ["alice", "weather bot"]}
    info = ThreadInfo(thread_id="later", user_id="alice", thread_name="Later", metadata=participants)
    await stage.checkpointer.aput_thread({**ALICE, "thread_id": "later"}, info)
    later, first = await stage.checkpointer.alist_threads({"user_id": "alice"}, limit=10)
    assert (later.thread_name, later.participants) == ("Later", ("alice", "weather bot"))
    assert (first.thread_id, first.user_id, first.thread_name, first.run_id) == (
        "conv_123", "alice", "Weather Inquiry", "run_456",
    )  # fmt: skip
    assert first.metadata == {"tags": ["weather", "location_services"], "created_at": "2024-10-01T12:00:00Z"}
    assert isinstance(first.updated_at, datetime)


async def test_the_hot_path(stage: Stage) -> None:
    """S2.31, S2.32, S2.35: a state that is not in the cache is read from the storage."""
    assert (await stage.play("Hot Path: Active Conversation Flow"))["state"] is None
    await stage.checkpointer.aput_state(ACTIVE, AgentState(context_summary="kept"))
    names = await stage.play("Hot Path: Active Conversation Flow")
    assert (names["state"].context_summary, names["state"] is names["cached_state"]) == ("kept", True)


async def test_write_through(servers: Stage, redis: Redis) -> None:
    """S2.33: in Redis at once with a time to live, in PostgreSQL for good."""
    heading = "Write-Through Pattern: Consistency Without Sacrificing Speed"
    await servers.play(heading, updated_state=AgentState(context_summary="new"))
    names: Any = redis.keys("*conv_123")
    assert len(names) == 3
    assert all(redis.ttl(name) > 0 for name in redis.scan_iter())
    redis.flushall()
    found = await servers.another().aget_state(ALICE)
    assert found is not None
    assert found.context_summary == "new"


async def test_expiry_and_eviction(servers: Stage, redis: Redis) -> None:
    """S2.14, S2.54: settings that are left out come from the environment."""
    made = (await servers.play("Cache Invalidation and Expiration"))["checkpointer"]
    for number in range(3):
        await made.aput_state({**ALICE, "thread_id": f"t{number}"}, AgentState())
    assert threads_in(redis) == {"t0", "t1", "t2"}
    small = servers.another(max_cached_threads=2)
    await small.aput_state(ALICE, AgentState())
    assert threads_in(redis) == {"t2", "conv_123"}
    await small.arelease()


async def test_in_memory(stage: Stage) -> None:
    """S2.36: nothing to set up, and each is apart from every other."""
    made = (await stage.play("InMemoryCheckpointer: Development and Testing"))["checkpointer"]
    await made.aput_state(ALICE, AgentState())
    assert await InMemoryCheckpointer().aget_state(ALICE) is None
    assert await made.aget_state({"thread_id": "conv_123"}) == AgentState()


async def test_production(servers: Stage, redis: Redis) -> None:
    """S2.2, S2.16, S2.19, S2.39, S2.41: another process goes on exactly where this one left off."""
    made = (await servers.play("PgCheckpointer: Production-Ready Persistence"))["checkpointer"]
    await made.aput_checkpoint(ALICE, AgentState(context=conversation()), conversation())
    assert all(redis.ttl(name) <= 3600 for name in redis.scan_iter())
    await made.arelease()
    other = servers.another()
    state = await other.aget_state(ALICE)
    assert state is not None
    assert [each.text() for each in state.context] == [each.text() for each in await other.alist_messages(ALICE)]
    await other.arelease()


async def test_databases(servers: Stage, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.17, S2.18, S2.42: a Redis database of its own, a schema in a shared database, a pool that is there already."""
    monkeypatch.delenv("CACHE_URL")
    monkeypatch.setattr(Recorded, "made", [], raising=False)
    names = await servers.play("Database Integration Patterns", PgCheckpointer=Recorded)
    own, shared, pooled = Recorded.made
    for each in Recorded.made:
        await each.aput_state(ALICE, AgentState())
    with Redis.from_url(f"{redis_server.address(1)}?{PATIENT}") as other:
        assert threads_in(other) == {"conv_123"}
        other.flushdb()
    asked = "SELECT table_schema FROM information_schema.tables WHERE table_name = 'thread' ORDER BY 1"
    assert rows(servers.postgres, asked) == [("agent",), ("perdure",)]
    assert [await each.aget_state(ALICE) for each in (own, shared, pooled)] == [AgentState()] * 3
    for each in Recorded.made:
        await each.arelease()
    assert await names["existing_pool"].fetchval("SELECT 1") == 1
    await names["existing_pool"].close()


async def test_types_of_user_ids(servers: Stage) -> None:
    """S2.15: `asetup` makes the column of that type."""
    big = PgCheckpointer(user_id_type="bigint")
    names = await servers.play("ID Type Configuration for System Integration", checkpointer=big)
    config = {"thread_id": 7, "user_id": 1 << 40}
    await names["bigint_ids"].aput_state(config, AgentState())
    assert [each.user_id for each in await big.alist_threads({"user_id": 1 << 40})] == [1 << 40]
    assert rows(servers.postgres, "SELECT user_id, id FROM perdure.thread") == [(1 << 40, "7")]


async def test_a_node_gets_the_checkpointer_and_leaves_a_message_behind(stage: Stage) -> None:
    """S2.43, S2.44, S2.45: the write of a synchronous node is not lost by a release right after it."""
    names = await stage.play("Automatic Injection in Node Functions")
    state = AgentState()
    state.execution_meta.step = 3
    assert names["audit_node"](state, ALICE) is state
    await stage.checkpointer.aflush()
    (kept,) = await stage.checkpointer.alist_messages(ALICE)
    assert (kept.role, kept.text()) == ("system", "Decision made at step 3")


async def test_the_record_is_whole_and_nobody_changes_it_unnoticed(stage: Stage) -> None:
    """S2.1, S2.5: working memory forgets; the log tells everything that was said, edited and deleted, and when."""
    first, *_, last = said = conversation()
    await stage.checkpointer.aput_checkpoint(ALICE, AgentState(context=said), said)
    await stage.checkpointer.aput_state(ALICE, AgentState(context=[last], context_summary="about Paris"))
    await stage.checkpointer.aput_messages(ALICE, [Message.text_message("And Rome?", id=first.id)])
    await stage.checkpointer.adelete_message(ALICE, str(last.id))
    assert [each.role for each in await stage.checkpointer.alist_messages(ALICE)] == ["user", "assistant", "tool"]
    entries = await stage.checkpointer.thread(ALICE).entries()
    assert [each.kind for each in entries] == [
        *["message.added"] * 4, "state.saved", "state.saved", "message.added", "message.deleted",
    ]  # fmt: skip
    assert [each.at for each in entries] == sorted(each.at for each in entries)
    assert (await stage.checkpointer.thread(ALICE).verify(restore=True)).ok


async def test_analysing_a_conversation(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """S2.4, S2.46: the page's numbers, and the same ones counted by the storage."""
    await stage.play("Automatic Injection in Node Functions")
    await stage.checkpointer.aput_messages(ALICE, conversation())
    await (await stage.play("Custom Analysis and Debugging"))["debug_conversation"]("conv_123")
    assert capsys.readouterr().out.splitlines() == [
        "Conversation analysis for conv_123:", "- Total messages: 4", "- Tool calls: 1", "- Potential errors: 1",
    ]  # fmt: skip
    found = await stage.checkpointer.aanalytics({"thread_id": "conv_123"})
    assert (found.messages, found.tool_calls, found.errors) == (4, 1, 1)


async def test_branching(stage: Stage) -> None:
    """S2.47: the branch goes its way, and the main conversation does not notice."""
    main, branch = {"thread_id": "main_conversation"}, {"thread_id": "branch_experiment"}
    await stage.checkpointer.aput_state(main, AgentState(context_summary="main"))
    names = await stage.play("Conversation Branching and Forking")
    names["current_state"].context_summary = "what if"
    await stage.checkpointer.aput_state(branch, names["current_state"])
    found = [await stage.checkpointer.aget_state(each) for each in (main, branch)]
    assert [each.context_summary for each in found if each] == ["main", "what if"]


async def test_numbers_across_conversations(stage: Stage) -> None:
    """S2.48: the page's numbers, and the same ones from the checkpointer itself."""
    for thread, user in (("one", "alice"), ("two", "alice"), ("three", "bob")):
        await stage.checkpointer.aput_messages({"thread_id": thread, "user_id": user}, conversation())
    names = await stage.play("Cross-Session Analytics")
    expected = {"total_conversations": 2, "total_messages": 8, "common_topics": {"weather": 4}}
    assert await names["analyze_user_patterns"]("alice") == expected
    found = await stage.checkpointer.aanalytics({"user_id": "alice"}, topics=names["extract_topics"])
    assert (found.conversations, found.messages, found.topics) == (2, 8, {"weather": 4})


async def test_resuming_or_starting_fresh(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """S2.2, S2.49."""
    resume = (await stage.play("Conversation Resume Patterns"))["resume_conversation"]
    assert await resume("conv_123", "alice") == AgentState()
    await stage.checkpointer.aput_state(ALICE, AgentState(context=conversation()))
    assert len((await resume("conv_123", "alice")).context) == 4
    assert capsys.readouterr().out == "Resuming conversation with 4 messages\n"


async def test_warming(servers: Stage, redis: Redis) -> None:
    """S2.50: the three newest threads of each user, by the page's loop, also by a process that remembers them all."""
    for number in range(4):
        await servers.checkpointer.aput_state({"thread_id": f"t{number}", "user_id": "alice"}, AgentState())
    for warming in (servers.checkpointer, servers.another()):
        warm = (await servers.play("Cache Warming Patterns", checkpointer=warming))["warm_cache_for_users"]
        redis.flushall()
        await warm(["alice", "bob"])
        assert threads_in(redis) == {"t1", "t2", "t3"}
        reader = servers.another()
        state = await reader.aget_state_cache({"thread_id": "t3", "user_id": "alice"})
        assert state.last_read.source == "cache"
    redis.flushall()
    assert await servers.checkpointer.awarm(["alice", "bob"], threads=2) == 2
    assert threads_in(redis) == {"t2", "t3"}


async def test_a_batch_is_one_transaction(stage: Stage) -> None:
    """S2.40, S2.51: all or none, and one entry into the log's head for all of them."""
    log = (await stage.play("Batch Operations for Efficiency"))["log_conversation_batch"]
    messages = [Message.text_message(f"number {number}") for number in range(50)]
    with pytest.raises(perdure.errors.UnsupportedValueError):
        await log(ALICE, [*messages, Message(role="user", content=object())])
    assert await stage.checkpointer.alist_messages(ALICE) == []
    await log(ALICE, messages)
    assert await stage.checkpointer.alist_messages(ALICE) == messages
    entries = await stage.checkpointer.thread(ALICE).entries()
    assert len({each.at for each in entries}) == 1


async def test_degradation(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """S2.52: cache, storage, and a fresh state with a warning when there is neither."""
    retrieve = (await stage.play("Graceful Degradation Patterns"))["resilient_state_retrieval"]
    await stage.checkpointer.aput_state(ALICE, AgentState(context_summary="kept"))
    assert (await retrieve(ALICE)).context_summary == "kept"
    gone = PgCheckpointer("postgresql://nobody@127.0.0.1:1/none", retry_seconds=0)
    stage.names["checkpointer"] = gone
    with pytest.raises(StorageUnavailableError):
        await gone.aget_state(ALICE)
    with caplog.at_level(logging.WARNING, logger=stage.logger.name):
        assert await retrieve(ALICE) == AgentState()
    assert f"Checkpointer unavailable for {ALICE}, starting fresh" in caplog.messages
    await gone.arelease()


async def test_repairing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """S2.53: the state is made again from the messages, by the page's function or by ours."""
    said = conversation()
    await stage.checkpointer.aput_messages(ALICE, said)
    repair = (await stage.play("Recovery and Repair Operations"))["repair_conversation_integrity"]
    await repair("conv_123")
    assert capsys.readouterr().out == "Repaired state for conv_123 with 4 messages\n"
    for state in (await stage.checkpointer.aget_state(ALICE), await stage.checkpointer.arepair_conversation(ALICE)):
        assert state is not None
        assert state.context == said


async def test_settings_from_the_environment(servers: Stage, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.13, S2.54: `DATABASE_URL`, `CACHE_URL`, `CACHE_TTL`; Redis is optional."""
    first = (await servers.play("**Configuration Management**"))["checkpointer"]
    await first.aput_state(ALICE, AgentState())
    assert all(3600 - 600 < redis.ttl(name) <= 3600 for name in redis.scan_iter())
    await first.arelease()
    redis.flushall()
    monkeypatch.delenv("CACHE_URL")
    second = (await servers.play("**Configuration Management**"))["checkpointer"]
    assert await second.aget_state(ALICE) == AgentState()
    assert redis.keys() == []


async def test_set_up_and_shut_down(stage: Stage) -> None:
    """S2.8, S2.19, S2.20: writes that are under way are waited for."""
    names = await stage.play("**Resource Management**")
    writing = asyncio.create_task(stage.checkpointer.aput_messages(ALICE, conversation()))
    await names["shutdown"]()
    assert writing.done()
    await writing
    kept = [] if stage.kind == "memory" else conversation()
    assert [each.role for each in await stage.another().alist_messages(ALICE)] == [each.role for each in kept]


async def test_monitoring(servers: Stage) -> None:
    """S2.55, S2.56: a subclass sees every save, a synchronous one too."""
    made = (await servers.play("**Monitoring and Observability**"))["MonitoredCheckpointer"](servers.postgres)
    state = await made.aput_state(ALICE, AgentState())
    assert made.put_state(ALICE, state) is state
    await made.arelease()
    assert servers.metrics.counts == {"checkpointer.put_state.calls": 2}
    assert len(servers.metrics.seconds["checkpointer.put_state.duration"]) == 2


async def test_credentials(servers: Stage) -> None:
    """S2.57: what is in the address goes to the driver; errors never show it."""
    made = (await servers.play("**Security Considerations**"))["checkpointer"]
    assert await made.aget_state(ALICE) is None
    wrong = PgCheckpointer("postgresql://agent_user:secure_pass@127.0.0.1:1/agent_db?sslmode=require", retry_seconds=0)
    with pytest.raises(ConnectionError) as told:
        await wrong.aget_state(ALICE)
    assert "secure_pass" not in str(told.value)
    await wrong.arelease()


def test_every_block_is_played_as_it_stands() -> None:
    played = Path(__file__).read_text(encoding="utf-8")
    found = blocks()
    assert {each for each in found if f'"{each}"' not in played} == set()
    assert len(found) == 24
    assert "perdure" not in "".join(found.values())
