"""Runs as people see them: lists, tickets, and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import ANY_USER
from perdure.core.errors import AmbiguousThreadError, NotFoundError, RunFailedError, UnfinishedRunError
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import TTL, Jobs, block, clock, dies, jobs, store

__all__ = ["clock", "jobs", "store"]


async def test_runs_are_listed_newest_first_and_by_what_is_asked(store: Any, clock: ManualClock) -> None:
    store.handler("work")(lambda run: run.input)
    for n in range(3):
        await store.start("work", n, thread=f"t{n}", user="ann" if n else "bob")
        clock.advance(timedelta(minutes=1))
    await store.resume("t0", user="bob")
    await store.thread("no run").save({})
    assert [info.thread for info in await store.runs()] == ["t0", "t2", "t1"]
    assert [info.thread for info in await store.runs(status="queued", limit=1)] == ["t2"]
    assert [info.thread for info in await store.runs(user="ann")] == ["t2", "t1"]
    assert [info.thread for info in await store.runs(since=datetime(2026, 1, 1, 0, 1, tzinfo=UTC))] == ["t2", "t1"]
    assert await store.runs(agent="other") == []


async def test_a_run_tells_what_it_is(store: Any) -> None:
    store.handler("work")(lambda run: {"got": run.input})
    ticket = await store.start("work", [1], thread="t", user="ann", key="k")
    await store.resume("t", user="ann")
    (info,) = await store.runs()
    assert (info.id, info.thread, info.user, info.agent, info.key) == (ticket.id, "t", "ann", "work", "k")
    assert (info.status, info.input, info.result, info.attempts, info.owner) == (
        "finished", [1], {"got": [1]}, 0, None,
    )  # fmt: skip


async def test_a_run_that_nobody_runs_any_more_is_listed_as_interrupted(
    store: Any, jobs: Jobs, clock: ManualClock
) -> None:
    async with store.thread("t").run():
        assert [info.status for info in await store.runs()] == ["running"]
        clock.advance(timedelta(seconds=TTL + 1))
        assert [info.status for info in await store.runs(status="interrupted")] == ["interrupted"]


async def test_a_ticket_waits_for_the_result_and_raises_what_became_of_it(store: Any) -> None:
    @store.handler("work", retry=1)
    async def work(run: Any) -> Any:
        raise ValueError("bad: input")

    ticket = await store.start("work", thread="t")
    await store.recover()
    with pytest.raises(RunFailedError, match="ValueError: bad: input"):
        await ticket.result(timeout=5)


async def test_a_run_of_somebody_is_reached_by_naming_them_or_as_the_only_match(store: Any) -> None:
    store.handler("wait")(lambda run: run.signal("go"))
    await store.start("wait", thread="t", user="ann")
    for whose in ({}, {"user": ""}, {"user": "bob"}):
        for call in (
            lambda whose=whose: store.resume("t", **whose),
            lambda whose=whose: store.cancel("t", **whose),
            lambda whose=whose: store.signal("t", "go", 1, **whose),
            lambda whose=whose: store.why("t", **whose),
        ):
            with pytest.raises(NotFoundError):
                await call()
    await store.signal("t", "go", 1, user=ANY_USER)
    assert (await store.resume("t", user=ANY_USER)).result == 1
    await store.start("wait", thread="t", user=ANY_USER)
    assert [(info.user, info.status) for info in await store.runs()] == [("ann", "queued")]
    await store.cancel("t", user=ANY_USER)
    await store.start("wait", thread="t")
    assert {(info.user, info.status) for info in await store.runs()} == {("ann", "cancelled"), (None, "queued")}
    for call in (
        lambda: store.start("wait", thread="t", user=ANY_USER),
        lambda: store.resume("t", user=ANY_USER),
        lambda: store.cancel("t", user=ANY_USER),
        lambda: store.signal("t", "go", 2, user=ANY_USER),
        lambda: store.why("t", user=ANY_USER),
    ):
        with pytest.raises(AmbiguousThreadError, match=r"'ann', nobody|nobody, 'ann'"):
            await call()


async def test_a_ticket_keeps_its_result_after_the_next_run(store: Any) -> None:
    store.handler("work")(lambda run: run.input)
    tickets = []
    for n in range(2):
        tickets.append(await store.start("work", n, thread="t"))
        await store.recover()
    assert [await ticket.result(timeout=5) for ticket in tickets] == [0, 1]
    assert (await tickets[0].info()).status == "finished"


async def test_why_names_what_failed_where_and_what_to_type(store: Any, jobs: Jobs) -> None:
    """B8: what failed, the last good point, side effects so far."""

    @store.handler("work", retry=1)
    async def work(run: Any) -> Any:
        await run.step("plan", jobs.job("plan"))
        await run.tool("mail", jobs.job("mail"), to="ann")
        await run.tool("charge", jobs.fails("charge", OSError("card refused"), 9), amount=5)

    await store.start("work", thread="t")
    await store.recover()
    why = await store.why("t")
    assert (why.failed, why.steps, why.run.status) == ("charge: OSError: card refused", 2, "dead")
    assert [(effect.name, effect.status, effect.args) for effect in why.effects] == [
        ("mail", "done", {"to": "ann"}), ("charge", "failed", {"amount": 5}),
    ]  # fmt: skip
    text = str(why)
    for words in ("charge: OSError: card refused", "last good point: version", "done: mail(to='ann')", "store.resume"):
        assert words in text


async def test_why_names_what_is_unverified_and_the_question(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        await run.tool("charge", jobs.job("charge", dies=[1]), amount=5)

    await dies(block(store, code))
    why = await store.why("t")
    assert ([effect.name for effect in why.unverified], why.run.status) == (["charge"], "interrupted")
    assert "store.thread('t').run()" in str(why)
    await block(store, code)
    (pause,) = await store.pauses()
    assert f'store.decide("{pause.id}"' in str(await store.why("t"))


async def test_what_why_says_to_type_names_the_owner(store: Any, jobs: Jobs) -> None:
    store.handler("work", retry=1)(lambda run: run.step("charge", jobs.fails("charge", OSError("refused"), 9)))
    await store.thread("t", user="ann").save({})
    await store.start("work", thread="t", user="ann")
    await store.recover()
    await store.thread("quiet", user="ann").save({})
    assert (await store.why("t", user="ann")).next == [
        "store.resume('t', user='ann')",
        "store.cancel('t', user='ann')",
        "store.thread('t', user='ann').load(\"@before-error\")",
    ]
    assert (await store.why("quiet", user="ann")).next == ["store.thread('quiet', user='ann').history()"]


async def test_why_has_a_word_for_every_thread(store: Any, jobs: Jobs) -> None:
    await store.thread("quiet").save({})
    assert "no run yet" in str(await store.why("quiet"))
    await block(store, lambda run: run.step("one", jobs.job("one")))
    assert "is finished" in str(await store.why("t"))


async def test_why_names_no_point_before_the_error_where_there_is_none(store: Any) -> None:
    @store.handler("bad")
    async def bad(run: Any) -> None:
        raise ValueError("no")

    for thread in ("with a state", "without one"):
        if thread == "with a state":
            await store.thread(thread).save({"n": 1})
        await store.start("bad", thread=thread)
        await store.recover()
    with_one, without = [(await store.why(thread)).next for thread in ("with a state", "without one")]
    assert with_one[-1] == "store.thread('with a state').load(\"@before-error\")"
    assert await store.thread("with a state").load("@before-error") == {"n": 1}
    assert without == ["store.resume('without one')", "store.cancel('without one')"]


async def test_a_comparison_shows_how_a_run_ended_after_its_question(store: Any) -> None:
    @store.handler("ask")
    async def ask(run: Any) -> None:
        await run.append("log", "before")
        await run.pause("ok", ask="ok?")
        await run.append("log", "after")

    await store.start("ask", thread="t")
    await store.recover()
    asked = (await store.thread("t").info()).version
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    await store.resume("t")
    found = await store.thread("t").compare(f"@{asked}", "@-1")
    assert (found.old_status, found.new_status) == ("input_required", "running")
    newest = (await store.thread("t").info()).version
    assert (await store.thread("t").compare(f"@{asked}", f"@{newest}")).new_status == "finished"
    assert (await store.compare(f"t@{asked}", "t")).new_status == "finished"


@pytest.mark.parametrize(
    ("waits", "way"), [("pause", r"store\.pauses\(thread\), store\.decide"), ("sleep", "its time")]
)
async def test_a_second_run_is_told_what_the_first_one_waits_for(store: Any, waits: str, way: str) -> None:
    @store.handler("wait")
    async def wait(run: Any) -> None:
        await (run.pause("ok", ask="ok?") if waits == "pause" else run.sleep(3600))

    await store.start("wait", thread="t")
    await store.recover()
    with pytest.raises(UnfinishedRunError, match=way):
        await store.start("wait", thread="t")
