"""Runs of synchronous code."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Perdure, Run, Thread, sync
from perdure.core.errors import (
    InvalidAnswerError,
    InvalidInputError,
    LeaseHeldError,
    LeaseLostError,
    NotAllowedError,
    PauseChangedError,
    PauseClosedError,
    ToolDeniedError,
)
from perdure.runtime.run import Bound
from perdure.sync.agents import Agent as SyncAgent
from perdure.sync.run import Bound as SyncBound
from perdure.sync.run import Run as SyncRun
from perdure.testing.clock import ManualClock
from tests.runtime.scenes import Killed

RAN: list[str] = []


@dataclass
class Region:
    name: str
    count: int = 1


def job(name: str, value: Any = None) -> Any:
    def run(*args: Any, **named: Any) -> Any:
        RAN.append(name)
        return value

    return run


def dying(times: int = 1) -> None:
    RAN.append("die")
    if RAN.count("die") <= times:
        raise Killed


@pytest.fixture
def clock() -> ManualClock:
    RAN.clear()
    return ManualClock()


@pytest.fixture(params=["memory", "file", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Any]:
    urls = {"memory": "memory://", "file": f"file://{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    with sync.Perdure.open(urls[request.param], clock=clock) as made:
        yield made


def block(store: Any, code: Any, **options: Any) -> Any:
    with store.thread("t").run(**options) as run:
        run.result = code(run)
    return run.result


def test_recorded_steps_are_returned_and_writes_are_not_doubled(store: Any) -> None:
    def code(run: Any) -> Any:
        got = [run.step("one", job("one", 1)), run.tool("two", job("two", 2), n=1), run.now(), run.random(), run.uuid()]
        run.append("log", "a")
        run.update(set={"n": 1})
        run.step("die", dying)
        return [*got[:2], run.load()]

    with pytest.raises(Killed):
        block(store, code)
    assert block(store, code) == [1, 2, {"log": ["a"], "n": 1}]
    assert RAN == ["one", "two", "die", "die"]


def test_a_handler_is_started_recovered_and_its_result_is_kept(store: Any) -> None:
    store.handler("double")(lambda run: run.step("double", lambda n: 2 * n, run.input))
    ticket = store.start("double", 4, thread="t", key="k")
    assert [info.status for info in store.runs()] == ["queued"]
    assert [info.result for info in store.recover()] == [8]
    assert (ticket.result(timeout=5), ticket.info().status) == (8, "finished")
    assert store.start("double", 4, thread="t", key="k").id == ticket.id


def test_an_unverified_tool_is_asked_about_and_answered(store: Any) -> None:
    def code(run: Any) -> Any:
        return run.tool("charge", lambda amount: dying(), amount=5)

    with pytest.raises(Killed):
        block(store, code)
    block(store, code)
    (pause,) = store.pauses()
    assert "unverified: die" not in pause.ask
    assert "charge" in str(store.why("t"))
    store.decide(pause, approved=False, by="ann", answer="paid")
    with pytest.raises(PauseClosedError):
        store.decide(pause, approved=True, by="bob")
    assert (block(store, code), RAN) == ("paid", ["die"])


def test_a_pause_lets_go_and_the_decision_comes_back(store: Any) -> None:
    store.handler("ask")(lambda run: run.pause("ok", ask="ok?", args={"n": 1}).args)
    store.start("ask", thread="t")
    assert store.resume("t").status == "input_required"
    store.decide(store.pauses("t")[0].id, approved=True, by="ann", args={"n": 2})
    assert [info.result for info in store.recover()] == [{"n": 2}]


def test_an_answer_comes_back_as_the_type_that_was_asked_for(store: Any) -> None:
    """B17"""
    store.handler("ask")(lambda run: str(run.pause("where", ask="Where?", expects=Region, who=["ann", "bob"]).answer))
    store.start("ask", thread="t")
    assert store.resume("t").status == "input_required"
    (pause,) = store.pauses()
    assert (pause.expects, pause.who, pause.schema["required"]) == ("form", ("ann", "bob"), ["name"])
    with pytest.raises(NotAllowedError):
        store.decide(pause, approved=True, by="eve", answer={"name": "eu"})
    with pytest.raises(InvalidAnswerError, match="count"):
        store.decide(pause, approved=True, by="bob", answer={"name": "eu", "count": "two"})
    store.decide(pause, approved=True, by="bob", answer=Region("eu", 2))
    assert store.runs()[0].status == "decided"
    assert store.resume("t").result == "Region(name='eu', count=2)"


def test_nobody_answered_until_the_deadline_and_it_is_denied(store: Any, clock: ManualClock) -> None:
    store.handler("ask")(lambda run: run.pause("ok", ask="ok?", deadline=timedelta(hours=1)).expired)
    store.start("ask", thread="t")
    store.recover()
    clock.advance(timedelta(hours=1))
    assert [info.result for info in store.recover()] == [True]


def test_a_tool_waits_for_approval_and_a_denied_one_is_not_run(store: Any) -> None:
    def code(run: Any) -> Any:
        asking = run.options(approval_prompt="Delete {path}?")
        return [asking.tool("delete", job("delete", "gone"), path="/tmp/a"), needs_no_prompt(run)]

    def needs_no_prompt(run: Any) -> Any:
        return run.options(require_approval=True).tool("format", job("format"), disk=1)

    block(store, code)
    (pause,) = store.pauses()
    assert (pause.ask, pause.args, RAN) == ("Delete /tmp/a?", {"path": "/tmp/a"}, [])
    store.decide(pause, approved=True, by="ann")
    block(store, code)
    (pause,) = store.pauses()
    store.decide(pause, approved=False, by="ann", answer="never")
    with pytest.raises(ToolDeniedError, match="format was not run: denied by ann: never"):
        block(store, code)
    assert RAN == ["delete"]


def test_code_that_asks_something_else_than_was_decided_can_be_accepted(store: Any) -> None:
    block(store, lambda run: run.pause("ok", ask="ok?", args={"n": 1}).args)
    store.decide(store.pauses()[0], approved=True, by="ann")
    with pytest.raises(PauseChangedError, match=r"args\.n was 1, now 2"):
        block(store, lambda run: run.pause("ok", ask="ok?", args={"n": 2}).args)
    assert block(store, lambda run: run.pause("ok", ask="ok?", args={"n": 2}).args, changed="accept") == {"n": 1}


ELSEWHERE = {  # what only an event loop can do, and what is not for users
    "Perdure.agent": {"timeout"},
    "Perdure.recover": {"concurrency"},
    "Perdure.worker": {"concurrency", "grace"},
    "Thread.save": {"also"},
    "Run.options": {"timeout", "blocking"},
}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(Perdure, sync.Perdure), (Thread, sync.Thread), (Run, SyncRun), (Bound, SyncBound), (Agent, SyncAgent)],
)
def test_every_method_takes_what_the_one_for_async_code_takes(theirs: type, ours: type) -> None:
    both = [name for name in dir(theirs) if name[0] != "_" and callable(getattr(theirs, name)) and hasattr(ours, name)]
    for name in both:
        asked, taken = (inspect.signature(getattr(each, name)).parameters for each in (theirs, ours))
        place = f"{theirs.__name__}.{name}"
        assert asked.keys() - taken.keys() == ELSEWHERE.get(place, set()), place
        assert taken.keys() <= asked.keys(), place


def test_signals_sleep_and_cancel(store: Any, clock: ManualClock) -> None:
    @store.handler("work")
    def work(run: Any) -> Any:
        run.sleep(timedelta(hours=1))
        return run.signal("news")

    store.start("work", thread="t")
    assert [info.status for info in store.recover()] == ["waiting"]
    clock.advance(timedelta(hours=1))
    assert [info.status for info in store.recover()] == ["waiting"]
    store.signal("t", "news", 7)
    assert [info.result for info in store.recover()] == [7]
    store.start("work", thread="other")
    assert store.cancel("other", reason="enough").error == "enough"
    assert store.recover() == []


def test_retry_and_options(store: Any) -> None:
    def flaky() -> int:
        RAN.append("flaky")
        if RAN.count("flaky") < 3:
            raise OSError("no")
        return 3

    assert block(store, lambda run: run.options(retry=3, key="k").step("flaky", flaky)) == 3


def test_async_functions_and_timeouts_are_refused(store: Any) -> None:
    async def later() -> None: ...

    with store.thread("t").run() as run:
        with pytest.raises(InvalidInputError, match=r"perdure\.Perdure"):
            run.step("later", later)
        with pytest.raises(InvalidInputError):
            store._store.worker()


def test_a_failing_handler_ends_dead(store: Any, clock: ManualClock) -> None:
    @store.handler("bad", retry=2)
    def bad(run: Any) -> None:
        raise ValueError("no")

    store.start("bad", thread="t")
    assert [info.status for info in store.recover()] == ["failed"]
    clock.advance(timedelta(minutes=1))
    assert [info.error for info in store.recover()] == ["ValueError: no"]
    assert [info.status for info in store.runs(status="dead")] == ["dead"]


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_long_step_keeps_its_lease_beyond_the_ttl(tmp_path: Path, kind: str) -> None:
    url = f"file://{tmp_path}/store" if kind == "file" else f"sqlite:///{tmp_path}/store.db"
    with sync.Perdure.open(url, lease_ttl=0.6) as one, sync.Perdure.open(url, lease_ttl=0.6) as two:
        refused: list[Exception] = []

        def long() -> str:
            for _ in range(3):
                time.sleep(0.6)
                with pytest.raises(LeaseHeldError) as raised, two.thread("t").run(wait=0):
                    pass
                refused.append(raised.value)
            return "done"

        assert block(one, lambda run: run.step("long", long)) == "done"
    assert len(refused) == 3


def test_a_run_that_lost_its_lease_is_told_at_its_next_call(store: Any, clock: ManualClock) -> None:
    def code(run: Any) -> Any:
        clock.advance(timedelta(seconds=31))
        assert block(store, lambda run: run.step("new", job("new", 1))) == 1
        run.step("late", job("late"))

    with pytest.raises(LeaseLostError):
        block(store, code)


def test_a_handler_that_can_only_be_awaited_is_refused(store: Any) -> None:
    async def awaited(run: Any) -> None: ...

    with pytest.raises(InvalidInputError, match=r"handler 'work' is asynchronous"):
        store.handler("work")(awaited)
