"""Failures: those that the code handled are told again, those that ended the run are tried again."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.app.handle import key_of
from perdure.core.calls import Call, Failure, decode_failure, decode_intent, decode_outcome, told
from perdure.core.errors import StepFailedError
from perdure.runtime.failures import told_again
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


class PaymentRefused(Exception):
    """A failure of somebody's own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


async def test_a_failure_that_ended_the_run_is_tried_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.step("flaky", jobs.fails("flaky", ValueError("no"), 1))

    with pytest.raises(ValueError, match="no"):
        await block(store, code)
    assert (await store.thread("t").info()).status == "failed"
    assert await block(store, code) == 2


async def test_a_call_that_is_made_again_is_recorded_with_its_arguments(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.tool("pay", jobs.fails("pay", ValueError("no"), 1), amount=500)

    with pytest.raises(ValueError, match="no"):
        await block(store, code)
    assert await block(store, code) == 2
    thread = store.thread("t")
    key = await key_of(thread)
    entries = await store._parts.storage.entries(key)
    told = [str(each) for entry in entries if (each := call_of(key.id, entry)) is not None]
    assert told == ["pay(amount=500)"] * 4  # started and failed, started and finished


def call_of(thread_id: str, entry: Any) -> Call | None:
    decoders = {"tool.started": decode_intent, "tool.failed": decode_failure, "tool.finished": decode_outcome}
    decode = decoders.get(entry.kind.value)
    return told(thread_id, entry, decode).call if decode else None


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("no"), TimeoutError("no"), ConnectionError("no"), PaymentRefused(7, "no")]
)
async def test_a_failure_that_was_handled_is_raised_again_as_what_it_was(
    store: Any, jobs: Jobs, error: Exception
) -> None:
    seen: list[Any] = []

    async def code(run: Any) -> Any:
        try:
            await run.step("flaky", jobs.fails("flaky", error, 1))
        except type(error) as exc:
            seen.append((type(exc), "no" in str(exc)))
        await run.step("instead", jobs.job("instead"))
        await run.step("die", jobs.job("die", dies=[1]))

    await dies(block(store, code))
    await block(store, code)
    assert (seen, jobs.count("flaky")) == ([(type(error), True)] * 2, 1)


def test_a_failure_whose_class_is_not_known_here_is_told_by_name() -> None:
    call = Call("run", b"", "flaky", b"", 0, 0, 0)
    error = told_again(Failure(call, "Gone", "no", place="elsewhere:Gone"))
    assert isinstance(error, StepFailedError)
    assert (error.name, error.error, error.text) == ("flaky", "Gone", "no")


async def test_a_failure_that_was_cleaned_up_after_and_ended_the_run_is_tried_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        try:
            await run.step("flaky", jobs.fails("flaky", ValueError("no"), 1))
        except ValueError:
            await run.step("clean up", jobs.job("clean up"))
            raise
        return await run.step("next", jobs.job("next", 1))

    with pytest.raises(ValueError, match="no"):
        await block(store, code)
    assert await block(store, code) == 1
    assert jobs.ran == ["flaky", "clean up", "flaky", "next"]


async def test_a_failure_that_was_handled_by_a_question_is_told_again_after_the_answer(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        try:
            return await run.step("flaky", jobs.fails("flaky", ValueError("no"), 1))
        except ValueError as exc:
            decision = await run.pause("what now", ask=str(exc))
            return decision.answer

    await block(store, code)
    (pause,) = await store.pauses()
    await store.decide(pause, approved=True, by="ann", answer="leave it")
    assert await block(store, code) == "leave it"
    assert jobs.count("flaky") == 1


async def test_a_failure_that_nothing_followed_before_the_crash_is_tried_again(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        try:
            return await run.step("flaky", jobs.fails("flaky", ValueError("no"), 1))
        except ValueError:
            await jobs.job("die", dies=[1])()

    await dies(block(store, code))
    assert await block(store, code) == 2


async def test_a_tool_that_failed_and_ended_the_run_is_tried_again_without_a_question(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.tool("charge", jobs.fails("charge", ValueError("no"), 1))

    with pytest.raises(ValueError, match="no"):
        await block(store, code)
    assert await block(store, code) == 2
    assert await store.pauses() == []
    assert await kinds(store) == [
        *("run.started", "tool.started", "tool.failed", "run.failed"),
        *("run.resumed", "tool.started", "tool.finished", "run.finished"),
    ]
