"""flowagent's page, block by block, on memory, on SQLite and on the storage that the page itself writes."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure import (
    Checkpoint,
    CheckpointManager,
    Message,
    SQLiteCheckpointStorage,
    StandardAgent,
    WorkflowExecutor,
)
from perdure.errors import StorageMethodMissingError
from tests.seeds.flowagent_stage import PAGE, Stage, blocks, booking


@pytest.fixture(params=["memory", "sqlite", "custom"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(request.param, tmp_path)
    yield made
    await made.close()


async def test_quick_start(stage: Stage) -> None:
    """S1.4, S1.5, S1.6: save gives an id, restore a live agent."""
    names = await stage.play("Quick Start")
    restored = names["restored_agent"]
    assert names["checkpoint_id"].startswith("chk_")
    assert (type(restored), restored.agent_id, restored.collected_fields) == (
        type(names["agent"]), "booking-1", {"city": "Paris"},
    )  # fmt: skip
    assert await restored.reply("Book") == "Book: Paris"


def test_every_name_of_the_page_is_exported() -> None:
    """S1.1."""
    for name in (
        "Checkpoint", "CheckpointManager", "CheckpointStorage", "InMemoryCheckpointStorage", "Message", "Orchestrator",
        "SQLiteCheckpointStorage", "StandardAgent",
    ):  # fmt: skip
        assert getattr(perdure, name).__name__ == name
        assert name in perdure.__all__


async def test_checkpoints_serve_debugging_recovery_and_time_travel(tmp_path: Path) -> None:
    """S1.2: look at what an agent knew, go on after a crash, go back to an earlier point."""
    async with SQLiteCheckpointStorage(db_path=str(tmp_path / "agents.db")) as storage:
        manager, agent = CheckpointManager(storage), booking()
        early = await manager.save(agent)
        agent.collected_fields["city"] = "Rome"
        late = await manager.save(agent)
    async with SQLiteCheckpointStorage(db_path=str(tmp_path / "agents.db")) as storage:  # the process had died
        manager = CheckpointManager(storage)
        newest, *_ = await manager.list_by_user(agent.user_id)
        recovered = await manager.restore(newest.id)
        assert (newest.id, recovered.collected_fields, await recovered.reply("Book")) == (
            late, {"city": "Rome"}, "Book: Rome",
        )  # fmt: skip
        assert "Rome" in str(await manager.compare(early, late))
        assert (await manager.restore(early)).collected_fields == {"city": "Paris"}


def test_everything_that_touches_a_storage_is_asynchronous() -> None:
    """S1.3."""
    for name, method in inspect.getmembers(CheckpointManager, inspect.isfunction):
        assert name == "on" or name.startswith("_") or inspect.iscoroutinefunction(method), name


async def test_in_memory(stage: Stage) -> None:
    """S1.7."""
    storage = (await stage.play("In-Memory (Development)"))["storage"]
    assert storage.max_checkpoints == 1000
    manager = CheckpointManager(storage)
    assert (await manager.restore(await manager.save(booking()))).agent_id == "booking-1"


async def test_sqlite(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.8, S1.42: it is there after a restart."""
    monkeypatch.chdir(tmp_path)
    storage = (await stage.play("SQLite (Production)"))["storage"]
    assert storage.max_checkpoints_per_user == 100
    point = await CheckpointManager(storage).save(booking())
    await storage.close()
    async with SQLiteCheckpointStorage(db_path="checkpoints.db") as again:
        assert (await CheckpointManager(again).restore(point)).collected_fields == {"city": "Paris"}


async def test_custom_storage(tmp_path: Path) -> None:
    """S1.9, S1.10, S1.11, S1.12: three methods are enough, and dicts may be listed."""
    stage = Stage("custom", tmp_path)
    agent = booking()
    await agent.reply("Book")
    point = await stage.manager.save(agent)
    assert (await stage.manager.restore(point)).history == agent.history
    assert [type(each) for each in await stage.manager.list_by_user("user_123")] == [Checkpoint]
    assert await stage.storage.load("chk_other") is None


async def test_automatic_checkpointing(stage: Stage) -> None:
    """S1.13: every state change is saved, without a word in the agent."""
    orchestrator = (await stage.play("Automatic Checkpointing"))["orchestrator"]
    agent = booking()
    orchestrator.add(agent)
    assert agent.checkpoint_manager is stage.manager
    assert await orchestrator.handle_message("user_123", "Book") == "Book: Paris"
    found = await stage.manager.list_by_user("user_123")
    assert [each.status for each in found] == ["RUNNING", "RUNNING", "INITIALIZING"]
    assert (await stage.manager.restore(found[0].id)).history == agent.history


@pytest.mark.parametrize("with_manager", [True, False])
async def test_manual_checkpointing(stage: Stage, with_manager: bool) -> None:
    """S1.14, S1.15, S1.41: after the risky operation failed, there is the point before it."""
    done: list[str] = []

    async def expensive(self: Any) -> None:
        done.append("expensive")
        self.collected_fields["result"] = 42

    async def risky(self: Any) -> None:
        done.append("risky")
        raise OSError("the risk")

    cls = (await stage.play("Manual Checkpointing"))["MyAgent"]
    cls.expensive_operation, cls.risky_operation = expensive, risky
    agent = cls(agent_id="a", user_id="user_123")
    agent.checkpoint_manager = stage.manager if with_manager else None
    with pytest.raises(OSError, match="the risk"):
        await agent.reply("go")
    assert (done, agent.status) == (["expensive", "risky"], "ERROR")
    found = await stage.manager.list_by_user("user_123")
    assert [(each.status, each.collected_fields) for each in found] == [("RUNNING", {"result": 42})] * with_manager


