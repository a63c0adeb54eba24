"""Tools: the intent first, the result after, and an honest question where nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.errors import EffectUnverifiedError, UnsupportedValueError
from perdure.runtime.options import Retry
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


def charging(jobs: Jobs, dead_at: int = 1, **options: Any) -> Any:
    async def code(run: Any) -> Any:
        return await run.options(**options).tool("charge", jobs.job("charge", "paid", dies=[dead_at]), amount=5)

    return code


async def test_a_tool_says_that_it_starts_before_it_runs(store: Any) -> None:
    seen: list[Any] = []

    async def charge(amount: int) -> str:
        seen.extend(await kinds(store))
        return "paid"

    async def code(run: Any) -> Any:
        return await run.tool("charge", charge, amount=5)

    assert await block(store, code) == "paid"
    assert seen == ["run.started", "tool.started"]
    assert await kinds(store) == ["run.started", "tool.started", "tool.finished", "run.finished"]


async def test_a_tool_that_may_have_run_is_asked_about_and_not_run_again(store: Any, jobs: Jobs) -> None:
    """B13: intent, result and what is unverified stand in the log."""
    await dies(block(store, charging(jobs)))
    async with store.thread("t").run() as run:
        await charging(jobs)(run)
    (pause,) = await store.pauses()
    assert (run.paused, jobs.count("charge")) == (True, 1)
    assert pause.ask.startswith("unverified: charge may have run, key ")
    assert (pause.args, pause.status, (await store.thread("t").info()).status) == (
        {"amount": 5}, "open", "input_required",
    )  # fmt: skip


async def test_it_is_asked_about_once_however_often_the_run_is_taken_up(store: Any, jobs: Jobs) -> None:
    await dies(block(store, charging(jobs)))
    for _ in range(3):
        await block(store, charging(jobs))
    assert len(await store.pauses()) == 1
    assert (await kinds(store)).count("pause.opened") == 1


async def test_when_approved_it_runs_again_under_the_same_idempotency_key(store: Any, jobs: Jobs) -> None:
    keys: list[str] = []

    async def charge(idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return await jobs.job("charge", "paid", dies=[1])()

    async def code(run: Any) -> Any:
        return await run.tool("charge", charge)

    await dies(block(store, code))
    await block(store, code)
    (pause,) = await store.pauses()
    await store.decide(pause, approved=True, by="ann")
    assert await block(store, code) == "paid"
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert keys[0] in pause.ask


async def test_when_denied_the_answer_is_the_result_and_nothing_runs(store: Any, jobs: Jobs) -> None:
    await dies(block(store, charging(jobs)))
    await block(store, charging(jobs))
    (pause,) = await store.pauses()
    await store.decide(pause.id, approved=False, by="ann", answer="it was paid")
    assert await block(store, charging(jobs)) == "it was paid"
    assert jobs.count("charge") == 1


async def test_every_death_after_an_effect_is_asked_about_once(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.tool("charge", jobs.job("charge", "paid", dies=[1, 2]))

    for _ in range(2):
        await dies(block(store, code))
        await block(store, code)
        (pause,) = await store.pauses()
        await store.decide(pause, approved=True, by="ann")
    assert await block(store, code) == "paid"
    assert (jobs.count("charge"), (await kinds(store)).count("pause.opened")) == (3, 2)


async def test_nobody_is_asked_where_the_result_was_recorded(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        paid = await run.tool("charge", jobs.job("charge", "paid"))
        await run.step("die", jobs.job("die", dies=[1]))
        return paid

    await dies(block(store, code))
    assert await block(store, code) == "paid"
    assert (jobs.count("charge"), (await kinds(store)).count("pause.opened")) == (1, 0)


async def test_a_repeatable_tool_runs_again_without_a_question(store: Any, jobs: Jobs) -> None:
    code = charging(jobs, repeatable=True)
    await dies(block(store, code))
    assert await block(store, code) == "paid"
    assert (jobs.count("charge"), "tool.started" in await kinds(store)) == (2, False)


async def test_by_tell_the_code_is_told_and_goes_on(store: Any, jobs: Jobs) -> None:
    code = charging(jobs, unverified="tell")
    await dies(block(store, code))
    told = await block(store, code)
    assert (told.name, bool(told), await store.pauses(), jobs.count("charge")) == ("charge", False, [], 1)
    assert "may have run" in told.text


async def test_by_fail_the_run_fails_and_says_which(store: Any, jobs: Jobs) -> None:
    code = charging(jobs, unverified="fail")
    await dies(block(store, code))
    with pytest.raises(EffectUnverifiedError, match="charge may have run"):
        await block(store, code)
    assert jobs.count("charge") == 1


async def test_a_tool_that_raised_and_is_tried_again_by_resuming_says_again_that_it_starts(
    store: Any, jobs: Jobs
) -> None:
    async def charge() -> None:
        jobs.ran.append("charge")
        raise OSError("no") if jobs.count("charge") == 1 else BaseException("killed")

    async def code(run: Any) -> Any:
        return await run.tool("charge", charge)

    with pytest.raises(OSError, match="no"):
        await block(store, code)
    with pytest.raises(BaseException, match="killed"):
        await block(store, code)
    await block(store, code)
    assert (jobs.count("charge"), len(await store.pauses())) == (2, 1)


async def test_a_death_in_a_later_attempt_is_asked_about(store: Any, jobs: Jobs) -> None:
    async def charge() -> None:
        jobs.ran.append("charge")
        raise OSError("no") if jobs.count("charge") == 1 else BaseException("killed")

    async def code(run: Any) -> Any:
        return await run.options(retry=Retry(attempts=3, wait=0.001)).tool("charge", charge)

    with pytest.raises(BaseException, match="killed"):
        await block(store, code)
    await block(store, code)
    assert (jobs.count("charge"), len(await store.pauses())) == (2, 1)


async def test_an_effect_whose_result_cannot_be_kept_happens_once(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.tool("pay", jobs.job("pay", object()))

    store.handler("payer")(code)
    ticket = await store.start("payer", thread="t")
    for _ in range(3):
        with pytest.raises(UnsupportedValueError, match="object cannot be kept"):
            await store.resume("t")
    assert (jobs.count("pay"), (await ticket.info()).status) == (1, "dead")
    assert [each.status for each in (await store.why("t")).effects] == ["done"]


@pytest.mark.parametrize("kind", ["step", "tool"])
async def test_what_may_be_repeated_is_run_again_when_its_result_cannot_be_kept(
    store: Any, jobs: Jobs, kind: str
) -> None:  # fmt: skip
    async def code(run: Any) -> Any:
        await getattr(run.options(repeatable=True), kind)("read", jobs.job("read", object()))

    for _ in range(2):
        with pytest.raises(UnsupportedValueError):
            await block(store, code)
    assert jobs.count("read") == 2
