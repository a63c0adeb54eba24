"""Models behind an HTTP server that speaks OpenAI's chat completions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from perdure.core.errors import InvalidInputError, ModelError, ModelRefusedError
from perdure.core.errors import ModelUnavailableError as Unavailable
from perdure.core.extras import check_releases, missing
from perdure.runtime.agents.model import Reply, Said, ToolSchema
from perdure.runtime.agents.openai_wire import Pieces, reply_of, request_of

if TYPE_CHECKING:
    import httpx

OPENAI = "https://api.openai.com/v1"
_KEY = "OPENAI_API_KEY"
_AGAIN = frozenset({408, 409, 425, 429})  # and everything from 500 on
_EXCERPT = 300  # characters of what a server says about an error
_ADVICE = {
    400: "correct the messages, tools or settings",
    401: f"check api_key or {_KEY}",
    403: "check what the key may do",
    404: "check the model and base_url",
    413: "shorten the conversation",
}


class OpenAICompatible:
    """A model behind any server of OpenAI's chat completions: `OpenAICompatible("gpt-4o-mini")`.

    The key is `api_key`, else `OPENAI_API_KEY`; it is sent and never recorded, logged or shown. Requests that meet an
    overload, a failing server or a timeout are made again, up to `attempts` times; then `ModelUnavailableError` is
    raised, and `ModelRefusedError` for what the server does not accept. An httpx `client` of your own is used and left
    open; without one a connection is made for each request.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI,
        api_key: str | None = None,
        timeout: float = 120.0,
        attempts: int = 4,
        wait: float = 0.5,
        headers: Mapping[str, str] | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        if urlsplit(base_url).scheme not in ("http", "https"):
            raise InvalidInputError(f"base_url must be an http or https address, not {base_url!r}")
        self.name = model
        self._base = base_url.rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._attempts = attempts
        self._wait = wait
        self._headers = dict(headers or {})
        self._client = client

    def __repr__(self) -> str:
        parts = urlsplit(self._base)
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        return f"OpenAICompatible({self.name!r}, base_url={shown!r})"

    async def reply(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> Reply:
        """Ask, and give the answer."""
        body = request_of(self.name, messages, tools, settings or {}, stream=False)
        async with AsyncExitStack() as stack:
            response = await self._sent(stack, body)
            return reply_of(self._decoded(await response.aread()), repr(self))

    def reply_now(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> Reply:
        """The same for synchronous code."""
        body = request_of(self.name, messages, tools, settings or {}, stream=False)
        with self._httpx.Client(timeout=self._timeout, verify=self._tls) as client:
            for attempt in self._retrying():
                with attempt:
                    return self._replied(client, body)
        raise AssertionError("unreachable: the last attempt raises")

    async def stream(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> AsyncIterator[str | Reply]:
        """Ask, and give the text as it comes, then the whole answer."""
        body, pieces = request_of(self.name, messages, tools, settings or {}, stream=True), Pieces()
        async with AsyncExitStack() as stack:
            response = await self._sent(stack, body)
            try:
                async for line in response.aiter_lines():
                    text = pieces.add(self._chunk(line)) if line.startswith("data:") else ""
                    if text:
                        yield text
            except self._httpx.TransportError as exc:
                raise Unavailable(repr(self), f"the stream was cut off: {self._safe(exc)}") from None
        if not pieces.is_whole:
            raise Unavailable(repr(self), "the stream ended before the answer did")
        yield pieces.reply()

    async def _sent(self, stack: AsyncExitStack, body: dict[str, Any]) -> httpx.Response:
        """A response that is good; what may pass is tried again."""
        client = self._client
        if client is None:
            made = self._httpx.AsyncClient(timeout=self._timeout, verify=self._tls)
            client = await stack.enter_async_context(made)
        async for attempt in self._retrying():
            with attempt:
                response = await self._once(client, body)
                stack.push_async_callback(response.aclose)
                return response
        raise AssertionError("unreachable: the last attempt raises")

    async def _once(self, client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
        request = client.build_request("POST", self._url, content=_encoded(body), headers=self._sent_headers())
        try:
            response = await client.send(request, stream=True)
            if not response.is_success:
                await response.aread()
                await response.aclose()
        except self._httpx.TransportError as exc:
            raise Unavailable(repr(self), self._safe(exc)) from None  # what it is about holds the key
        self._check(response)
        return response

    def _replied(self, client: httpx.Client, body: dict[str, Any]) -> Reply:
        try:
            response = client.post(self._url, content=_encoded(body), headers=self._sent_headers())
        except self._httpx.TransportError as exc:
            raise Unavailable(repr(self), self._safe(exc)) from None
        self._check(response)
        return reply_of(self._decoded(response.content), repr(self))

    def _retrying(self) -> Any:
        try:
            import stamina
        except ImportError as exc:
            raise missing("OpenAICompatible", "openai") from exc
        check_releases("OpenAICompatible", "openai")
        return stamina.retry_context(
            on=_again, attempts=self._attempts, timeout=None, wait_initial=self._wait, wait_jitter=self._wait
        )

    @cached_property
    def _httpx(self) -> Any:
        try:
            import httpx
        except ImportError as exc:
            raise missing("OpenAICompatible", "openai") from exc
        check_releases("OpenAICompatible", "openai")
        return httpx

    @cached_property
    def _tls(self) -> Any:
        """Made once: reading the certificates takes longer than many an answer."""
        return self._httpx.create_ssl_context() if self._base.startswith("https:") else False

    @property
    def _url(self) -> str:
        return f"{self._base}/chat/completions"

    def _secret(self) -> str:
        return self._api_key or os.environ.get(_KEY, "")

    def _sent_headers(self) -> dict[str, str]:
        key = self._secret()
        bearer = {"Authorization": f"Bearer {key}"} if key else {}
        return {"Content-Type": "application/json", **bearer, **self._headers}

    def _check(self, response: httpx.Response) -> None:
        """Raise what a status that is no success means."""
        if response.is_success:
            return
        status, (code, said) = response.status_code, _said(response.content)
        reason = f"status {status}: {self._safe(said)}"
        if code == "insufficient_quota":
            raise ModelRefusedError(repr(self), reason, status, "check the plan and the budget of the key")
        if status in _AGAIN or status >= 500:
            later = Unavailable(repr(self), reason, status)
            later.retry_after = _seconds(response.headers.get("retry-after"))
            raise later
        raise ModelRefusedError(repr(self), reason, status, _ADVICE.get(status, ""))

    def _safe(self, said: object) -> str:
        """Words of others, without the key."""
        text = str(said) or type(said).__name__
        for secret in filter(None, (self._secret(), *self._headers.values())):
            text = text.replace(secret, "***") if len(secret) >= 8 else text
        return text[:_EXCERPT]

    def _chunk(self, line: str) -> Mapping[str, Any]:
        data = line.removeprefix("data:").strip()
        chunk = {} if data in ("", "[DONE]") else self._decoded(data.encode())
        if chunk.get("error"):
            raise Unavailable(repr(self), f"the stream failed: {self._safe(_said(data.encode())[1])}")
        return chunk

    def _decoded(self, content: bytes) -> Any:
        try:
            decoded = msgspec.json.decode(content)
        except msgspec.DecodeError:
            decoded = None
        if not isinstance(decoded, dict):
            excerpt = self._safe(content.decode(errors="replace"))
            raise ModelError(repr(self), f"its answer is no JSON object: {excerpt!r}", advice="check base_url")
        return decoded


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"a message or setting cannot be sent as JSON: {exc}") from exc


def _again(exc: Exception) -> bool | float:
    """Whether to try once more, or in how many seconds."""
    if isinstance(exc, Unavailable) and exc.retry_after is not None:
        return exc.retry_after
    return isinstance(exc, Unavailable)


def _said(content: bytes) -> tuple[str, str]:
    """The code and the words of an error."""
    try:
        error: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return "", content.decode(errors="replace")
    error = error.get("error", error) if isinstance(error, dict) else error
    if isinstance(error, dict):
        return str(error.get("code") or error.get("type") or ""), str(error.get("message") or error)
    return "", str(error)


def _seconds(header: str | None) -> float | None:
    try:
        return min(float(header), 60.0) if header else None
    except ValueError:
        return None
