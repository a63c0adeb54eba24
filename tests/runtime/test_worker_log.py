"""What a worker says of its runs, and of those that it cannot run."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from perdure import Perdure, sync
from perdure.errors import HandlerUnknownError, NotFoundError, UnknownHandlerWarning


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, logger="perdure.worker")
    return lambda: [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "perdure.worker"]


def register(store: Any) -> None:
    store.handler("done")(lambda run: run.step("one", lambda: 1))
    store.handler("asks")(lambda run: run.pause("ok", ask="ok?"))
    store.handler("waits")(lambda run: run.signal("go"))
    store.handler("wrong", retry=1)(lambda run: run.step("divide", lambda: 1 / 0))


async def until(found: Any) -> None:
    async with asyncio.timeout(30):
        while not found():
            await asyncio.sleep(0.01)


async def test_one_line_when_a_run_is_taken_up_and_one_when_it_leaves(lines: Any) -> None:
    """With the handler, the thread, and how it ended."""
    async with Perdure.open("memory://") as store:
        register(store)
        store.handler("long")(lambda run: asyncio.sleep(100))
        for name in ("done", "asks", "waits", "wrong"):
            await store.start(name, thread=f"\x1b {name}")
        async with store.worker(grace=0.01):
            await until(lambda: len(lines()) == 8)
            await store.start("long", thread="long")
            await until(lambda: len(lines()) == 9)
    said = sorted((level, text.split(" run_")[0], text.partition(" of thread ")[2]) for level, text in lines())
    took = [(level, rest) for level, what, rest in said if what == "took up"]
    assert len(took) == 5
    assert ("INFO", r"'\x1b done': handler done") in took
    left = [(level, what, rest.partition(": handler ")[2]) for level, what, rest in said if what != "took up"]
    assert [(level, what) for level, what, _ in left] == [
        ("INFO", "finished"), ("INFO", "gave back"), ("INFO", "paused"), ("INFO", "paused"),
        ("WARNING", "failed for good"),
    ]  # fmt: skip
    assert "ZeroDivisionError: division by zero" in left[-1][2]
    assert not any("\x1b" in text for _, text in lines())


async def test_runs_of_a_handler_that_nobody_registers_are_told_of_once_with_the_nearest_name(lines: Any) -> None:
    async with Perdure.open("memory://") as store:
        for number in range(3):
            await store.start("doen", thread=f"t{number}")  # this process registers none: nothing is said
        register(store)
        async with store.worker():
            await until(lambda: lines())
            await asyncio.sleep(2.5)
    ((level, text),) = lines()
    assert level == "WARNING"
    assert text.startswith("3 runs of handler doen are due, and nobody takes them up")
    assert text.endswith("did you mean 'done'?")


def test_a_synchronous_worker_says_the_same(lines: Any) -> None:
    with sync.Perdure.open("memory://") as store:
        worker = store.worker(name="nightly")

        @store.handler("done")
        def done(run: Any) -> None:
            run.step("one", lambda: 1)
            worker.stop()

        store.start("done", thread="t")
        worker.run(signals=False)
        actors = {item.kind: item.actor for item in store.thread("t").timeline()}
    assert [text.split()[0] for _, text in lines()] == ["took", "finished"]
    assert actors["run.started"] is None
    assert actors["step.finished"].startswith("nightly@")


async def test_a_handler_that_was_mistyped_is_told_of_when_it_is_started() -> None:
    async with Perdure.open("memory://") as store:
        await store.start("release", thread="a")  # no handlers here: somebody else has them
        with pytest.raises(HandlerUnknownError, match="no handler 'release' is registered here; add"):
            await store.start("release", thread="b", strict=True)
        store.handler("release")(lambda run: 1)
        await store.start("release", thread="c", strict=True)
        with pytest.warns(UnknownHandlerWarning, match="did you mean 'release'") as warned:
            await store.start("relaese", thread="d")
        assert warned[0].filename == __file__
        with pytest.raises(HandlerUnknownError) as refused:
            await store.scope(user="ann").start("Release", thread="e", strict=True)
        assert (refused.value.name, refused.value.nearest) == ("Release", "release")
        with pytest.raises(NotFoundError):
            await store.thread("e", user="ann").info()
