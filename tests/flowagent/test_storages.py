"""The storages on the engine: what they keep, list, limit and delete."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Checkpoint,
    CheckpointManager,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    Message,
    Perdure,
    SQLiteCheckpointStorage,
    StandardAgent,
)
from perdure.errors import DamagedError, InvalidInputError, KeyReusedError, StorageClosedError
from perdure.sync import Perdure as SyncPerdure
from perdure.testing.clock import ManualClock
from tests.faults.watching import watched

PAYLOADS = {("perdure_entry", "payload"), ("perdure_snapshot", "payload"), ("perdure_blob", "payload")}


def point(number: int, **given: Any) -> Checkpoint:
    """A checkpoint that somebody made by hand."""
    fields: dict[str, Any] = {
        "id": f"my-{number}", "agent_id": "a", "agent_type": "StandardAgent", "user_id": "u", "status": "RUNNING",
        "collected_fields": {"number": number}, "required_fields": ["number"], "context_summary": f"at {number}",
        "parent_checkpoint_id": None, "timestamp": datetime(2020, 1, number, tzinfo=UTC), "metadata": {"n": number},
    }  # fmt: skip
    return Checkpoint(**{**fields, **given})


async def test_a_checkpoint_made_elsewhere_keeps_its_id_and_its_time(ours: Any) -> None:
    """Such as those of the flowagent one comes from."""
    made = [point(2), point(1), point(3, id="chk_360q58gqt487yw6mtpfzkjt9b3", history=[Message("user", "hi")])]
    assert [await ours.save(each) for each in made] == [each.id for each in made]
    for each in made:
        kept = await ours.load(each.id)
        assert kept is not None
        for name in Checkpoint.__struct_fields__:
            if name not in ("version", "parent_checkpoint_id", "thread_id"):
                assert getattr(kept, name) == getattr(each, name), name
    assert [each.id for each in await ours.list_by_user("u")] == [made[2].id, "my-1", "my-2"]
    restored = await CheckpointManager(ours).restore("my-1")
    restored.status = "COMPLETED"
    await CheckpointManager(ours).save(restored)
    assert (await ours.list_by_user("u"))[0].status == "COMPLETED"


async def test_saving_the_same_again_changes_nothing_and_another_under_its_id_is_refused(ours: Any) -> None:
    await ours.save(point(1))
    await ours.save(point(1))
    with pytest.raises(KeyReusedError):
        await ours.save(point(1, status="ERROR"))
    assert [each.status for each in await ours.list_by_user("u")] == ["RUNNING"]


async def test_an_unknown_id_is_none(ours: Any) -> None:
    assert [await ours.load(each) for each in ("chk_0", "my-1", "")] == [None, None, None]


async def test_listed_checkpoints_read_their_state_when_it_is_asked_for(ours: Any) -> None:
    manager, agent = CheckpointManager(ours), StandardAgent("a", "u", required_fields=["x"])
    agent.history.append(Message(role="user", content="hi"))
    for number in range(3):
        agent.collected_fields["x"] = number
        await manager.save(agent)
    newest, _, oldest = await manager.list_by_user("u")
    assert "collected_fields" not in repr(newest)
    assert (oldest.collected_fields, oldest.required_fields) == ({"x": 0}, ["x"])
    assert "collected_fields" in repr(oldest)
    assert newest == await ours.load(newest.id)
    assert Checkpoint.from_dict(newest.to_dict()) == newest


async def test_listing_reads_no_payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as watch:
        async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
            manager = CheckpointManager(storage)
            agent = StandardAgent("a", "u", collected_fields={"text": "x" * 5_000})
            for number in range(20):
                agent.collected_fields["n"] = number
                await manager.save(agent, metadata={"n": number})
            watch.clear()
            found = await manager.list_by_user("u", limit=10, offset=5)
            assert [each.metadata["n"] for each in found] == list(range(14, 4, -1))
            assert [each.status for each in found] == ["INITIALIZING"] * 10
            assert watch.columns & PAYLOADS == set()
            assert found[3].collected_fields["n"] == 11
            assert watch.columns & PAYLOADS


async def test_a_state_is_read_from_another_thread_too(ours: Any) -> None:
    manager = CheckpointManager(ours)
    await manager.save(StandardAgent("a", "u", collected_fields={"x": 1}))
    (found,) = await manager.list_by_user("u")
    assert await asyncio.to_thread(lambda: found.collected_fields) == {"x": 1}


async def test_after_closing_nothing_is_read(tmp_path: Path) -> None:
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        manager = CheckpointManager(storage)
        await manager.save(StandardAgent("a", "u", collected_fields={"x": 1}))
        one = (await manager.list_by_user("u"))[0]
        two = (await manager.list_by_user("u"))[0]
        assert one.collected_fields == {"x": 1}
    with pytest.raises(StorageClosedError):
        _ = two.collected_fields
    with pytest.raises(StorageClosedError):
        await storage.load(one.id)


async def test_a_long_history_is_stored_by_what_was_added(tmp_path: Path) -> None:
    """flowagent wrote the whole blob each time."""
    agent = StandardAgent("a", "u")
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        manager = CheckpointManager(storage)
        for turn in range(200):
            agent.history.append(Message(role="user", content=f"{turn} " + "word " * 200))
            await manager.save(agent)
        assert len((await manager.restore((await manager.list_by_user("u"))[0].id)).history) == 200
    assert os.path.getsize(tmp_path / "x.db") < 5 * 200 * 1000  # whole states would be a hundred times one


async def test_the_threads_of_agents_are_threads_like_any_other(tmp_path: Path) -> None:
    agent = StandardAgent("agent-1", "u", collected_fields={"city": "Paris"})
    agent.history.append(Message(role="user", content="hi"))
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        await CheckpointManager(storage).save(agent)
    async with Perdure.open(f"sqlite:///{tmp_path}/x.db", namespace="flowagent") as store:
        thread = store.thread("agent-1", user="u")
        assert (await thread.load())["collected_fields"] == {"city": "Paris"}
        assert await thread.messages() == agent.history
    async with Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
        await store.thread("agent-1", user="u").save({"another": "thread"})
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        assert len(await storage.list_by_user("u")) == 1


async def test_a_thread_that_is_no_agent_is_told_apart(tmp_path: Path) -> None:
    with SyncPerdure.open(f"sqlite:///{tmp_path}/x.db", namespace="flowagent") as store:
        other = store.thread("t", user="u").save({"x": 1})
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        with pytest.raises(InvalidInputError, match=f"{other.id} is none of an agent"):
            await CheckpointManager(storage).restore(other.id)


async def test_damage_is_noticed_when_restoring(tmp_path: Path) -> None:
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        saved = await CheckpointManager(storage).save(StandardAgent("a", "u", context_summary="unmistakable"))
    file = tmp_path / "x.db"
    file.write_bytes(file.read_bytes().replace(b"unmistakable", b"unmistakible"))
    async with SQLiteCheckpointStorage(file) as storage:
        with pytest.raises(DamagedError):
            await CheckpointManager(storage).restore(saved)


async def test_clearing_a_user_leaves_the_others_and_a_live_agent_can_be_saved_again(ours: Any) -> None:
    """S1.37."""
    manager = CheckpointManager(ours)
    agents = [StandardAgent("a", "u"), StandardAgent("b", "u"), StandardAgent("a", "u2")]
    for agent in agents * 2:
        await manager.save(agent)
    assert await manager.clear_user_history("u") == 4
    assert await manager.clear_user_history("u") == 0
    assert await manager.list_by_user("u") == []
    assert len(await manager.list_by_user("u2")) == 2
    await manager.save(agents[0])
    (alone,) = await manager.list_by_user("u")
    assert alone.parent_checkpoint_id is None


async def test_an_agent_with_only_old_checkpoints_is_cleaned_up(ours: Any, clock: ManualClock) -> None:
    manager = CheckpointManager(ours)
    await manager.save(StandardAgent("old", "u"))
    clock.advance(timedelta(days=31))
    await manager.save(StandardAgent("new", "u"))
    await ours.save(point(1, user_id="someone"))
    assert await manager.cleanup_old_checkpoints(max_age_days=30) == 2
    assert [each.agent_id for each in await manager.list_by_user("u")] == ["new"]
    assert await manager.list_by_user("someone") == []
    assert await manager.cleanup_old_checkpoints(max_age_days=30) == 0


async def test_old_checkpoints_of_a_living_agent_are_cleaned_up(ours: Any, clock: ManualClock) -> None:
    """S1.38."""
    manager, agent = CheckpointManager(ours), StandardAgent("a", "u")
    await manager.save(agent)
    clock.advance(timedelta(days=31))
    newest = await manager.save(agent)
    assert await manager.cleanup_old_checkpoints(max_age_days=30) == 1
    assert [each.id for each in await manager.list_by_user("u")] == [newest]
    assert (await manager.restore(newest)).agent_id == "a"


async def test_memory_keeps_the_newest_of_all_users() -> None:
    """S1.7, S1.43."""
    manager = CheckpointManager(InMemoryCheckpointStorage(max_checkpoints=3))
    one, other = StandardAgent("a", "u"), StandardAgent("a", "u2")
    for agent in (one, other, one, other, one):
        agent.collected_fields["n"] = agent.collected_fields.get("n", 0) + 1
        await manager.save(agent)
    assert [each.collected_fields["n"] for each in await manager.list_by_user("u")] == [3, 2]
    assert [each.collected_fields["n"] for each in await manager.list_by_user("u2")] == [2]


@pytest.mark.parametrize("kind", [SQLiteCheckpointStorage, FileCheckpointStorage])
async def test_files_keep_the_newest_of_each_user(kind: Any, tmp_path: Path) -> None:
    """S1.8, S1.43."""
    async with kind(tmp_path / "place", max_checkpoints_per_user=2) as storage:
        manager = CheckpointManager(storage)
        agents = [StandardAgent("a", "u"), StandardAgent("a", "u2")]
        for number in range(4):
            for agent in agents:
                agent.collected_fields["n"] = number
                await manager.save(agent)
        for user in ("u", "u2"):
            assert [each.collected_fields["n"] for each in await manager.list_by_user(user)] == [3, 2]


async def test_a_limit_makes_room_among_agents_that_came_and_went() -> None:
    manager = CheckpointManager(InMemoryCheckpointStorage(max_checkpoints=2))
    for number in range(5):
        await manager.save(StandardAgent(f"agent-{number}", "u"))
    assert [each.agent_id for each in await manager.list_by_user("u")] == ["agent-4", "agent-3"]


@pytest.mark.parametrize("limit", [0, -1, "3", True, 2.5])
def test_a_limit_is_a_number_from_one_on(limit: Any) -> None:
    for make in (InMemoryCheckpointStorage, lambda limit: SQLiteCheckpointStorage("x.db", limit)):
        with pytest.raises(InvalidInputError, match="from 1 on, or None for no limit"):
            make(limit)


async def test_an_offset_that_cannot_be_used_is_named(ours: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"offset must be an int from 0 to .*, not -1"):
        await ours.list_by_user("u", offset=-1)


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an address would make of it, and wherever the process goes before the first use."""
    monkeypatch.chdir(tmp_path)
    storage = SQLiteCheckpointStorage("50% of? ärger#1.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    async def use() -> None:
        await CheckpointManager(storage).save(StandardAgent("a", "u"))
        assert (await storage.list_by_user("u"))[0].collected_fields == {}
        await storage.close()

    asyncio.run(use())
    assert (tmp_path / "50% of? ärger#1.db").exists()
    for wrong in ("", None, 3):
        with pytest.raises(InvalidInputError):
            SQLiteCheckpointStorage(wrong)  # type: ignore[arg-type]


async def test_two_processes_worth_of_storages_share_a_place(tmp_path: Path) -> None:
    """The second one saves after the first did: both are there, each on its branch."""
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as one, SQLiteCheckpointStorage(tmp_path / "x.db") as two:
        agent = StandardAgent("a", "u")
        base = await CheckpointManager(one).save(agent)
        mine, theirs = await CheckpointManager(one).restore(base), await CheckpointManager(two).restore(base)
        mine.collected_fields["who"], theirs.collected_fields["who"] = "me", "them"
        await asyncio.gather(mine.checkpoint_manager.save(mine), theirs.checkpoint_manager.save(theirs))
        found = await one.list_by_user("u")
        assert {each.collected_fields.get("who") for each in found} == {"me", "them", None}
        assert [each.parent_checkpoint_id for each in found] == [base, base, None]


async def test_a_listing_of_many_is_quick_enough_to_be_used(tmp_path: Path) -> None:
    """No wall-clock bar: the whole is printed for who looks."""
    async with SQLiteCheckpointStorage(tmp_path / "x.db") as storage:
        manager, agent = CheckpointManager(storage), StandardAgent("a", "u", collected_fields={"x": "y" * 2000})
        for _ in range(50):
            await manager.save(agent)
        start = time.perf_counter()
        found = await manager.list_by_user("u")
        middle = time.perf_counter()
        assert [each.collected_fields["x"][0] for each in found] == ["y"] * 50
        print(f"50 listed in {middle - start:.4f} s, their states read in {time.perf_counter() - middle:.4f} s")
