"""The state as a run changes it: once, however often it is resumed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import Retry
from perdure.core.errors import (
    InvalidInputError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    RunDivergedError,
    RunFinishedError,
)
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import TTL, Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


async def test_append_update_and_save_in_a_run_are_not_doubled_by_resuming(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        await run.save({"log": [], "n": 0})
        await run.append("log", "one", "two")
        await run.append("log", "one", "two")
        await run.update(set={"n": 1}, append={"log": ["three"]})
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    before = (await store.thread("t").info()).state_version
    await block(store, code)
    assert await store.thread("t").load() == {"log": ["one", "two", "one", "two", "three"], "n": 1}
    assert (await store.thread("t").info()).state_version == before


async def test_they_return_the_same_versions_after_resuming(store: Any, jobs: Jobs) -> None:
    seen: list[Any] = []

    async def code(run: Any) -> None:
        seen.append([await run.append("log", 1), await run.update(set={"a": 1}), await run.save({"b": 2})])
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert seen[0] == seen[1]


async def test_a_write_inside_a_step_that_is_cut_off_is_made_once(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        async def note() -> None:
            await run.append("log", "noted")
            await jobs.job("die", dies=[1])()

        await run.step("note", note)

    await dies(block(store, code))
    await block(store, code)
    assert await store.thread("t").load() == {"log": ["noted"]}


async def test_a_write_with_other_values_than_recorded_is_a_divergence(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        await run.append("log", jobs.count("die"))
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    with pytest.raises(RunDivergedError, match="append number 1 with other values"):
        await block(store, code)
    assert await store.thread("t").load() == {"log": [0]}


async def test_checkpoints_of_a_run_are_listed(store: Any) -> None:
    async def code(run: Any) -> None:
        await run.save({"n": 1}, kind="pre_operation", note="before", metadata={"a": 1})
        await run.update(set={"n": 2}, checkpoint=True)

    await block(store, code)
    points = await store.thread("t").history()
    assert [(point.kind, point.note) for point in points] == [("manual", None), ("pre_operation", "before")]


async def test_load_gives_the_newest_state_a_default_or_an_error(store: Any) -> None:
    async with store.thread("t").run() as run:
        assert await run.load(default={}) == {}
        with pytest.raises(NotFoundError):
            await run.load()
        await run.save({"n": 1})
        assert await run.load() == {"n": 1}


async def test_others_may_append_under_a_live_lease_and_nothing_else(store: Any) -> None:
    thread = store.thread("t")
    async with thread.run() as run:
        await run.save({"n": 1})
        await store.thread("t").append("log", "from outside")
        await store.thread("t").add_messages("hello")
        with pytest.raises(LeaseHeldError):
            await store.thread("t").save({"n": 2})
        await run.append("log", "from inside")
    assert await thread.load() == {"n": 1, "log": ["from outside", "from inside"]}


async def test_a_run_whose_lease_was_taken_writes_nothing_more(store: Any, clock: ManualClock) -> None:
    async def code(run: Any) -> None:
        await run.append("log", "mine")
        clock.advance(timedelta(seconds=TTL + 1))
        async with store.thread("t").run() as other:
            await other.step("other", lambda: 1)
        await run.append("log", "late")

    with pytest.raises(LeaseLostError):
        await block(store, code)
    assert await store.thread("t").load() == {"log": ["mine"]}
    assert (await kinds(store))[-1] == "run.finished"


async def test_what_parallel_code_appends_is_all_there_after_resuming(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        await asyncio.gather(*(run.append("log", n) for n in range(5)))
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert sorted((await store.thread("t").load())["log"]) == [0, 1, 2, 3, 4]


def branches(jobs: Jobs, order: list[int]) -> Any:
    """Code that appends in parallel, its branches in the order that is given for each time it runs."""

    async def code(run: Any) -> None:
        first = order.pop()

        async def branch(n: int) -> None:
            if n != first:
                await asyncio.sleep(0.01)
            await run.append("log", n)
            await run.update(set={f"branch {n}": True}, append={"log": [n * 10]})
            await run.append("log", "equal")

        await asyncio.gather(branch(1), branch(2))
        await run.append("log", "end")
        await run.step("die", jobs.job("die", dies=[1]))

    return code


@pytest.mark.parametrize("thread", ["t", "nested"])
async def test_parallel_code_may_come_back_in_another_order(store: Any, jobs: Jobs, thread: str) -> None:
    code = branches(jobs, [2, 1])

    async def nested(run: Any) -> None:
        await run.step("inside", lambda: code(run))

    await dies(block(store, code if thread == "t" else nested))
    before = await store.thread("t").load()
    await block(store, code if thread == "t" else nested)
    assert sorted(before["log"], key=str) == [1, 10, 2, 20, "end", "equal", "equal"]
    assert await store.thread("t").load() == before


async def test_a_parallel_write_that_was_not_made_yet_is_made(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        async def branch(n: int) -> None:
            await run.step("before", lambda: n)
            await run.append("log", n)
            await run.step("die", jobs.job("die", dies=[1]), n)

        await asyncio.gather(*(branch(n) for n in range(3)), return_exceptions=False)

    await dies(block(store, code))
    await block(store, code)
    assert sorted((await store.thread("t").load())["log"]) == [0, 1, 2]


async def test_another_kind_of_write_in_the_same_place_is_a_divergence(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        if jobs.count("die"):
            await run.update(set={"log": "other"})
        await run.append("log", "one")
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    with pytest.raises(RunDivergedError, match="update number 1 with other values"):
        await block(store, code)


async def test_so_is_one_of_a_step_that_is_tried_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        async def note() -> None:
            jobs.ran.append("note")
            await run.append("log", jobs.count("note"))
            raise ConnectionError

        await run.options(retry=Retry(attempts=2, wait=0)).step("note", note)

    with pytest.raises(RunDivergedError, match="append number 1"):
        await block(store, code)
    assert await store.thread("t").load() == {"log": [1]}


async def test_a_block_may_accept_what_changed(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> None:
        await run.append("log", jobs.count("die"))
        await run.append("log", "same")
        await run.step(f"die {jobs.count('die')}", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code, changed="accept")
    assert await store.thread("t").load() == {"log": [0, "same", 1]}
    with pytest.raises(InvalidInputError, match="changed must be"):
        store.thread("t").run(changed="maybe")


async def test_writes_of_a_run_that_is_over_are_read_from_its_log(store: Any) -> None:
    async def code(run: Any) -> list[int]:
        return await asyncio.gather(*(run.append("log", n) for n in (1, 2)))

    async def backwards(run: Any) -> list[int]:
        return list(reversed(await asyncio.gather(*(run.append("log", n) for n in (2, 1)))))

    first = await block(store, code, key="k")
    async with store.thread("t").run(key="k") as run:
        assert await backwards(run) == first
        with pytest.raises(RunFinishedError):
            await run.append("log", 3)


async def test_after_resuming_the_code_sees_the_state_that_it_saw(store: Any, jobs: Jobs) -> None:
    saw: list[Any] = []

    async def turn(run: Any) -> None:
        state = await run.load(default={"messages": []})
        saw.append(state["messages"])
        reply = await run.step("answer", jobs.job("answer", f"answer to {len(saw[-1])} messages"), state["messages"])
        await run.append("messages", reply)
        await run.step("die", jobs.job("die", dies=[1]))

    await store.thread("t").save({"messages": ["hi"]})
    await dies(block(store, turn))
    await block(store, turn)
    assert saw == [["hi"], ["hi"]]
    assert await store.thread("t").load() == {"messages": ["hi", "answer to 1 messages"]}
    assert jobs.ran == ["answer", "die", "die"]


async def test_a_fresh_look_sees_the_newest_state(store: Any, jobs: Jobs) -> None:
    saw: list[Any] = []

    async def code(run: Any) -> None:
        saw.append(await run.load(default=0, fresh=True))
        await run.save(1)
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert saw == [0, 1]


async def test_a_state_that_an_unfinished_run_loaded_outlives_a_prune(store: Any) -> None:
    async def code(run: Any) -> Any:
        first = await run.load()
        for n in range(20):
            await run.save({"n": n, "text": "x" * 500})
        await run.pause("go on", ask="Go on?")
        return [first["n"], (await run.load())["n"]]

    thread = store.thread("t")
    for n in range(-9, 0):
        await thread.save({"n": n, "text": "x" * 500})
    await block(store, code)
    assert (await thread.prune(keep=1)).points > 0
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    assert await block(store, code) == [-1, 19]
    assert (await thread.prune(keep=1)).points > 0
