"""Questions that take more than one approver: different people, the same arguments, and one denial denies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import sync
from perdure.errors import InvalidAnswerError, InvalidInputError, NotAllowedError, PauseClosedError, ToolDeniedError
from tests.runtime.scenes import block, clock, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]

RAN: list[str] = []


@perdure.tool(require_approval=True, approvals=2)
def wire(amount: int) -> str:
    RAN.append(f"wired {amount}")
    return RAN[-1]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


async def paying(run: Any) -> Any:
    return await run.tool("wire", wire, amount=5)


async def approve(store: Any, by: str, **decision: Any) -> Any:
    (pause,) = await store.pauses()
    return await store.decide(pause, **{"approved": True, "by": by, **decision})


async def test_a_tool_runs_after_two_people_approved(store: Any) -> None:
    await block(store, paying)
    first = await approve(store, "ann")
    assert (bool(first), first.approved, first.missing) == (False, True, 1)
    assert await block(store, paying) is None
    (pause,) = await store.pauses()
    assert (pause.approvals, pause.approved_by, RAN) == (2, ("ann",), [])
    second = await approve(store, "bob")
    assert (bool(second), second.approvers) == (True, ("ann", "bob"))
    assert (await block(store, paying), await store.pauses()) == ("wired 5", [])
    assert [each for each in await kinds(store) if each.startswith("pause")] == [
        "pause.opened", "pause.approved", "pause.decided",
    ]  # fmt: skip


@pytest.mark.parametrize("again", ["ann", "Ann", " ann"])
async def test_the_same_person_does_not_count_twice(store: Any, again: str) -> None:
    await block(store, paying)
    await approve(store, "ann")
    with pytest.raises(NotAllowedError, match="approved it already, and it needs 2 people"):
        await approve(store, again)
    assert (len(await store.pauses()), RAN) == (1, [])


async def test_one_denial_denies_also_by_somebody_who_approved(store: Any) -> None:
    await block(store, paying)
    (pause,) = await store.pauses()
    await approve(store, "ann")
    await approve(store, "ann", approved=False, answer="I misread it")
    with pytest.raises(PauseClosedError, match="ann"):
        await store.decide(pause, approved=True, by="bob")
    with pytest.raises(ToolDeniedError, match="denied by ann: I misread it"):
        await block(store, paying)
    assert RAN == []


async def test_both_approve_the_same_arguments(store: Any) -> None:
    await block(store, paying)
    await approve(store, "ann", args={"amount": 3})
    (pause,) = await store.pauses()
    assert pause.args == {"amount": 3}
    for other in (None, {"amount": 4}):
        with pytest.raises(InvalidAnswerError, match="ann approved other arguments"):
            await approve(store, "bob", args=other)
    await approve(store, "bob", args=pause.args)
    assert await block(store, paying) == "wired 3"


async def test_of_many_at_once_exactly_as_many_count_as_are_needed(store: Any) -> None:
    await block(store, paying)
    (pause,) = await store.pauses()
    people = ["ann", "bob", "cat", "dan", "ann", "bob"]
    done = await asyncio.gather(
        *(store.decide(pause, approved=True, by=each) for each in people), return_exceptions=True
    )
    assert sum(1 for each in done if not isinstance(each, Exception) and each) == 1
    assert [each for each in await kinds(store) if each.startswith("pause")][1:] == ["pause.approved", "pause.decided"]
    (final,) = [each for each in done if not isinstance(each, Exception) and each]
    assert len(set(final.approvers)) == 2


async def test_code_asks_two_people_too(store: Any) -> None:
    async def code(run: Any) -> Any:
        decision = await run.pause("ship", ask="Ship?", approvals=2, who=["ann", "bob"])
        return decision.approvers

    await block(store, code)
    with pytest.raises(NotAllowedError, match="cat"):
        await approve(store, "cat")
    await approve(store, "bob")
    await approve(store, "ann")
    assert await block(store, code) == ("bob", "ann")


async def test_a_number_of_approvals_that_nobody_can_give_is_refused(store: Any) -> None:
    for wrong in (0, True, 2.0, 1000):
        with pytest.raises(InvalidInputError, match="approvals"):
            perdure.tool(approvals=wrong)(wire.function)  # type: ignore[call-overload]
    with pytest.raises(InvalidInputError, match="approvals=2 needs as many people, and who= names 1"):
        await block(store, lambda run: run.pause("ship", ask="Ship?", approvals=2, who="ann"))
    perdure.tool(approvals=2, who=["group:boss"])(wire.function)


def test_synchronous_code_asks_two_people() -> None:
    with sync.Perdure.open("memory://") as store:
        for by in ("ann", "bob", None):
            with store.thread("t").run() as run:
                run.options(approvals=2).tool("wire", wire, amount=1)
            if by:
                store.decide(store.pauses()[0], approved=True, by=by)
    assert RAN == ["wired 1"]
