"""Questions to people: durable, answered once, and nothing of the run stays in memory."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from perdure import ANY_USER, Perdure
from perdure.core.errors import InvalidInputError, NotFoundError, PauseClosedError, VersionConflictError
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def deploying(run: Any) -> Any:
    decision = await run.pause("deploy", ask="Deploy?", args={"env": "prod"})
    return [bool(decision), decision.args, decision.answer, decision.by]


async def test_a_pause_is_listed_until_it_is_decided_and_the_thread_says_so(store: Any) -> None:
    async with store.thread("t", user="ann").run() as run:
        await deploying(run)
    (pause,) = await store.pauses()
    assert (pause.name, pause.ask, pause.args, pause.thread, pause.user, pause.run, pause.status) == (
        "deploy", "Deploy?", {"env": "prod"}, "t", "ann", run.id, "open",
    )  # fmt: skip
    assert (run.paused, (await store.thread("t", user="ann").info()).status) == (True, "input_required")
    assert await store.pauses("t", user="ann") == await store.pauses(user="ann") == [pause]
    assert await store.pauses("t", user=ANY_USER) == await store.pauses(user=ANY_USER) == [pause]
    assert await store.pauses("t") == await store.pauses("t", user="bob") == await store.pauses(user="bob") == []
    await store.decide(pause, approved=True, by="ann")
    assert await store.pauses() == []


@pytest.mark.parametrize(
    ("decision", "seen"),
    [
        ({"approved": True}, [True, {"env": "prod"}, None, "ann"]),
        ({"approved": True, "args": {"env": "test"}}, [True, {"env": "test"}, None, "ann"]),
        ({"approved": False, "answer": "not today"}, [False, {"env": "prod"}, "not today", "ann"]),
    ],
)
async def test_the_run_goes_on_with_the_decision(store: Any, decision: dict[str, Any], seen: list[Any]) -> None:
    await block(store, deploying)
    (pause,) = await store.pauses()
    made = await store.decide(pause.id, by="ann", **decision)
    assert (made.pause, made.by) == (pause.id, "ann")
    assert await block(store, deploying) == seen


async def test_a_second_decision_is_refused_and_names_the_first(store: Any) -> None:
    await block(store, deploying)
    (pause,) = await store.pauses()
    await store.decide(pause, approved=True, by="ann")
    with pytest.raises(PauseClosedError, match="ann"):
        await store.decide(pause, approved=False, by="bob")
    with pytest.raises(PauseClosedError, match="ann"):
        await store.decide(pause, approved=True, by="ann")
    assert await block(store, deploying) == [True, {"env": "prod"}, None, "ann"]
    with pytest.raises(PauseClosedError, match="ann"):
        await store.decide(pause, approved=False, by="bob")


async def test_of_two_decisions_at_once_one_stands(store: Any) -> None:
    await block(store, deploying)
    (pause,) = await store.pauses()
    both = [store.decide(pause, approved=True, by=name) for name in ("ann", "bob")]
    done = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(each).__name__ for each in done) == ["Decision", "PauseClosedError"]
    assert (await kinds(store)).count("pause.decided") == 1


async def test_a_decision_about_another_version_than_the_one_that_stands_is_refused(store: Any) -> None:
    await block(store, deploying)
    (pause,) = await store.pauses()
    with pytest.raises(VersionConflictError):
        await store.decide(pause, approved=True, by="ann", version=pause.version + 1)
    await store.decide(pause, approved=True, by="ann", version=pause.version)


@pytest.mark.parametrize(("wrong", "error"), [("nothing", InvalidInputError), ("pau_a.b", NotFoundError)])
async def test_a_pause_that_is_not_there_cannot_be_decided(store: Any, wrong: str, error: type[Exception]) -> None:
    await block(store, deploying)
    with pytest.raises(error):
        await store.decide(wrong, approved=True, by="ann")


async def test_a_handler_is_due_as_soon_as_somebody_decided(store: Any) -> None:
    store.handler("deploy")(deploying)
    await store.start("deploy", thread="t")
    (info,) = await store.recover()
    assert (info.status, info.owner, await store.recover()) == ("input_required", None, [])
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    (info,) = await store.recover()
    assert (info.status, info.result) == ("finished", [True, {"env": "prod"}, None, "ann"])


async def test_a_pause_saves_a_checkpoint_of_the_state(store: Any) -> None:
    async def code(run: Any) -> Any:
        await run.save({"n": 1})
        return await deploying(run)

    await block(store, code)
    point = (await store.thread("t").history())[0]
    assert (point.kind, point.status, point.note) == ("pause", "input_required", "Deploy?")
    assert await store.thread("t").load(point.id) == {"n": 1}


async def test_steps_beside_a_pause_finish_first(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        async def slow() -> str:
            await asyncio.sleep(0.1)
            return await jobs.job("slow", "done")()

        return await asyncio.gather(deploying(run), run.step("slow", slow))

    await block(store, code)
    assert (await kinds(store)).count("step.finished") == 1
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    assert await block(store, code) == [[True, {"env": "prod"}, None, "ann"], "done"]
    assert jobs.count("slow") == 1


async def test_parallel_pauses_are_asked_together_and_answered_one_by_one(store: Any) -> None:
    async def code(run: Any) -> Any:
        asked = [run.pause(name, ask=name) for name in ("one", "two")]
        return [decision.answer for decision in await asyncio.gather(*asked)]

    await block(store, code)
    one, two = await store.pauses()
    await store.decide(two, approved=True, by="ann", answer=2)
    await block(store, code)
    assert await store.pauses() == [one]
    await store.decide(one, approved=True, by="ann", answer=1)
    assert await block(store, code) == [1, 2]


async def test_pauses_inside_parallel_steps_do_not_wait_for_each_other(store: Any) -> None:
    async def code(run: Any) -> Any:
        async def asks(name: str) -> Any:
            return (await run.pause(name, ask=name)).answer

        return await asyncio.gather(*(run.step("ask", asks, name) for name in ("one", "two")))

    await asyncio.wait_for(block(store, code), 20)
    for n, pause in enumerate(sorted(await store.pauses(), key=lambda pause: pause.name)):
        await store.decide(pause, approved=True, by="ann", answer=n)
    assert await block(store, code) == [0, 1]


async def test_pauses_in_a_task_group_are_pauses(store: Any) -> None:
    async def code(run: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run.pause(name, ask=name)) for name in ("one", "two")]
        return [task.result().answer for task in tasks]

    store.handler("work")(code)
    await store.start("work", thread="t")
    assert (await store.resume("t")).status == "input_required"
    for pause in await store.pauses():
        await store.decide(pause, approved=True, by="ann", answer=pause.name)
    assert (await store.resume("t")).result == ["one", "two"]


async def test_no_except_exception_stops_a_pause(store: Any) -> None:
    async def code(run: Any) -> Any:
        try:
            return await deploying(run)
        except Exception:
            return "caught"

    assert await block(store, code) is None
    assert len(await store.pauses()) == 1


async def test_nothing_of_a_paused_run_stays_in_memory(store: Any) -> None:
    runs: list[Any] = []

    @store.handler("work")
    async def work(run: Any) -> Any:
        runs.append(weakref.ref(run))
        return await deploying(run)

    await store.start("work", thread="t")
    await store.recover()
    gc.collect()
    assert [each() for each in runs] == [None]


async def test_a_pause_survives_a_restart_of_the_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url) as store:
        await block(store, deploying)
    async with Perdure.open(url) as store:
        (pause,) = await store.pauses()
        await store.decide(pause, approved=True, by="ann")
    async with Perdure.open(url) as store:
        assert await block(store, deploying) == [True, {"env": "prod"}, None, "ann"]


async def test_a_crash_after_the_answer_does_not_ask_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        decision = await run.pause("ok", ask="ok?")
        await run.step("die", jobs.job("die", dies=[1]))
        return decision.by

    await block(store, code)
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    await dies(block(store, code))
    assert await block(store, code) == "ann"
    assert (await kinds(store)).count("pause.opened") == 1


async def test_deciding_about_a_cancelled_run_wakes_nobody(store: Any) -> None:
    store.handler("deploy")(deploying)
    await store.start("deploy", thread="t")
    await store.recover()
    (pause,) = await store.pauses()
    await store.cancel("t")
    assert await store.pauses() == []
    with pytest.raises(PauseClosedError):
        await store.decide(pause, approved=True, by="ann")
    assert await store.recover() == []
