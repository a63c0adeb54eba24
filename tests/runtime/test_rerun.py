"""Doing a run again from a point, on a fork."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure import Perdure, Run
from perdure.errors import HandlerMissingError, InvalidInputError, NotFoundError


@pytest.fixture
async def store() -> AsyncIterator[Perdure]:
    async with Perdure.open("memory://") as store:
        yield store


class Agent:
    """Plans, charges, reports; counts what it really does."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def __call__(self, run: Run) -> str:
        plan = await run.step("plan", self._did, "plan")
        await run.append("log", plan)
        await run.tool("charge", self._did, "charge", amount=5)
        await run.append("log", "charged")
        state = await run.load()
        return await run.step("report", self._did, f"report for {state.get('who', 'nobody')}")

    def _did(self, what: str, amount: int = 0) -> str:
        self.done.append(what)
        return what


async def ran(store: Perdure) -> Agent:
    agent = Agent()
    store.handler("agent")(agent)
    await store.start("agent", {"n": 1}, thread="t")
    assert [info.status for info in await store.recover()] == ["finished"]
    agent.done.clear()
    return agent


async def test_what_was_recorded_before_the_point_is_not_done_again(store: Perdure) -> None:
    agent = await ran(store)
    version = (await store.thread("t").info()).version
    (info,) = await store.thread("t").rerun(f"@{version - 1}", to="again")
    assert (info.status, info.result, agent.done) == ("finished", "report for nobody", [])


async def test_tools_after_the_point_give_what_they_gave_the_first_time(store: Perdure) -> None:
    agent = await ran(store)
    (info,) = await store.thread("t").rerun("@4", to="again")
    assert (info.status, agent.done) == ("finished", ["report for nobody"])
    assert await store.thread("again").load() == {"log": ["plan", "charged"]}


async def test_a_changed_state_gives_another_outcome_and_leaves_the_first_alone(store: Perdure) -> None:
    agent = await ran(store)
    before = await store.thread("t").load()
    (info,) = await store.thread("t").rerun("@4", set={"who": "alice"})
    assert (info.result, agent.done) == ("report for alice", ["report for alice"])
    assert await store.thread("t").load() == before


async def test_effects_are_asked_about_on_request_and_run_when_approved(store: Perdure) -> None:
    agent = await ran(store)
    (info,) = await store.thread("t").rerun("@4", to="again", effects="ask")
    (pause,) = await store.pauses()
    assert (info.status, agent.done) == ("input_required", [])
    assert pause.ask.startswith("rerun: charge has no recorded result")
    await store.decide(pause, approved=True, by="alice")
    assert (await store.resume("again")).status == "finished"
    assert agent.done == ["charge", "report for nobody"]


async def test_real_effects_are_run_with_a_key_of_their_own(store: Perdure) -> None:
    keys: list[str] = []

    @store.handler("charger")
    async def charger(run: Run) -> None:
        await run.tool("charge", lambda idempotency_key: keys.append(idempotency_key))

    await store.start("charger", thread="c")
    await store.recover()
    await store.thread("c").rerun("@1", effects="real")
    assert len(keys) == len(set(keys)) == 2


async def test_several_reruns_are_forks_of_their_own(store: Perdure) -> None:
    await ran(store)
    infos = await store.thread("t").rerun("@4", to="try", times=3)
    assert [info.thread for info in infos] == ["try-1", "try-2", "try-3"]


async def test_another_handler_may_do_it_again(store: Perdure) -> None:
    await ran(store)

    @store.handler("other")
    async def other(run: Run) -> str:
        return await run.step("plan", lambda what: "a better plan", "plan")

    (info,) = await store.thread("t").rerun("@1", agent="other")
    assert (info.agent, info.result) == ("other", "a better plan")


async def test_what_cannot_be_done_again_says_so(store: Perdure) -> None:
    await ran(store)
    with pytest.raises(HandlerMissingError, match="'nobody'"):
        await store.thread("t").rerun("@4", agent="nobody")
    with pytest.raises(InvalidInputError, match="effects must be"):
        await store.thread("t").rerun("@4", effects="maybe")  # type: ignore[arg-type]
    await store.thread("plain").save({})
    with pytest.raises(NotFoundError, match="a run up to version"):
        await store.thread("plain").rerun()
