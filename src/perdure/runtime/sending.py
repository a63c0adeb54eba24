"""Sending a notification: one attempt, whose end is a value."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.core.deliveries import Sent, answered, next_try, refused, unanswered
from perdure.core.extras import check_releases, missing
from perdure.core.public_addresses import is_public
from perdure.core.reminders import OPENED
from perdure.core.signatures import keys_of, signed
from perdure.core.webhooks import Notice, Webhook, body_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from perdure.core.reminders import Telling
    from perdure.runtime.decisions import Pause

__all__ = ["Sender", "Sent", "next_try", "notice_of"]

T = TypeVar("T")


class Sender:
    """Sends notifications. It keeps no connections, so it needs no end, and any loop or thread may use it.

    `is_public` says which addresses a webhook with `allow_private=False` may have. Raises `MissingExtraError` where the
    extra `webhooks` is not installed.
    """

    def __init__(self, *, is_public: Callable[[str], bool] = is_public) -> None:
        self._http = _client()
        self._is_public = is_public
        self._trust: Any = None

    async def send(self, webhook: Webhook, notice: Notice, *, now: int) -> Sent:
        """Try once to deliver a notice; `now` is in microseconds, as a clock tells it. It does not raise.

        The whole attempt has `webhook.timeout` seconds. The status alone decides: a 2xx is delivered, a 410 given up,
        the rest is to be tried again (`next_try`). Redirects are not followed, and no body is read.
        """
        try:
            async with asyncio.timeout(webhook.timeout):
                return await self._exchange(webhook, notice, now)
        except TimeoutError:
            return unanswered(webhook, f"no answer within {webhook.timeout:g} s")
        except (self._http.InvalidURL, ImportError, ValueError):  # their texts show the address
            return unanswered(webhook, "its address, or the proxy that the environment names, cannot be used")
        except (self._http.HTTPError, OSError) as exc:
            return unanswered(webhook, str(exc) or type(exc).__name__)

    def send_now(self, webhook: Webhook, notice: Notice, *, now: int) -> Sent:
        """The same for code without an event loop, or with one that must not be used."""
        return _elsewhere(self.send(webhook, notice, now=now))

    async def _exchange(self, webhook: Webhook, notice: Notice, now: int) -> Sent:
        request = self._request(webhook, notice, now)
        if not webhook.allow_private and not await _pinned(request, self._is_public):
            return refused(webhook, "its host is, or may be, in a private network (allow_private=False)")
        # The transport alone: a client would log the address, which may hold a secret, and follow what it finds.
        async with await self._transport(webhook) as transport:
            response = await transport.handle_async_request(request)
            # Closed unread: the status said it all, and what follows may be endless.
            await response.aclose()
        return answered(webhook, response.status_code, response.headers.get("retry-after"), now)

    def _request(self, webhook: Webhook, notice: Notice, now: int) -> Any:
        body = body_of(notice, webhook.template)
        url = self._http.URL(webhook.url)
        headers = {"user-agent": "perdure", **_basic(url), **{k.lower(): v for k, v in webhook.headers.items()}}
        headers |= signed(keys_of(webhook.secret), notice.id, now // 1_000_000, body.content)
        headers |= {"content-type": body.content_type, "connection": "close"}
        return self._http.Request("POST", url, headers=headers, content=body.content)

    async def _transport(self, webhook: Webhook) -> Any:
        if self._trust is None:  # reading all authorities takes 50 ms, which would hold up whoever shares the loop
            self._trust = await asyncio.to_thread(self._http.create_ssl_context)
        return self._http.AsyncHTTPTransport(verify=self._trust, proxy=_proxy(webhook))


def notice_of(pause: Pause, *, link: str | None = None, telling: Telling | None = None) -> Notice:
    """What is told of a pause that was opened."""
    return Notice(
        pause=pause.id, name=pause.name, ask=pause.ask, args=pause.args, thread=pause.thread, user=pause.user,
        run=pause.run, version=pause.version, deadline=pause.deadline,
        who=list(pause.who) or None, link=link, at=pause.at,
        event=telling.event if telling else OPENED, nth=telling.nth if telling else 0,
    )  # fmt: skip


def _client() -> Any:
    """httpx; raise `MissingExtraError` where it is not installed."""
    try:
        import httpx
    except ImportError as exc:
        raise missing("a webhook", "webhooks") from exc
    check_releases("a webhook", "webhooks")
    return httpx


def _basic(url: Any) -> dict[str, str]:
    """The user and password of an address, as a header."""
    if not url.userinfo:
        return {}
    return {"authorization": "Basic " + b64encode(f"{url.username}:{url.password}".encode()).decode()}


def _proxy(webhook: Webhook) -> str | None:
    """The proxy that the environment names for this host."""
    from urllib.request import getproxies, proxy_bypass

    # A proxy would look the host up again, and reach what we refuse.
    if not webhook.allow_private or proxy_bypass(webhook.host):
        return None
    named = getproxies()
    return named.get(webhook.url.partition(":")[0].lower()) or named.get("all")


async def _pinned(request: Any, is_public: Callable[[str], bool]) -> bool:
    """Whether a host is public. The request goes to the address that was looked at: the name may change its mind."""
    host, netloc = request.url.host, request.url.netloc.decode()
    found = await asyncio.get_running_loop().getaddrinfo(host, request.url.port or 443, proto=6)  # TCP
    # IPv4 first: where nothing leads to IPv6, a receiver that has both would look down.
    addresses = sorted((str(each[4][0]) for each in found), key=lambda address: ":" in address)
    if not addresses or not all(map(is_public, addresses)):
        return False
    request.headers["host"] = netloc
    request.extensions["sni_hostname"] = host
    request.url = request.url.copy_with(host=addresses[0])
    return True


def _elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of its own, on a thread of its own: this one may have a loop that runs.

    A whole attempt with one deadline needs a loop; a second client for synchronous code would stop waiting for bytes
    but not for a server that sends one now and then.
    """
    from concurrent.futures import Future
    from threading import Thread

    future: Future[T] = Future()
    Thread(target=asyncio.run, args=(_told(work, future),), name="perdure-webhook", daemon=True).start()
    # Not the end of the thread is waited for: a look-up that hangs would hold it for minutes.
    return future.result()


async def _told(work: Coroutine[Any, Any, T], future: Future[T]) -> None:
    try:
        future.set_result(await work)
    except BaseException as exc:
        future.set_exception(exc)
