"""Code that changed between two lives of a run."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.errors import RunDivergedError
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, store

__all__ = ["clock", "jobs", "store"]


def handlers(jobs: Jobs, *names: str) -> Any:
    """Code that makes these calls; a name in capitals dies the first time."""

    async def code(run: Any) -> list[Any]:
        return [await run.step(name, jobs.job(name, name, dies=[1] if name.isupper() else [])) for name in names]

    return code


async def crashed(store: Any, jobs: Jobs, then: Any) -> None:
    """A run of the handler "work" that recorded a and b, and code that came after."""
    calls = [handlers(jobs, "a", "b", "DIE"), then]
    store.handler("work")(lambda run: (calls.pop(0) if len(calls) > 1 else calls[0])(run))
    await store.start("work", thread="t")
    await dies(store.resume("t"))


async def test_the_error_shows_both_and_nothing_is_run(store: Any, jobs: Jobs) -> None:
    await crashed(store, jobs, handlers(jobs, "a", "c"))
    with pytest.raises(RunDivergedError) as raised:
        await store.resume("t")
    assert (raised.value.recorded, raised.value.asked) == ("b()", "c()")
    assert jobs.ran == ["a", "b", "DIE"]


async def test_other_arguments_are_named(store: Any, jobs: Jobs) -> None:
    async def then(run: Any) -> None:
        await run.step("a", jobs.job("a"))
        await run.step("b", jobs.job("b"), "new argument")

    await crashed(store, jobs, then)
    with pytest.raises(RunDivergedError, match=r"recorded b\(\) here, the code asks for b\('new argument'\)"):
        await store.resume("t")


async def test_the_run_is_not_lost_the_old_code_goes_on_with_it(store: Any, jobs: Jobs) -> None:
    await crashed(store, jobs, handlers(jobs, "a", "c"))
    with pytest.raises(RunDivergedError):
        await store.resume("t")
    store._parts.running.handlers._known.clear()
    store.handler("work")(handlers(jobs, "a", "b", "DIE"))
    assert (await store.resume("t")).result == ["a", "b", "DIE"]
    assert jobs.ran == ["a", "b", "DIE", "DIE"]


async def test_changed_code_goes_on_when_that_is_accepted(store: Any, jobs: Jobs) -> None:
    await crashed(store, jobs, handlers(jobs, "a", "c", "b"))
    info = await store.resume("t", changed="accept")
    assert (info.status, info.result) == ("finished", ["a", "c", "b"])
    assert jobs.ran == ["a", "b", "DIE", "c"]


async def test_a_run_of_changed_code_can_be_left_behind(store: Any, jobs: Jobs) -> None:
    await crashed(store, jobs, handlers(jobs, "a", "c"))
    with pytest.raises(RunDivergedError):
        await store.resume("t")
    assert await block(store, handlers(jobs, "c"), unfinished="abandon") == ["c"]


async def test_recovering_changed_code_leaves_the_run_dead_with_its_reason(store: Any, jobs: Jobs) -> None:
    await crashed(store, jobs, handlers(jobs, "a", "c"))
    (info,) = await store.recover()
    assert info.status == "dead"
    assert info.error.startswith("RunDivergedError")


async def test_code_that_asks_in_another_order_gets_the_same_answers(store: Any, jobs: Jobs) -> None:
    await crashed(store, jobs, handlers(jobs, "b", "a", "c"))
    assert (await store.resume("t")).result == ["b", "a", "c"]
    assert jobs.ran == ["a", "b", "DIE", "c"]


async def test_code_that_reads_the_state_first_may_skip_ahead(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        done = (await run.load({"done": []}, fresh=True))["done"]
        for name in ("a", "b", "c"):
            if name not in done:
                await run.step(name, jobs.job(name))
                await run.update(set={"done": [*done, name]})
                done = [*done, name]
        await run.step("die", jobs.job("die", dies=[1]))
        return done

    await dies(block(store, code))
    assert await block(store, code) == ["a", "b", "c"]
    assert jobs.ran == ["a", "b", "c", "die", "die"]
