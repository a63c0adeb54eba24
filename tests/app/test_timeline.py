"""The timeline says who did what: step, tool, model, person, arguments in short, how long; by worker and process."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.runtime.owner import process_name
from perdure.testing import ManualClock
from tests.checkpoints.places import PLACES, opened

HERE = f"{socket.gethostname()}/{os.getpid()}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[(place, mode) for place in ("memory", "sqlite", "postgres") for mode in ("sync", "async")])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    place, mode = request.param
    async with opened(PLACES[place](tmp_path), mode, clock=clock) as made:
        yield made


async def test_each_entry_of_a_run_says_what_it_is_about(store: Any, clock: ManualClock) -> None:
    """S3.36, B5: who, what, with which arguments, how long, on every storage and in both faces."""
    is_sync = hasattr(store, "_inner")

    def ask(messages: Any, **settings: Any) -> Any:
        clock.advance(timedelta(seconds=1))
        return {"usage": {"input_tokens": 10, "output_tokens": 5}, "model": "small"}

    def charge(amount: int) -> int:
        clock.advance(timedelta(seconds=2))
        return amount

    async def awaited(run: Any) -> None:
        await run.tool("charge", charge, amount=89)
        await run.model(ask, ["hi"], model="small-1")
        await run.pause("ok", ask="ok?")

    def in_place(run: Any) -> None:
        run.tool("charge", charge, amount=89)
        run.model(ask, ["hi"], model="small-1")
        run.pause("ok", ask="ok?")

    getattr(store, "_inner", store).handler("bill")(in_place if is_sync else awaited)
    await store.start("bill", thread="t")
    await store.recover()
    (pause,) = await store.pauses()
    await store.decide(pause, approved=True, by="ann")
    await store.resume("t")
    items = {item.kind: item for item in await store.thread("t").timeline()}
    started, tool, model = items["tool.started"], items["tool.finished"], items["model.called"]
    assert (tool.name, tool.given, tool.duration) == ("charge", "amount=89", timedelta(seconds=2))
    assert (tool.args_digest, len(tool.args_digest)) == (started.args_digest, 24)
    assert (tool.run, tool.attempt, tool.actor) == (items["run.finished"].run, 1, HERE)
    assert (model.model, model.input_tokens, model.output_tokens) == ("small-1", 10, 5)
    assert (model.duration, items["step.finished"].duration) == (timedelta(seconds=1), timedelta(seconds=1))
    assert (items["pause.opened"].name, items["pause.decided"].person) == ("ok", "ann")
    assert (items["run.started"].name, items["run.started"].actor) == ("bill", None)
    assert items["run.finished"].duration == timedelta(seconds=3)
    assert "charge(amount=89), in 2.0 s, args " in str(tool)
    assert "small-1 10 → 5 tokens" in str(model)


async def test_whoever_is_named_stands_in_the_place_of_the_process(store: Any) -> None:
    thread = store.thread("t", actor="ann")
    if hasattr(store, "_inner"):
        with thread._inner.run() as run:
            run.step("one", lambda: 1)
    else:
        async with thread.run() as run:
            await run.step("one", lambda: 1)
    assert {item.actor for item in await thread.timeline()} == {"ann"}
    assert process_name("nightly") == f"nightly@{HERE}"


async def test_an_entry_that_cannot_be_read_still_says_who_and_when(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Perdure.open(f"sqlite:///{path}") as store, store.thread("t").run() as run:
        await run.step("one", lambda: 1)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE perdure_entry SET payload = x'00ff' WHERE kind = 'step.finished'")
    async with Perdure.open(f"sqlite:///{path}") as store:
        items = await store.thread("t").timeline()
    assert [(item.kind, item.name, item.actor) for item in items[1:]] == [
        ("step.finished", None, HERE), ("run.finished", None, HERE),
    ]  # fmt: skip
