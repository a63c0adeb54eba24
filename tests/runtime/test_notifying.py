"""People are told of questions: at least once, never before a question stands, and no run waits for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure.sync
from perdure import Perdure
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.webhooks import Webhook, verify
from tests.runtime.receiver import OK, Answer, Receiver, receiving, status

SECRET = "a long secret between the two"


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def deploying(run: Any) -> Any:
    return bool(await run.pause("deploy", ask="Deploy?", args={"env": "prod"}, deadline=3600))


@asynccontextmanager
async def serving(folder: Path, receiver: Receiver, **hook: Any) -> AsyncIterator[Any]:
    given = {"first_wait": 0.05, "timeout": 20.0, "secret": SECRET, **hook}
    policy = RecoveryPolicy(auto_resume_hitl=True)
    hooks = [Webhook(receiver.url, **given)]
    async with Perdure.open(f"sqlite:///{folder}/s.db", webhooks=hooks, recovery=policy) as store:
        store.handler("deploy")(deploying)
        yield store


async def asked(store: Any, thread: str = "t") -> None:
    await store.start("deploy", thread=thread)
    await store.resume(thread)


async def told(store: Any, times: int, thread: str = "t") -> list[Any]:
    """The attempts in the log, as soon as there are so many."""
    while True:
        entries = await store.thread(thread).entries()
        found = [entry for entry in entries if entry.kind.value == "pause.notified"]
        if len(found) >= times:
            return found
        await asyncio.sleep(0.01)


async def test_a_question_is_told_once_and_signed(tmp_path: Path) -> None:
    """S4.23, B17"""
    with receiving(OK) as receiver:
        async with serving(tmp_path, receiver) as store:
            await asked(store)
            await told(store, 1)
            (pause,) = await store.pauses()
            await store.recover()
    (request,) = receiver.requests
    body = json.loads(request.body)
    assert (body["pause"], body["ask"], body["args"], body["thread"]) == (pause.id, "Deploy?", {"env": "prod"}, "t")
    assert verify(SECRET, request.headers, request.body, pause.at)


async def test_nothing_is_told_before_it_stands(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def look(connection: socket.socket) -> None:
        with perdure.sync.Perdure.open(f"sqlite:///{tmp_path}/s.db") as other:
            seen.append([pause.ask for pause in other.pauses()])
        OK(connection)

    with receiving(look) as receiver:
        async with serving(tmp_path, receiver) as store:
            await asked(store)
            await told(store, 1)
    assert seen == [["Deploy?"]]


async def test_a_receiver_that_fails_is_tried_again(tmp_path: Path) -> None:
    with receiving(status(500), status(503), OK) as receiver:
        async with serving(tmp_path, receiver) as store:
            await asked(store)
            await told(store, 3)
            await store.recover()
    assert len(receiver.requests) == 3
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


async def test_a_receiver_that_was_down_is_told_after_the_next_start(tmp_path: Path) -> None:
    with receiving(status(500), status(500), OK) as receiver:
        async with serving(tmp_path, receiver, attempts=2) as store:
            await asked(store)
            await told(store, 2)
            assert "500" in (await store.pauses())[0].untold[0]
        async with serving(tmp_path, receiver, attempts=2) as store:
            await store.recover()
            await store.recover()
            assert len(await told(store, 3)) == 3
            assert (await store.pauses())[0].untold == ()
    assert len(receiver.requests) == 3


async def test_one_that_wants_no_more_is_left_alone(tmp_path: Path) -> None:
    with receiving(status(410)) as receiver:
        async with serving(tmp_path, receiver) as store:
            await asked(store)
            await told(store, 1)
            await store.recover()
    assert len(receiver.requests) == 1


async def test_a_receiver_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    receiver: Receiver

    def hang(connection: socket.socket) -> None:
        receiver.ended.wait(60)

    with receiving(hang) as receiver:
        async with serving(tmp_path, receiver) as store, store.worker():
            ticket = await store.start("deploy", thread="t")
            while not await store.pauses():
                await asyncio.sleep(0.01)
            await store.decide((await store.pauses())[0], approved=True, by="ann")
            assert await ticket.result(timeout=60) is True
            receiver.ended.set()


async def test_a_question_that_is_answered_is_not_told_any_more(tmp_path: Path) -> None:
    with receiving(status(500)) as receiver:
        async with serving(tmp_path, receiver, attempts=1) as store:
            await asked(store)
            await told(store, 1)
            await store.decide((await store.pauses())[0], approved=True, by="ann")
            await store.recover()
    assert len(receiver.requests) == 1


CHILD = """
import asyncio, sys
from perdure import Perdure
from perdure.webhooks import Webhook
from tests.runtime.test_notifying import deploying

async def main(url, hook):
    async with Perdure.open(url, webhooks=[Webhook(hook)]) as store:
        store.handler("deploy")(deploying)
        await store.start("deploy", thread="t")
        await store.resume("t")
        await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_who_dies_while_telling_is_made_up_for(tmp_path: Path) -> None:
    """B17: a real kill -9 between the question and the record that somebody was told."""
    child: subprocess.Popen[bytes]

    def kills(connection: socket.socket) -> None:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()

    answers: list[Answer] = [kills, OK]
    with receiving(*answers) as receiver:
        url = f"sqlite:///{tmp_path}/s.db"
        child = subprocess.Popen([sys.executable, "-c", CHILD, url, receiver.url])
        await asyncio.to_thread(child.wait)
        async with serving(tmp_path, receiver, secret=None) as store:
            await store.recover()
            (entry,) = await told(store, 1)
            assert len(await store.pauses()) == 1
    assert (len(receiver.requests), entry.kind.value) == (2, "pause.notified")


def test_synchronous_runs_tell_too(tmp_path: Path) -> None:
    with receiving(OK) as receiver:
        store = perdure.sync.Perdure.open(f"sqlite:///{tmp_path}/s.db", webhooks=[Webhook(receiver.url)])
        with store, store.thread("t").run() as run:
            run.pause("deploy", ask="Deploy?")
    assert len(receiver.requests) == 1


def test_a_missing_extra_is_told_when_the_store_is_opened(tmp_path: Path) -> None:
    code = """
import sys; sys.modules["httpx"] = None
from perdure import Perdure
from perdure.webhooks import Webhook
try: Perdure.open("memory://", webhooks=[Webhook("https://example.com/")])
except ImportError as error: print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "perdure[webhooks]" in told.stdout


async def test_a_notice_has_a_link_that_decides(tmp_path: Path) -> None:
    """B17: signed one-time link."""
    with receiving(OK) as receiver:
        async with serving(tmp_path, receiver, link="https://agents.example.com/d?t={token}") as store:
            await asked(store)
            await told(store, 1)
            link = json.loads(receiver.requests[0].body)["link"]
            decision = await store.decide_by_link(link.removeprefix("https://agents.example.com/d?t="), approved=True)
            assert (decision.approved, decision.by) == (True, "127.0.0.1")
