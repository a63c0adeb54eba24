"""A client of the OpenAI SDK whose answers are recorded in a run (extra `openai-sdk`)."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeVar

from perdure.core.errors import InvalidInputError
from perdure.core.extras import check_releases, missing
from perdure.runtime.run import Run
from perdure.sync.run import Run as SyncRun

try:
    from openai import AsyncOpenAI, NotGiven, Omit, OpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.responses import Response
except ImportError as exc:
    raise missing("perdure.adapters.openai", "openai-sdk") from exc
check_releases("perdure.adapters.openai", "openai-sdk")

C = TypeVar("C", AsyncOpenAI, OpenAI)
# Sent and not recorded: they may hold keys, and say nothing about what the model saw.
_ASIDE = ("extra_headers", "extra_query", "timeout")


def journal(client: C, run: Run | SyncRun) -> C:
    """The same client for one run: what `chat.completions.create` and `responses.create` answer is recorded.

    After a crash the recorded answer comes back, as the SDK's own type, and the model is not asked again;
    `thread.seen()` shows what it was given. With `stream=True` a chat's chunks are recorded as `run.stream` does.
    Everything else of the client is as it was, and not recorded. An asynchronous client needs a run of
    `perdure.Perdure`, a synchronous one a run of `perdure.sync`.
    """
    if not isinstance(client, AsyncOpenAI | OpenAI):
        raise InvalidInputError(f"journal takes an OpenAI or AsyncOpenAI client, not {client!r}")
    if isinstance(client, AsyncOpenAI) != isinstance(run, Run):
        needed = "perdure.Perdure" if isinstance(client, AsyncOpenAI) else "perdure.sync.Perdure"
        raise InvalidInputError(f"{type(client).__name__} needs a run of {needed}, not {type(run).__module__}")
    return _Client(client, run)  # type: ignore[return-value]


class _Part:
    """A part of the client; what is not replaced is the client's own."""

    def __init__(self, own: Any, run: Any) -> None:
        self._own = own
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class _Client(_Part):
    @property
    def chat(self) -> Any:
        return _Chat(self._own.chat, self._run)

    @property
    def responses(self) -> Any:
        return _Responses(self._own.responses, self._run)

    def with_options(self, **options: Any) -> Any:
        """With other options it is journaled too."""
        return _Client(self._own.with_options(**options), self._run)

    copy = with_options


class _Chat(_Part):
    @property
    def completions(self) -> Any:
        return _Completions(self._own.completions, self._run)


class _Completions(_Part):
    def create(self, **given: Any) -> Any:
        request = _Request(self._own.create, given)
        if request.given.get("stream"):
            return _streamed(self._run, request)
        messages, settings = _apart(request.recorded, "messages")
        made = self._run.model(request.model_call(self._run), messages, name="openai chat", **settings)
        return _typed(made, ChatCompletion, self._run)


class _Responses(_Part):
    def create(self, **given: Any) -> Any:
        request = _Request(self._own.create, given)
        if request.given.get("stream"):
            raise InvalidInputError("a stream of responses is not recorded; leave out stream=True, or use run.stream")
        said, settings = _apart(request.recorded, "input")
        messages = [{"role": "user", "content": said}] if isinstance(said, str) else said or []
        made = self._run.model(request.model_call(self._run), messages, name="openai response", **settings)
        return _typed(made, Response, self._run)


class _Request:
    """A call of the SDK."""

    def __init__(self, create: Any, given: Mapping[str, Any]) -> None:
        self.create = create
        self.given = {name: value for name, value in given.items() if not isinstance(value, NotGiven | Omit)}
        self.recorded = {name: value for name, value in self.given.items() if name not in _ASIDE}

    def model_call(self, run: Any) -> Any:
        """What the run calls: it gives plain data."""

        async def later(messages: Any, **settings: Any) -> Any:
            return _plain(await self.create(**self.given))

        def at_once(messages: Any, **settings: Any) -> Any:
            return _plain(self.create(**self.given))

        return later if isinstance(run, Run) else at_once

    async def chunks_later(self, recorded: Any) -> AsyncIterator[Any]:
        async for chunk in await self.create(**self.given):
            yield _plain(chunk)

    def chunks(self, recorded: Any) -> Iterator[Any]:
        return map(_plain, self.create(**self.given))


def _plain(answer: Any) -> dict[str, Any]:
    return answer.to_dict(mode="json")


def _apart(recorded: Mapping[str, Any], name: str) -> tuple[Any, dict[str, Any]]:
    return recorded.get(name), {key: value for key, value in recorded.items() if key != name}


def _typed(made: Any, kind: Any, run: Any) -> Any:
    """What was recorded as the SDK's own type; servers that leave fields out are let, as the SDK lets them."""

    async def later() -> Any:
        return kind.construct(**await made)

    return later() if isinstance(run, Run) else kind.construct(**made)


def _streamed(run: Any, request: _Request) -> Any:
    if not isinstance(run, Run):
        chunks = run.stream("openai chat", request.chunks, request.recorded)
        return _Stream(ChatCompletionChunk.construct(**each) for each in chunks)

    async def later() -> Any:
        return _AsyncStream(run.stream("openai chat", request.chunks_later, request.recorded))

    return later()


class _Stream:
    """Chunks, as the SDK gives them."""

    def __init__(self, chunks: Iterator[Any]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[Any]:
        return self._chunks

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...


class _AsyncStream:
    def __init__(self, chunks: AsyncIterator[Any]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for each in self._chunks:
            yield ChatCompletionChunk.construct(**each)

    async def __aenter__(self) -> _AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None: ...
