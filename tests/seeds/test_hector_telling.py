"""Hector's notifications across processes: who asks may have nobody to tell, and who serves tells then."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

import perdure.sync
from perdure import Perdure
from perdure.webhooks import Webhook
from tests.runtime.receiver import OK, receiving, status


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def asked(url: str, *threads: str, deadline: float | None = None) -> None:
    """Questions of a process that has no webhooks."""
    async with Perdure.open(url) as store:
        for thread in threads:
            async with store.thread(thread).run() as run:
                await run.pause("deploy", ask=f"Deploy {thread}?", deadline=deadline)
        assert [info.wake_at is None for info in await store.runs(limit=100)] == [deadline is None for _ in threads]


def asks(receiver: Any) -> list[str]:
    return sorted(json.loads(request.body)["ask"] for request in receiver.requests)


@pytest.mark.parametrize("deadline", [None, 3600.0, 1e7])
async def test_a_question_of_a_process_without_webhooks_is_told_once_by_recover(
    url: str, deadline: float | None
) -> None:
    """S4.23, B17"""
    await asked(url, "a", "b", deadline=deadline)
    with receiving(OK) as receiver:
        for _ in range(2):
            async with Perdure.open(url, webhooks=[Webhook(receiver.url)]) as store:
                await store.recover()
                await store.recover()
    assert asks(receiver) == ["Deploy a?", "Deploy b?"]


async def test_a_question_of_a_process_without_webhooks_is_told_by_a_worker(url: str) -> None:
    await asked(url, *(f"t{n}" for n in range(60)))  # more than are looked after at once
    with receiving(OK) as receiver:
        async with Perdure.open(url, webhooks=[Webhook(receiver.url)]) as store, store.worker():
            while len(receiver.requests) < 60:
                await asyncio.sleep(0.01)
    assert asks(receiver) == sorted(f"Deploy t{n}?" for n in range(60))


async def test_a_receiver_that_fails_then_is_tried_again(url: str) -> None:
    await asked(url, "t")
    with receiving(status(500), OK) as receiver:
        async with Perdure.open(url, webhooks=[Webhook(receiver.url, first_wait=0.05)]) as store, store.worker():
            while len(receiver.requests) < 2:
                await asyncio.sleep(0.01)
    assert len(receiver.requests) == 2


async def test_what_somebody_was_told_of_is_not_told_to_a_new_receiver(url: str) -> None:
    await asked(url, "t", deadline=1e7)
    with receiving(OK) as old, receiving(OK) as new:
        for receiver in (old, new):
            async with Perdure.open(url, webhooks=[Webhook(receiver.url)]) as store:
                await store.recover()
    assert (len(old.requests), len(new.requests)) == (1, 0)


def test_a_synchronous_worker_tells_too_and_takes_up_what_is_decided_while_it_serves(url: str) -> None:
    """S4.20, S4.23: with `auto_resume_hitl: false`."""
    with perdure.sync.Perdure.open(url) as other, receiving(OK) as receiver:
        other.handler("deploy")(lambda run: bool(run.pause("deploy", ask="Deploy?")))
        ticket = other.start("deploy", thread="t")
        other.resume("t")

        def serve() -> None:
            with perdure.sync.Perdure.open(url, webhooks=[Webhook(receiver.url)]) as store:
                store.handler("deploy")(lambda run: bool(run.pause("deploy", ask="Deploy?")))
                workers.append(store.worker())
                workers[0].run(signals=False)

        workers: list[Any] = []
        thread = threading.Thread(target=serve)
        thread.start()
        while not receiver.requests:
            threading.Event().wait(0.01)
        other.decide(other.pauses()[0], approved=True, by="ann")
        assert ticket.result(timeout=60) is True
        workers[0].stop()
        thread.join()
    assert asks(receiver) == ["Deploy?"]
