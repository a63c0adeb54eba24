"""Which run is meant: keys, inputs, and what becomes of one that is not finished."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from perdure.core.errors import InvalidInputError, KeyReusedError, UnfinishedRunError
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import TTL, Jobs, Killed, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


def answering(jobs: Jobs, dead_at: int = 1) -> Any:
    async def code(run: Any) -> Any:
        answer = await run.step("answer", lambda: jobs.ran.append("answer") or f"to {run.input}")
        await run.step("die", jobs.job("die", dies=[dead_at]))
        return answer

    return code


async def test_the_same_key_twice_runs_once_and_gives_the_same_result(store: Any, jobs: Jobs) -> None:
    code = answering(jobs, dead_at=0)
    assert await block(store, code, key="turn-1", input="hi") == "to hi"
    assert await block(store, code, key="turn-1", input="hi") == "to hi"
    assert jobs.count("answer") == 1
    assert (await kinds(store)).count("run.started") == 1


async def test_the_same_key_from_several_tasks_at_once_runs_once(store: Any, jobs: Jobs) -> None:
    code = answering(jobs, dead_at=0)
    results = await asyncio.gather(*(block(store, code, key="turn-1", input="hi") for _ in range(4)))
    assert results == ["to hi"] * 4
    assert (jobs.count("answer"), (await kinds(store)).count("run.finished")) == (1, 1)


async def test_different_keys_at_once_in_a_new_thread_all_run(store: Any, jobs: Jobs) -> None:
    code = answering(jobs, dead_at=0)
    turns = [block(store, code, key=f"turn-{n}", input=n) for n in range(4)]
    assert await asyncio.gather(*turns) == ["to 0", "to 1", "to 2", "to 3"]
    assert (await kinds(store)).count("run.finished") == 4


async def test_a_new_turn_after_a_crashed_one_never_gets_its_answers(store: Any, jobs: Jobs) -> None:
    code = answering(jobs)
    await dies(block(store, code, input="one"))
    assert await block(store, code, input="two") == "to two"
    assert await kinds(store) == [
        *("run.started", "step.finished", "run.cancelled"),
        *("run.started", "step.finished", "step.finished", "run.finished"),
    ]


async def test_so_it_is_with_another_key(store: Any, jobs: Jobs) -> None:
    code = answering(jobs)
    await dies(block(store, code, key="one", input="x"))
    assert await block(store, code, key="two", input="x") == "to x"
    assert jobs.count("answer") == 2


async def test_the_same_turn_after_a_crash_goes_on(store: Any, jobs: Jobs) -> None:
    code = answering(jobs)
    await dies(block(store, code, key="one", input="x"))
    assert await block(store, code, key="one", input="x") == "to x"
    assert jobs.count("answer") == 1


async def test_when_neither_key_nor_input_is_given_the_unfinished_run_goes_on(store: Any, jobs: Jobs) -> None:
    code = answering(jobs)
    await dies(block(store, code, key="one", input="x"))
    assert await block(store, code) == "to x"
    assert jobs.count("answer") == 1


async def test_unfinished_fail_refuses_and_names_the_run(store: Any, jobs: Jobs) -> None:
    await dies(block(store, answering(jobs), input="x"))
    (info,) = await store.runs()
    with pytest.raises(UnfinishedRunError, match=info.id):
        await block(store, answering(jobs), input="x", unfinished="fail")
    assert await block(store, answering(jobs)) == "to x"


async def test_unfinished_abandon_leaves_it_behind(store: Any, jobs: Jobs) -> None:
    await dies(block(store, answering(jobs), input="x"))
    assert await block(store, answering(jobs), input="x", unfinished="abandon") == "to x"
    assert jobs.count("answer") == 2


async def test_a_run_that_waits_for_somebody_is_not_left_behind_by_a_new_turn(store: Any) -> None:
    async def asking(run: Any) -> Any:
        return await run.pause("ok", ask="ok?")

    await block(store, asking, input=1)
    with pytest.raises(UnfinishedRunError):
        await block(store, asking, input=2)
    assert len(await store.pauses()) == 1
    await block(store, asking, input=2, unfinished="abandon")
    (pause,) = await store.pauses()
    assert pause.run == (await store.runs())[0].id


async def test_another_turn_waits_for_one_that_is_under_way(store: Any, jobs: Jobs) -> None:
    async def slow(run: Any) -> Any:
        await run.step("slow", asyncio.sleep, 0.3)
        return run.input

    assert await asyncio.gather(block(store, slow, input=1), block(store, slow, input=2)) == [1, 2]


async def test_an_unfinished_word_that_cannot_be_is_refused(store: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.thread("t").run(unfinished="maybe")


async def test_starting_a_handler_with_the_same_key_is_the_same_run(store: Any) -> None:
    first = await store.start("work", {"n": 1}, thread="t", key="k")
    again = await store.start("work", {"n": 1}, thread="t", key="k")
    assert first.id == again.id
    with pytest.raises(KeyReusedError):
        await store.start("work", {"n": 2}, thread="t", key="k")


async def test_starting_at_once_under_one_key_is_one_run(store: Any) -> None:
    tickets = await asyncio.gather(*(store.start("work", 1, thread="t", key="k") for _ in range(4)))
    assert len({ticket.id for ticket in tickets}) == 1
    assert (await kinds(store)).count("run.started") == 1


async def test_a_thread_with_an_unfinished_run_takes_no_second_one(store: Any) -> None:
    ticket = await store.start("work", thread="t")
    with pytest.raises(UnfinishedRunError, match=ticket.id):
        await store.start("work", thread="t")


async def test_of_several_starts_at_once_one_stands_and_the_others_are_refused(store: Any) -> None:
    starts = (store.start("work", n, thread="t") for n in range(4))
    done = await asyncio.gather(*starts, return_exceptions=True)
    assert sorted(type(each).__name__ for each in done) == ["Ticket", *["UnfinishedRunError"] * 3]


async def test_so_it_is_with_starts_under_different_keys(store: Any) -> None:
    for thread in ("new", "old"):
        await store.thread("old").append("messages", "hi")
        starts = (store.start("work", n, thread=thread, key=f"k{n}") for n in range(4))
        done = await asyncio.gather(*starts, return_exceptions=True)
        assert sorted(type(each).__name__ for each in done) == ["Ticket", *["UnfinishedRunError"] * 3]
        assert (await kinds(store, thread)).count("run.started") == 1


async def test_a_start_at_the_same_moment_as_a_block_is_refused_or_refuses_it(store: Any) -> None:
    async def code(run: Any) -> str:
        return "done"

    for thread in ("new", "old"):
        await store.thread("old").append("messages", "hi")
        block_, start = block(store, code, thread, key="a"), store.start("work", thread=thread, key="b")
        done = await asyncio.gather(block_, start, return_exceptions=True)
        refused = [each for each in done if isinstance(each, UnfinishedRunError)]
        started = (await kinds(store, thread)).count("run.started")
        assert (started, refused) in [(2, []), (1, [done[0]]), (1, [done[1]])]
        queued = [each for each in await store.runs(status="queued") if each.thread == thread]
        assert len(queued) == (0 if done[1] in refused else 1)


async def test_a_start_and_a_block_of_one_key_at_the_same_moment_are_one_run(store: Any) -> None:
    async def code(run: Any) -> str:
        return "done"

    for thread in ("new", "old"):
        await store.thread("old").append("messages", "hi")
        start = store.start("work", thread=thread, key="k")
        await asyncio.gather(block(store, code, thread, key="k"), start, return_exceptions=True)
        assert (await kinds(store, thread)).count("run.started") == 1


async def test_the_key_of_a_live_run_waits_for_its_result(store: Any, jobs: Jobs, clock: ManualClock) -> None:
    code = answering(jobs, dead_at=0)
    async with store.thread("t").run(key="k") as run:
        waiting = asyncio.create_task(block(store, code, key="k"))
        await asyncio.sleep(0.05)
        run.result = await code(run)
    assert await waiting == "to None"
    assert jobs.count("answer") == 1
    clock.advance(timedelta(seconds=TTL))


@pytest.mark.parametrize("finished", [True, False])
async def test_a_key_with_another_input_is_refused_and_the_run_stays(store: Any, jobs: Jobs, finished: bool) -> None:
    async def code(run: Any) -> Any:
        await run.step("work", jobs.job("work", dies=[] if finished else [1]))
        return run.input

    with nullcontext() if finished else pytest.raises(Killed):
        await block(store, code, key="k", input=1)
    with pytest.raises(KeyReusedError):
        await block(store, code, key="k", input=2)
    assert [await block(store, code, key="k", input=1), await block(store, code, key="k")] == [1, 1]


async def test_an_input_that_took_the_place_of_another_is_as_good_as_the_first(store: Any) -> None:
    @store.handler("work")
    async def work(run: Any) -> Any:
        return await run.step("half", lambda: 10 / run.input)

    await store.start("work", 0, thread="t", key="k")
    with pytest.raises(ZeroDivisionError):
        await store.resume("t")
    await store.resume("t", input=5)
    for given in (0, 5):
        assert await block(store, work, key="k", input=given) == 2
    with pytest.raises(KeyReusedError):
        await block(store, work, key="k", input=7)
