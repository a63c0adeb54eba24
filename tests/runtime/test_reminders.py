"""Questions that nobody answers: people are told again, and after a time others may decide too."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Perdure
from perdure.core.reminders import Reminders, newest_telling, next_telling
from perdure.errors import InvalidInputError, NotAllowedError
from perdure.testing.clock import ManualClock
from perdure.webhooks import Webhook
from tests.runtime.receiver import OK, receiving, status
from tests.runtime.scenes import block, clock, jobs, store

__all__ = ["clock", "jobs", "store"]

HOUR = 3_600_000_000
BOSS = {"after": timedelta(hours=3), "to": ["boss"]}


async def deploying(run: Any) -> Any:
    decision = await run.pause("deploy", ask="Deploy?", who="ann", remind=timedelta(hours=2), escalate=BOSS)
    return decision.by


async def told(store: Any, times: int) -> None:
    """Wait until the log has so many attempts."""
    while True:
        entries = await store.thread("t").entries()
        if sum(1 for each in entries if each.kind.value == "pause.notified") >= times:
            return
        await asyncio.sleep(0.01)


async def test_people_are_reminded_and_an_escalation_widens_who_may_decide(tmp_path: Path) -> None:
    clock = ManualClock()
    with receiving(OK) as receiver:
        hooks = [Webhook(receiver.url, link="https://example.org/{token}")]
        async with Perdure.open(f"sqlite:///{tmp_path}/s.db", webhooks=hooks, clock=clock) as store:
            store.handler("deploy")(deploying)
            await store.start("deploy", thread="t")
            await store.recover()
            await told(store, 1)
            await store.recover()
            (pause,) = await store.pauses()
            with pytest.raises(NotAllowedError, match="boss"):
                await store.decide(pause, approved=True, by="boss")
            for hours, attempts in ((1, 1), (1, 2), (1, 3), (1, 4)):
                clock.advance(timedelta(hours=hours))
                await store.recover()
                await store.recover()
                await told(store, attempts)
            (pause,) = await store.pauses()
            assert pause.who == ("ann", "boss")
            await store.decide(pause, approved=True, by="boss")
            await store.resume("t")
            assert (await store.runs())[0].result == "boss"
            clock.advance(timedelta(days=1))
            await store.recover()
    notices = [json.loads(request.body) for request in receiver.requests]
    assert [each["event"] for each in notices] == [
        "pause.opened", "pause.reminded", "pause.escalated", "pause.reminded",
    ]  # fmt: skip
    assert [each["who"] for each in notices] == [["ann"], ["ann"], ["ann", "boss"], ["ann", "boss"]]
    assert len({each["id"] for each in notices}) == 4


async def test_a_reminder_that_fails_is_tried_again_like_any_notice(tmp_path: Path) -> None:
    clock = ManualClock()
    with receiving(OK, status(500), OK) as receiver:
        hooks = [Webhook(receiver.url, attempts=1)]
        async with Perdure.open(f"sqlite:///{tmp_path}/s.db", webhooks=hooks, clock=clock) as store:
            await block(store, deploying)
            await told(store, 1)
            clock.advance(timedelta(hours=2))
            await store.recover()
            await told(store, 2)
            assert "500" in (await store.pauses())[0].untold[0]
            clock.advance(timedelta(minutes=2))
            await store.recover()
            await told(store, 3)
    ids = [json.loads(request.body)["id"] for request in receiver.requests]
    assert (len(ids), ids[1] == ids[2], ids[0] == ids[1]) == (3, True, False)


async def test_an_escalation_needs_nobody_to_look(store: Any, clock: Any) -> None:
    @perdure.tool(who="ann", escalate=BOSS)
    def deploy() -> str:
        return "done"

    async def code(run: Any) -> Any:
        return await run.tool("deploy", deploy)

    await block(store, code)
    boss = store.scope(approver="boss")
    assert await boss.pauses() == []
    clock.advance(timedelta(hours=3))
    (pause,) = await boss.pauses()
    await boss.decide(pause, approved=True)
    assert await block(store, code) == "done"


async def test_what_cannot_be_a_reminder_is_refused(store: Any) -> None:
    for wrong in (
        {"remind": 0}, {"remind": "daily"}, {"escalate": "boss"}, {"escalate": {"after": 5}},
        {"escalate": {"after": 5, "to": []}}, {"escalate": {"after": 5, "to": ["not:ann"]}},
        {"escalate": {"after": -1, "to": "boss"}},
    ):  # fmt: skip
        with pytest.raises(InvalidInputError):
            await block(store, lambda run, wrong=wrong: run.pause("x", ask="x?", **wrong), thread=str(wrong))


def test_the_newest_occasion_to_tell_people_depends_on_the_age_alone() -> None:
    both = Reminders(2 * HOUR, 3 * HOUR, ("boss",))
    ages = [newest_telling(both, hours * HOUR) for hours in range(7)]
    assert [(each.event.partition(".")[2], each.nth) for each in ages] == [
        ("opened", 0), ("opened", 0), ("reminded", 1), ("escalated", 0), ("reminded", 2), ("reminded", 2),
        ("reminded", 3),
    ]  # fmt: skip
    assert [next_telling(both, hours * HOUR) for hours in (0, 2, 3)] == [2 * HOUR, 3 * HOUR, 4 * HOUR]
    assert (newest_telling(Reminders(), HOUR).event, next_telling(Reminders(), 0)) == ("pause.opened", None)
    assert (newest_telling(Reminders(HOUR), 10_000 * HOUR).nth, next_telling(Reminders(HOUR), 10_000 * HOUR)) == (
        100,
        None,
    )
    assert Reminders(0, HOUR, ("boss",)).people((), 2 * HOUR) == ()
