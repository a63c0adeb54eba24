"""Going on from a checkpoint, and with a file that changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import CheckpointManager, Perdure, SQLiteCheckpointStorage
from perdure.errors import InvalidInputError, NotFoundError, UnfinishedRunError
from perdure.testing.servers import require, shared_postgres
from perdure.workflows import Workflow, WorkflowExecutor, WorkflowPreview, parse_workflow
from tests.flowagent.places import ThreeMethods
from tests.workflows.scenes import World, executor

THREE = """
workflow: {name: three, checkpoint: true}
inputs: {n: {type: integer, default: 1}}
steps:
  - {name: a, agent: A, input: "a {{ inputs.n }}"}
  - {name: b, agent: B, input: "b {{ steps.a.output }}"}
  - {name: c, agent: C, input: "c {{ steps.b.output }}"}
"""


def three(text: str = THREE) -> Workflow:
    return parse_workflow(text)


def of(world: World, store: Any = None, **options: Any) -> WorkflowExecutor:
    def agent(name: str) -> Any:
        async def work(given: Any) -> str:
            world.mark(name)
            return f"{name}({given})"

        return work

    return WorkflowExecutor({name: agent(name) for name in "ABC"}, store=store, **options)


async def ids_by_step(store: Perdure, thread: str) -> dict[str, str]:
    return {str(each.note): each.id for each in reversed(await store.thread(thread).history())}


async def test_an_older_checkpoint_is_gone_back_to_on_the_same_thread(store: Perdure, world: World) -> None:
    runner = of(world, store)
    await runner.run(three(), thread="t")
    points = await ids_by_step(store, "t")
    preview = await runner.run(three(), checkpoint_id=points["a"], dry_run=True)
    assert isinstance(preview, WorkflowPreview)
    assert (preview.done, preview.missing, preview.thread) == (["a"], ["b", "c"], "t")
    assert preview.left_behind is not None
    assert set(preview.left_behind.checkpoints) == {points["b"], points["c"]}
    result = await runner.run(three(), checkpoint_id=points["a"])
    assert (result.output, result.thread) == ("C(c B(b A(a 1)))", "t")
    assert world.counts() == {"A": 1, "B": 2, "C": 2}
    assert [each.note for each in await store.thread("t").history(kind="routine")] == ["c", "b", "a"]


async def test_a_checkpoint_with_other_inputs_uses_what_is_done_and_gives_them_to_the_rest(
    store: Perdure, world: World
) -> None:
    runner = of(world, store)
    await runner.run(three(), thread="t")
    text = THREE.replace("c {{ steps.b.output }}", "c {{ inputs.n }}")
    points = await ids_by_step(store, "t")
    result = await of(world, store, changed="keep").run(three(text), {"n": 7}, checkpoint_id=points["b"])
    assert (result.output, result["a"]) == ("C(c 7)", "A(a 1)")


async def test_checkpoints_that_do_not_fit_are_refused(store: Perdure, world: World) -> None:
    runner = of(world, store)
    with pytest.raises(NotFoundError, match="chk_nothing"):
        await runner.run(three(), checkpoint_id="chk_nothing")
    await runner.run(three(), thread="t")
    points = await ids_by_step(store, "t")
    with pytest.raises(InvalidInputError, match="one of workflow 'three', not of 'other'"):
        await runner.run(three(THREE.replace("three", "other")), checkpoint_id=points["a"])
    with pytest.raises(NotFoundError):
        await runner.run(three(), checkpoint_id=points["a"], user="bob")
    point = await store.thread("plain").save({"x": 1})
    with pytest.raises(InvalidInputError, match="none of a workflow"):
        await runner.run(three(), checkpoint_id=point.id)


async def test_the_thread_of_another_user_is_never_gone_on_with(store: Perdure, world: World) -> None:
    runner = of(world, store)
    await runner.run(three(), thread="t", user="ann")
    (point,) = await store.thread("t", user="ann").history(limit=1)
    with pytest.raises(NotFoundError):
        await runner.run(three(), checkpoint_id=point.id, user="bob")
    with pytest.raises(NotFoundError):
        await runner.run(three(), checkpoint_id=point.id)
    mine = await runner.run(three(), {"n": 2}, thread="t", user="bob")
    assert mine.output == "C(c B(b A(a 2)))"
    assert (await runner.run(three(), checkpoint_id=point.id, user="ann")).output == "C(c B(b A(a 1)))"


@pytest.mark.parametrize(
    ("changed", "marks"), [("keep", {"A": 1, "B": 1, "C": 1}), ("rerun", {"A": 1, "B": 2, "C": 1})]
)
async def test_a_step_that_changed_after_it_ran_is_kept_or_run_again(
    store: Perdure, world: World, changed: Any, marks: dict[str, int]
) -> None:
    async def waits(store: Perdure, text: str, changed: Any) -> Any:
        return await of(world, store, changed=changed).run(three(text), thread="t")

    asks = THREE.replace("  - {name: c,", "  - {name: ok, approval: Go?}\n  - {name: c,")
    paused = await waits(store, asks, "ask")
    await store.decide(paused.pauses[0], approved=True, by="ann")
    result = await waits(store, asks.replace('"b {{', '"new b {{'), changed)
    assert result["b"] == ("B(new b A(a 1))" if changed == "rerun" else "B(b A(a 1))")
    assert world.counts() == marks


@pytest.mark.parametrize("again", [True, False])
async def test_a_person_is_asked_about_a_step_that_changed(store: Perdure, world: World, again: bool) -> None:
    asks = THREE.replace("  - {name: c,", "  - {name: ok, approval: Go?}\n  - {name: c,")
    runner = of(world, store)
    paused = await runner.run(three(asks), thread="t")
    await store.decide(paused.pauses[0], approved=True, by="ann")
    asked = await runner.run(three(asks.replace('"b {{', '"new b {{')), thread="t")
    (pause,) = asked.pauses
    assert pause.ask.startswith("Step b is defined differently than when it ran. Approve: run it again")
    await store.decide(pause, approved=again, by="ann")
    result = await runner.run(three(asks.replace('"b {{', '"new b {{')), thread="t")
    assert (bool(result), world.counts()["B"]) == (True, 2 if again else 1)


async def test_a_run_that_somebody_works_on_is_not_taken_away_by_a_checkpoint(store: Perdure, world: World) -> None:
    runner = of(world, store)
    await runner.run(three(), thread="t")
    points = await ids_by_step(store, "t")
    async with store.thread("t").run(key="other"):
        with pytest.raises(UnfinishedRunError):
            await runner.run(three(), checkpoint_id=points["a"])


async def test_a_storage_of_three_methods_keeps_the_results_in_its_checkpoints(world: World) -> None:
    storage = ThreeMethods()
    manager = CheckpointManager(storage=storage)
    events: list[str] = []
    manager.on("checkpoint_saved")(lambda point: events.append(point.metadata["step"]))
    runner = of(world, checkpoint_manager=manager)
    await runner.run(three(), user="ann")
    points = {each.metadata["step"]: each.id for each in await manager.list_by_user("ann")}
    await runner.close()
    again = of(world, checkpoint_manager=CheckpointManager(storage=storage))  # another process: nothing in memory
    result = await again.run(three(), checkpoint_id=points["b"], user="ann")
    assert (result.output, events) == ("C(c B(b A(a 1)))", ["a", "b", "c"])
    assert world.counts() == {"A": 1, "B": 1, "C": 2}
    with pytest.raises(NotFoundError):
        await again.run(three(), checkpoint_id=points["b"], user="bob")
    await again.close()


async def test_limits_of_the_manager_hold_for_workflows(tmp_path: Path, world: World) -> None:
    async with SQLiteCheckpointStorage(tmp_path / "c.db", max_checkpoints_per_user=2) as storage:
        runner = of(world, checkpoint_manager=CheckpointManager(storage=storage))
        assert (await runner.run(three())).output == "C(c B(b A(a 1)))"
        assert [each.note for each in await storage.list_by_user("")] == ["c", "b"]


async def test_a_worker_of_another_process_ends_a_workflow(tmp_path: Path) -> None:
    url, world = f"sqlite:///{tmp_path}/w.db", World(tmp_path)
    async with Perdure.open(url) as first:
        name = of(world, first).register(three())
        ticket = await first.start(name, {"inputs": {"n": 5}}, thread="t")
    async with Perdure.open(url) as second:
        of(world, second).register(three())
        (info,) = await second.recover()
        assert (info.id, info.result) == (ticket.id, "C(c B(b A(a 5)))")


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_workflow_that_is_killed_after_its_writes_ends_as_if_it_were_not(backend: str, tmp_path: Path) -> None:
    """S1.35; every seventh write here, every one by `python -m tests.workflows.kills`."""
    url = f"sqlite:///{tmp_path}/w.db"
    if backend == "postgres":
        url = require(shared_postgres).database(f"workflows_{os.getpid()}")
    command = [sys.executable, "-m", "tests.workflows.kills", url, str(tmp_path), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert told["kills"] >= 6


async def test_a_step_of_a_release_is_found_by_its_name_in_the_progress(store: Perdure, world: World) -> None:
    runner = executor(store, world)
    with pytest.raises(NotFoundError):
        await store.thread("nothing").load()
    progress = await runner.progress(three(), "nothing")
    assert {each.status for each in progress.values()} == {"next", "pending"}
