"""Addresses of webhooks that a user names to reach what the Internet does not: nothing is ever sent there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.deliveries import Sent
from perdure.core.errors import InvalidWebhookError
from perdure.core.public_addresses import is_public
from perdure.core.webhooks import Notice, Webhook
from perdure.runtime.sending import Sender
from tests.runtime.receiver import OK, Receiver, receiving, status

AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
NOW = int(AT.timestamp()) * 1_000_000
NOTICE = Notice(pause="pau_u.1", name="deploy", ask="Deploy?", args={}, thread="t", run="r", version=7, at=AT)
SOMEWHERE = "93.184.215.14"
# Each leads to this machine, where something listens on every address of it, or into a network that is not public.
HOSTS = [
    "127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1",
    "0x7F.1", "0177.0.0.1", "0177.0x0.0.1", "127.0.0.1.", "0", "0.0.0.0", "0x0", "00.0.0.0", "localhost", "LOCALHOST",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]",
    "[::127.0.0.1]", "[::7f00:1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "10.0.0.1", "172.16.0.1",
    "192.168.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "100.100.100.200",
    "192.0.0.192", "192.0.0.8", "168.63.129.16", "198.18.0.1", "224.0.0.1", "255.255.255.255", "[fd00:ec2::254]",
    "[fe80::1]", "[fec0::1]", "[ff02::1]", "[5f00::1]", "[3fff::1]", "[100::1]",
    "①②⑦.⓪.⓪.①", "\uff11\uff12\uff17.0.0.1", "127。0。0。1", "169。254。169。254", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "me@127.0.0.1",
    "93.184.215.14@127.0.0.1", "93.184.215.14:80@127.0.0.1", "user:pass@[::1]",
]  # fmt: skip
# These are no addresses: a webhook cannot be made of them.
NO_ADDRESSES = [
    "http://127.0.0.1\\@example.com/", "http://example.com\\@127.0.0.1/", "http://exa mple.com/", "http:///",
    "http://[::1", "http://[fe80::1%25eth0]/", "http://[::1]x/", "file:///etc/passwd", "gopher://127.0.0.1/",
    "http://", "//h/", "ftp://h/", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "http://h:99999/", "http://h:0/",
    "http://a@b@127.0.0.1/", "http://h\r\nHost: x/", "javascript:alert(1)", "http://h\x00/", "http://h/\x00",
    "http://\x1b@h/",
]  # fmt: skip


@pytest.fixture(scope="module")
def here() -> Iterator[Receiver]:
    """Something that listens on every address of this machine; a request to it is a leak."""
    with receiving(OK, host="0.0.0.0") as receiver:
        yield receiver


def sent_to(url: str, sender: Sender | None = None) -> Sent:
    return (sender or Sender()).send_now(Webhook(url, allow_private=False, timeout=20), NOTICE, now=NOW)


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_is_sent_to_a_host_that_is_not_public(here: Receiver, host: str) -> None:
    sent = sent_to(f"http://{host}:{here.port}/latest/meta-data")
    # A spelling that nothing reads as an address is a name that does not exist.
    assert (sent.outcome, sent.status, here.requests) in [("given up", None, []), ("retry", None, [])]
    assert ("private network" in sent.reason) is (sent.outcome == "given up")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0", "localhost", "[::1]", "[::ffff:7f00:1]"],
)
def test_the_common_spellings_of_this_machine_are_given_up_not_tried_again(here: Receiver, host: str) -> None:
    assert sent_to(f"http://{host}:{here.port}/").outcome == "given up"


def test_the_same_host_is_reached_where_private_ones_are_allowed(here: Receiver) -> None:
    """The refusals above are not those of a receiver that nobody can reach."""
    before = len(here.requests)
    sent = Sender().send_now(Webhook(f"http://2130706433:{here.port}/", timeout=20), NOTICE, now=NOW)
    assert (sent.outcome, len(here.requests) - before) == ("delivered", 1)
    here.requests.clear()


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_what_is_no_address_makes_no_webhook(url: str) -> None:
    with pytest.raises(InvalidWebhookError) as caught:
        Webhook(url, allow_private=False)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize("value", ["false", "no", 0, None, []])
def test_only_a_truth_value_says_whether_private_hosts_are_allowed(value: Any) -> None:
    with pytest.raises(InvalidWebhookError, match="allow_private must be True or False"):
        Webhook("http://h/", allow_private=value)


class Resolver(asyncio.SelectorEventLoop):
    """A loop whose name server is an attacker's: each look-up of a name gets the next answer, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[str] = []

    async def getaddrinfo(self, host: Any, port: Any, **given: Any) -> Any:  # type: ignore[override]
        if host != "evil.example":
            return await super().getaddrinfo(host, port, **given)
        self.asked.append(host)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        kinds = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in found]
        return [(kind, socket.SOCK_STREAM, 6, "", (each, port)) for kind, each in zip(kinds, found, strict=True)]


