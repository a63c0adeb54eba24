"""Sending a notification to a real receiver: whatever it does, the attempt ends, and its end is a value."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.deliveries import Sent
from perdure.core.webhooks import Notice, Webhook, body_of
from perdure.runtime.sending import Sender, next_try, notice_of
from perdure.webhooks import WebhookSignatureError, verify
from tests.runtime.receiver import OK, Receiver, receiving, says, status

AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
NOW = int(AT.timestamp()) * 1_000_000
SECRET, NEXT = "whsec_c2l4dGVlbiBieXRlcyBvciBtb3Jl", "the next one, also a long secret"
HIDDEN = "hunter2"
NOTICE = Notice(pause="pau_u.1", name="deploy", ask="Deploy?", args={"a": 1}, thread="t", run="r", version=7, at=AT)

Send = Callable[[Webhook], Sent]


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(params=["async", "sync", "sync inside a loop"])
def send(request: pytest.FixtureRequest) -> Send:
    """One attempt, by each of the ways there are."""
    sender = Sender()

    async def inside(webhook: Webhook) -> Sent:
        return sender.send_now(webhook, NOTICE, now=NOW)

    return {
        "async": lambda webhook: asyncio.run(sender.send(webhook, NOTICE, now=NOW)),
        "sync": lambda webhook: sender.send_now(webhook, NOTICE, now=NOW),
        "sync inside a loop": lambda webhook: asyncio.run(inside(webhook)),
    }[request.param]


def in_time(url: str) -> Webhook:
    """For receivers that do answer: no machine is so slow."""
    return Webhook(url, secret=SECRET, timeout=60)


def impatient(url: str) -> Webhook:
    """For receivers that never do."""
    return Webhook(url, timeout=0.3)


def test_a_notification_arrives_whole_and_signed(send: Send) -> None:
    """B17: webhook notification."""
    with receiving(OK) as receiver:
        assert send(in_time(receiver.url)) == Sent(outcome="delivered", status=200)
    (request,) = receiver.requests
    assert (request.line, request.body) == ("POST /hook HTTP/1.1", body_of(NOTICE).content)
    assert request.headers["content-type"] == "application/json"
    assert verify(SECRET, request.headers, request.body, AT) == NOTICE.id


def test_what_was_changed_on_its_way_is_refused(send: Send) -> None:
    with receiving(OK) as receiver:
        send(in_time(receiver.url))
    (request,) = receiver.requests
    with pytest.raises(WebhookSignatureError):
        verify(SECRET, request.headers, request.body.replace(b"Deploy", b"Delete"), AT)


def test_both_secrets_sign_while_one_replaces_the_other(send: Send) -> None:
    with receiving(OK) as receiver:
        send(Webhook(receiver.url, secret=(NEXT, SECRET), timeout=60))
    (request,) = receiver.requests
    assert {verify(each, request.headers, request.body, AT) for each in (NEXT, SECRET)} == {NOTICE.id}


def test_an_attempt_after_a_failure_has_the_same_id_and_body(send: Send) -> None:
    with receiving(status(500), OK) as receiver:
        first = send(in_time(receiver.url))
        second = send(in_time(receiver.url))
    assert (first.outcome, first.status, second.outcome) == ("retry", 500, "delivered")
    assert len({(each.body, each.headers["webhook-id"]) for each in receiver.requests}) == 1


def test_attempts_end_when_they_are_used_up(send: Send) -> None:
    """N4: retry 3/1 s/30 s."""
    with receiving(status(404)) as receiver:
        hook, waits = in_time(receiver.url), list[float]()
        for attempt in count(1):
            wait = next_try(hook, attempt, send(hook).asked)
            if wait is None:
                break
            waits.append(wait)
    assert (waits, len(receiver.requests)) == ([1.0, 2.0], 3)


@pytest.mark.parametrize("code", [301, 400, 401, 404, 408, 413, 429, 500, 503, 599])
def test_a_refusal_is_to_be_tried_again(code: int) -> None:
    with receiving(status(code, "retry-after: 7", "location: /other")) as receiver:
        sent = Sender().send_now(in_time(receiver.url), NOTICE, now=NOW)
    assert (sent.outcome, sent.status, sent.asked, len(receiver.requests)) == ("retry", code, 7.0, 1)


def test_a_receiver_that_is_gone_is_given_up(send: Send) -> None:
    with receiving(status(410)) as receiver:
        assert send(in_time(receiver.url)).outcome == "given up"


def test_a_redirect_is_not_followed(send: Send) -> None:
    with receiving(OK) as other, receiving(status(307, f"location: {other.url}")) as receiver:
        sent = send(in_time(receiver.url))
    assert (sent.outcome, sent.status, other.requests) == ("retry", 307, [])
    assert "redirects are not followed" in sent.reason


def test_a_receiver_that_is_down_is_told_by_its_place(send: Send) -> None:
    with receiving(OK) as receiver:
        pass
    sent = send(in_time(receiver.url.replace("//", f"//u:{HIDDEN}@")))
    assert (sent.outcome, sent.status) == ("retry", None)
    assert sent.reason.startswith(f"http://127.0.0.1:{receiver.port}/…: ")
    assert HIDDEN not in repr(sent)


def test_a_host_that_does_not_exist_is_to_be_tried_again(send: Send) -> None:
    assert send(in_time("http://nowhere.invalid/")).outcome == "retry"


def test_a_receiver_that_says_nothing_is_left(send: Send) -> None:
    with receiving(lambda connection: receiver.ended.wait()) as receiver:
        sent = send(impatient(receiver.url))
        receiver.ended.set()
    assert (sent.outcome, sent.reason.split(": ")[1]) == ("retry", "no answer within 0.3 s")


def dripping(receiver: Receiver, text: str) -> Iterator[bytes]:
    """A byte now and then, always in time for who waits for the next one only."""
    for letter in text:
        if receiver.ended.wait(0.02):
            return
        yield letter.encode()


def test_a_receiver_that_drips_its_headers_is_left(send: Send) -> None:
    def drip(connection: socket.socket) -> None:
        for byte in dripping(receiver, "HTTP/1.1 200 OK\r\nx: " + "y" * 100_000):
            connection.sendall(byte)

    with receiving(drip) as receiver:
        assert send(impatient(receiver.url)).outcome == "retry"


def test_a_receiver_that_drips_after_its_answer_has_answered(send: Send) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        for byte in dripping(receiver, "y" * 100_000):
            connection.sendall(byte)

    with receiving(drip) as receiver:
        assert send(in_time(receiver.url)).outcome == "delivered"


def test_an_endless_answer_is_not_read(send: Send) -> None:
    written = 0

    def pour(connection: socket.socket) -> None:
        nonlocal written
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not receiver.ended.is_set():
            connection.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")
            written += 65536

    with receiving(pour) as receiver:
        assert send(in_time(receiver.url)).outcome == "delivered"
    assert written < 64 << 20  # what the system holds for a connection


@pytest.mark.parametrize(
    "text",
    [
        "", "HTTP/1.1 200", "HTTP/1.1 200 OK\n", "\n\n\n", "SMTP ready\n\n", "HTTP/1.1 99999 OK\n\n",
        "HTTP/1.1 abc OK\n\n", "HTTP/1.1 200 OK\nx: " + "y" * 300_000,
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_to_be_tried_again(send: Send, text: str) -> None:
    with receiving(says(text)) as receiver:
        sent = send(in_time(receiver.url))
    assert (sent.outcome, sent.status) == ("retry", None)
    assert len(sent.reason) > len(f"http://127.0.0.1:{receiver.port}/…: ")  # nobody can act on nothing


@pytest.mark.parametrize(
    "text",
    [
        "HTTP/1.1 200 OK\ncontent-length: 0\n\nHTTP/1.1 500 No\ncontent-length: 0\n\n",
        "HTTP/1.1 200 OK\ncontent-length: 1000\n\nhalf of",
        "HTTP/1.1 103 Early Hints\nlink: </x>\n\nHTTP/1.1 204 No Content\n\n",
        "HTTP/1.0 200 OK\n\n",
        "HTTP/1.1 200 OK\ncontent-encoding: gzip\ncontent-length: 4\n\nnone",
    ],
)
def test_the_first_answer_counts_whatever_follows(send: Send, text: str) -> None:
    with receiving(says(text)) as receiver:
        assert send(in_time(receiver.url)).outcome == "delivered"


def test_a_template_and_headers_of_ones_own_are_sent(send: Send) -> None:
    hook = {"headers": {"X-Team": "ops"}, "template": {"text": "{ask} ({thread}) {args.a}"}, "timeout": 60}
    with receiving(OK) as receiver:
        send(Webhook(receiver.url.replace("//", "//ann:p%40ss@"), **hook))
    (request,) = receiver.requests
    assert json.loads(request.body) == {"text": "Deploy? (t) 1"}
    assert (request.headers["x-team"], request.headers["authorization"]) == ("ops", "Basic YW5uOnBAc3M=")
    assert "webhook-signature" not in request.headers


def test_a_private_address_is_refused_before_anything_is_sent(send: Send) -> None:
    with receiving(OK) as receiver:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            sent = send(Webhook(f"http://{host}:{receiver.port}/", allow_private=False, timeout=60))
            assert sent.outcome == "given up"
            assert "private network" in sent.reason
    assert receiver.requests == []


def test_a_checked_host_is_reached_at_the_address_that_was_checked() -> None:
    checked: list[str] = []

    def allowed(address: str) -> bool:
        checked.append(address)
        return True

    with receiving(OK) as receiver:
        hook = Webhook(f"http://localhost:{receiver.port}/hook", allow_private=False, timeout=60)
        refused = Sender(is_public=lambda address: False).send_now(hook, NOTICE, now=NOW)
        sent = Sender(is_public=allowed).send_now(hook, NOTICE, now=NOW)
    assert (refused.outcome, sent.outcome, "127.0.0.1" in checked) == ("given up", "delivered", True)
    (request,) = receiver.requests
    assert request.headers["host"] == f"localhost:{receiver.port}"


def test_nothing_secret_is_logged(send: Send, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving(status(500)) as receiver:
        url = f"http://u:{HIDDEN}@127.0.0.1:{receiver.port}/{HIDDEN}?{HIDDEN}"
        send(Webhook(url, secret=HIDDEN, headers={"X-Token": HIDDEN}, timeout=60))
    assert len(receiver.requests) == 1
    assert HIDDEN not in caplog.text


def test_the_proxy_of_the_environment_is_used(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(OK) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        assert send(in_time("http://receiver.invalid/hook")).outcome == "delivered"
    assert proxy.requests[0].line == "POST http://receiver.invalid/hook HTTP/1.1"


def test_a_proxy_that_cannot_be_used_is_a_value_too(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    for proxy in ("gopher://x", "socks5://127.0.0.1:1", "http://[::"):
        monkeypatch.setenv("http_proxy", proxy)
        assert send(in_time("http://receiver.invalid/hook")).outcome == "retry"


async def test_who_is_cancelled_while_sending_is_cancelled() -> None:
    with receiving(lambda connection: receiver.ended.wait()) as receiver:
        sending = asyncio.ensure_future(Sender().send(in_time(receiver.url), NOTICE, now=NOW))
        while not receiver.requests:
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        receiver.ended.set()


async def test_a_pause_is_told_as_it_is_listed() -> None:
    async def release(run: Any) -> None:
        await run.pause("deploy", ask="Deploy?", args={"env": "prod"}, who="bob")

    async with Perdure.open("memory://") as store:
        store.handler("release")(release)
        await store.start("release", thread="t", user="ann")
        await store.resume("t", user="ann")
        (pause,) = await store.pauses()
    body = json.loads(body_of(notice_of(pause)).content)
    assert (body["pause"], body["ask"], body["args"]) == (pause.id, "Deploy?", {"env": "prod"})
    assert (body["thread"], body["user"], body["version"], body["who"]) == ("t", "ann", pause.version, ["bob"])


def test_without_the_extra_its_name_is_told() -> None:
    code = """
import sys; sys.modules["httpx"] = None
from perdure.webhooks import Webhook, verify
from perdure.runtime.sending import Sender
try: Sender()
except ImportError as error: print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "MissingExtraError a webhook needs an optional part: pip install 'perdure[webhooks]'"
