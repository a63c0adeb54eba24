"""What AgenticFleet's and Dream.OS' documents promise of checkpoints, shown by the engine's own names."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, Retention, Triggers, sync
from perdure.core.errors import NotFoundError
from perdure.core.retention_policy import SEED_KINDS
from perdure.testing.clock import ManualClock

AGENT = {
    "current_task": {"id": "T-1", "status": "running", "progress": 40},
    "mailbox": {"last_processed_id": "m-17", "pending": ["m-18", "m-19"]},
    "operational_context": {"goals": ["ship"], "constraints": ["no downtime"], "decisions": []},
    "memory": {"short_term": ["a", "b"], "session": {"since": "monday"}},
}


def test_the_file_storage_keeps_readable_json(tmp_path: Path) -> None:
    """S0.12."""
    with sync.Perdure.open(f"file://{tmp_path}/checkpoints") as store:
        store.thread("run", agent="planner").save({"ledger": ["plan the release"]}, note="round 1")
    (log,) = (tmp_path / "checkpoints").rglob("log.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert "plan the release" in json.dumps(lines[-1]["payload"])
    assert lines[-1]["checkpoint"]["note"] == "round 1"


def test_memory_lasts_as_long_as_its_store() -> None:
    """S0.13."""
    with sync.Perdure.open("memory://") as store:
        store.thread("run").save({"round": 1})
        assert store.thread("run").load() == {"round": 1}
    with sync.Perdure.open("memory://") as store, pytest.raises(NotFoundError):
        store.thread("run").load()


async def test_stale_checkpoints_go_when_the_process_starts(tmp_path: Path) -> None:
    """S0.14."""
    clock, url, policy = ManualClock(), f"sqlite:///{tmp_path}/runs.db", Retention(days=30)
    async with Perdure.open(url, clock=clock, retention=policy) as store:
        stale = await store.thread("run").save({"round": 1})
        clock.advance(timedelta(days=31))
        fresh = await store.thread("run").save({"round": 2})
        assert [point.id for point in await store.thread("run").history()] == [fresh.id, stale.id]
    async with Perdure.open(url, clock=clock, retention=policy) as store:
        assert [point.id for point in await store.thread("run").history()] == [fresh.id]


def test_an_agent_is_recovered_by_hand_from_its_newest_routine_point(tmp_path: Path) -> None:
    """S3.11, S3.12, S3.13, S3.14, S3.22, S3.24, S3.25: identify, restore, look at what came back."""
    with sync.Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        thread = store.thread("loop", agent="agent-3")
        point = thread.save(AGENT, kind="routine")
        thread.update(set={"current_task.status": "drifting", "memory.short_term": []})
        (found,) = thread.history(kind="routine", limit=1)
        thread.rewind(found)
        assert found.id == point.id
        assert thread.load() == AGENT


async def test_an_error_in_the_loop_leaves_a_recovery_point_and_the_loop_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S3.21: the exception and the point are told, and the next cycle follows the last one that was done."""
    clock, tried = ManualClock(), list[int]()

    def cycle(number: int) -> None:
        tried.append(number)
        if tried == [0, 1]:
            raise ValueError("the mailbox is gone")

    async with Perdure.open(
        f"sqlite:///{tmp_path}/agents.db", clock=clock, checkpoints=Triggers(strategy="interval")
    ) as store:

        @store.handler("loop")
        async def loop(run: Any) -> str:
            for number in range(3):
                await run.step("cycle", cycle, number)
                await run.update(set={"current_task.progress": number})
            return "done"

        await store.start("loop", thread="loop")
        (failed,) = await store.recover()
        thread = store.thread("loop")
        (point,) = await thread.history(kind="recovery")
        assert (failed.status, failed.error, point.status) == ("failed", "ValueError: the mailbox is gone", "failed")
        assert point.note == "failed: ValueError"
        assert await thread.load(point) == {"current_task": {"progress": 0}}
        assert "the mailbox is gone" in caplog.text
        clock.advance(timedelta(seconds=10))
        assert [each.result for each in await store.recover()] == ["done"]
        assert (tried, await thread.load()) == ([0, 1, 1, 2], {"current_task": {"progress": 2}})


def test_a_recovery_point_stays_a_week(tmp_path: Path) -> None:
    clock = ManualClock()
    with sync.Perdure.open(f"sqlite:///{tmp_path}/agents.db", clock=clock) as store:
        thread = store.thread("loop", agent="agent-3")
        point = thread.save(AGENT, kind="recovery", status="error", note="ValueError: mailbox")
        thread.save({**AGENT, "mailbox": {}}, kind="routine")
        clock.advance(timedelta(days=6))
        thread.prune(SEED_KINDS)
        assert thread.load(point) == AGENT
        clock.advance(timedelta(days=2))
        thread.prune(SEED_KINDS)
        assert [each.kind for each in thread.history()] == ["routine"]


def test_checkpoints_are_differential(tmp_path: Path) -> None:
    """S3.32: a hundred points of a large state that changes a little take less than three of it."""
    with sync.Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        thread, state = store.thread("loop"), {**AGENT, "knowledge": [f"fact {number}" * 20 for number in range(500)]}
        for cycle in range(100):
            thread.save({**state, "cycle": cycle}, kind="routine")
        assert len(thread.history(limit=200)) == 100
        assert thread.info().sizes.entry_bytes < 3 * len(json.dumps(state))


def test_a_routine_point_is_made_every_half_hour_and_three_of_each_agent_stay(tmp_path: Path) -> None:
    """S3.15, S3.19."""
    clock = ManualClock()
    with sync.Perdure.open(f"sqlite:///{tmp_path}/agents.db", clock=clock) as store:
        loop, other = store.thread("loop", agent="agent-1"), store.thread("other", agent="agent-10")
        other.routine(AGENT)
        made = []
        for _ in range(13):
            made.append(loop.routine(AGENT))
            clock.advance(timedelta(minutes=10))
        assert [point is not None for point in made] == [True, False, False] * 4 + [True]
        store.prune(SEED_KINDS)
        assert [point.id for point in loop.history()] == [made[at].id for at in (12, 9, 6)]
        assert len(other.history()) == 1