def resolved(loop: Resolver, port: int, public: Callable[[str], bool] = is_public) -> Sent:
    hook = Webhook(f"http://evil.example:{port}/", allow_private=False, timeout=20)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(Sender(is_public=public).send(hook, NOTICE, now=NOW))


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["::7f00:1"], ["::ffff:0:7f00:1"], ["64:ff9b:1::7f00:1"],
        [SOMEWHERE, "127.0.0.1"], ["127.0.0.1", SOMEWHERE], ["2606:4700:4700::1111", "10.0.0.1"], ["fe80::1%1"],
        ["169.254.169.254"], ["192.0.0.8"], ["5f00::1"], ["3fff::1"], ["0.0.0.0"], [],
    ],
)  # fmt: skip
def test_a_name_that_leads_to_a_private_address_is_refused(here: Receiver, answer: list[str]) -> None:
    sent = resolved(Resolver(answer), here.port)
    assert (sent.outcome, here.requests) == ("given up", [])


def first_only(address: str) -> bool:
    """As if 127.0.0.2 were a host of the Internet."""
    return address == "127.0.0.2"


def test_a_name_that_changes_its_mind_after_the_look_is_reached_where_it_was_looked_at() -> None:
    with receiving(OK, host="127.0.0.2") as public, receiving(OK, port=public.port) as private:
        loop = Resolver(["127.0.0.2"], ["127.0.0.1"])
        sent = resolved(loop, public.port, first_only)
        again = resolved(Resolver(["127.0.0.1"]), public.port, first_only)
    assert (sent.outcome, again.outcome) == ("delivered", "given up")
    assert (loop.asked, len(public.requests), private.requests) == (["evil.example"], 1, [])
    assert public.requests[0].headers["host"] == f"evil.example:{public.port}"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_redirect_into_a_private_network_is_not_followed(code: int, host: str) -> None:
    with receiving(OK) as private:
        answer = status(code, f"location: http://{host}:{private.port}/")
        with receiving(answer, host="127.0.0.2") as public:
            sent = sent_to(public.url, Sender(is_public=first_only))
    assert (sent.status, len(public.requests), private.requests) == (code, 1, [])


def test_a_proxy_of_the_environment_is_not_asked_to_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(OK) as proxy:
        for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        assert sent_to("http://169.254.169.254/latest/meta-data").outcome == "given up"
    assert proxy.requests == []


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_file_can_say_that_private_hosts_are_refused(here: Receiver, tmp_path: Path, allowed: bool) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        f"storage: {{sessions: 'sqlite:///{tmp_path}/s.db', checkpoint: {{recovery: {{auto_resume_hitl: true}}}}}}\n"
        f"notifications: [{{url: 'http://127.0.0.1:{here.port}/', allow_private: {str(allowed).lower()}}}]\n"
    )

    async def deploying(run: Any) -> Any:
        return await run.pause("deploy", ask="Deploy?")

    async with Perdure.from_config(path) as store:
        store.handler("deploy")(deploying)
        await store.start("deploy", thread="t")
        await store.resume("t")
        while not (told := [each for each in await store.thread("t").entries() if each.kind == "pause.notified"]):
            await asyncio.sleep(0.01)
    assert len(told) == 1
    assert len(here.requests) == int(allowed)
    here.requests.clear()