async def test_listing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """S1.16, S1.36."""
    agent = stage.names["agent"]
    ids = [await stage.manager.save(agent), await stage.manager.save(agent)]
    await stage.play("List Checkpoints")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": INITIALIZING at ")[0] for line in lines] == ids[::-1]
    assert all(datetime.fromisoformat(line.split(" at ")[1]).tzinfo for line in lines)


async def test_restoring_a_point_in_time(stage: Stage) -> None:
    """S1.17, S1.18: the point before the error is found by its status, and the retry works."""
    agent = stage.names["agent"]
    await agent.reply("Book")
    await stage.manager.save(agent)
    agent.status = "ERROR"
    await stage.manager.save(agent)
    names = await stage.play("Restore to Point in Time")
    assert (names["target"].status, names["result"]) == ("RUNNING", "retry: Paris")
    assert [each.content for each in names["agent"].history] == ["Book", "Book: Paris", "retry", "retry: Paris"]


async def test_comparing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """S1.19, S1.20, S1.21."""
    agent = stage.names["agent"]
    old = await stage.manager.save(agent)
    agent.collected_fields["city"] = "Rome"
    agent.status = "COMPLETED"
    new = await stage.manager.save(agent)
    await stage.play("Compare Checkpoints", checkpoint_id_1=old, checkpoint_id_2=new)
    assert capsys.readouterr().out == "Changed fields: ['city']\nStatus: INITIALIZING -> COMPLETED\n"


async def test_checkpoint_data(stage: Stage) -> None:
    """The page's eleven fields, in its order, each with what it says.

    S1.22, S1.23, S1.24, S1.25, S1.26, S1.27, S1.28, S1.29, S1.30, S1.31, S1.32.
    """
    theirs = [field.name for field in dataclasses.fields((await stage.play("Checkpoint Data"))["Checkpoint"])]
    assert list(Checkpoint.__struct_fields__[:11]) == theirs
    agent = booking()
    agent.context_summary = "a booking"
    first = await stage.manager.save(agent)
    point = await stage.manager.save(agent, metadata={"why": "S1.44"})
    found = (await stage.manager.list_by_user("user_123"))[0]
    assert [getattr(found, name) for name in theirs] == [
        point, "booking-1", "Booking", "user_123", "INITIALIZING", {"city": "Paris"}, ["city"], "a booking", first,
        found.timestamp, {"why": "S1.44"},
    ]  # fmt: skip
    assert found.timestamp.tzinfo is not None
    assert Checkpoint(*(getattr(found, name) for name in theirs)).id == point


async def test_metadata_is_there_for_debugging(stage: Stage) -> None:
    """S1.44."""
    await stage.manager.save(stage.names["agent"], metadata={"attempt": 3, "tool": "search"})
    assert (await stage.manager.list_by_user("user_123"))[0].metadata == {"attempt": 3, "tool": "search"}


async def test_cleaning_up(stage: Stage) -> None:
    """S1.37: counted, and nobody else loses anything; the page's own storage says which method it lacks."""
    agent = stage.names["agent"]
    for _ in range(3):
        await stage.manager.save(agent)
    other = await stage.manager.save(perdure.StandardAgent("booking-1", "user_1234"))
    if stage.kind == "custom":
        with pytest.raises(StorageMethodMissingError, match="delete_by_user"):
            await stage.play("Cleanup")
        return
    assert (await stage.play("Cleanup"))["deleted_count"] == 3
    assert await stage.manager.list_by_user("user_123") == []
    assert [each.id for each in await stage.manager.list_by_user("user_1234")] == [other]
    assert (await stage.manager.restore(await stage.manager.save(agent))).agent_id == "booking-1"


async def test_events(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """S1.39, S1.40."""
    await stage.play("Events")
    with caplog.at_level(logging.INFO, logger=stage.logger.name):
        point = await stage.manager.save(stage.names["agent"])
        await stage.manager.restore(point)
    assert [each.getMessage() for each in caplog.records if each.name == stage.logger.name] == [
        f"Saved checkpoint: {point}", f"Restored agent from: {point}",
    ]  # fmt: skip


def test_every_block_is_played_as_it_stands() -> None:
    """A Custom Storage is what every third test here stands on."""
    played = Path(__file__).read_text(encoding="utf-8")
    found = blocks()
    assert {each for each in found if f'play("{each}"' not in played} == {"Custom Storage"}
    assert "perdure" not in "".join(found.values())


async def test_checkpoint_in_workflows(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.33, S1.34, S1.35: what was saved after a step is not done again."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "workflow.yaml").write_text(block)
    done: list[str] = []

    class ExpensiveAgent(StandardAgent):
        async def on_running(self, msg: Message) -> str:
            done.append("expensive")
            return "gold"

    class RiskyAgent(StandardAgent):
        async def on_running(self, msg: Message) -> str:
            done.append("risky")
            if done.count("risky") == 1:
                raise OSError("the risk")
            return f"kept {msg.content}"

    agents = {"ExpensiveAgent": ExpensiveAgent, "RiskyAgent": RiskyAgent}
    executor = WorkflowExecutor(agents=agents, checkpoint_manager=stage.manager)
    with pytest.raises(OSError, match="the risk"):
        await executor.run(workflow="workflow.yaml")
    (listed,) = await stage.manager.list_by_user("")
    point = await stage.storage.load(listed.id)
    assert point is not None
    assert (point.status, point.collected_fields) == ("RUNNING", {"expensive_step": "gold"})
    await stage.storage.save(msgspec.structs.replace(point, id="chk_abc123"))  # the id that the page names
    result = (await stage.play("Checkpoint in Workflows", executor=executor))["result"]
    assert (result.status, result.output, done) == ("finished", "kept gold", ["expensive", "risky", "risky"])
    await executor.close()
