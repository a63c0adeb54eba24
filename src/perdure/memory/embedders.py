"""Embedders: what turns texts into vectors, two adapters, and the exact scan over stored vectors."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from importlib import import_module
from operator import mul
from typing import Any, Protocol, runtime_checkable

from perdure.core.errors import InvalidInputError, MissingExtraError, ModelError

_FLOAT_BYTES = 4


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one length. `name` says which model it is: vectors of another one are left alone."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]: ...


def check_embedder(embedder: object) -> Embedder | None:
    """An embedder; raise `InvalidInputError` for what is none."""
    if embedder is not None and not (
        callable(getattr(embedder, "embed", None)) and isinstance(getattr(embedder, "name", None), str)
    ):
        raise InvalidInputError(f"an embedder has a name and `async def embed(texts)`, {embedder!r} has not")
    return embedder  # type: ignore[return-value]


async def vectors_of(embedder: Embedder, texts: Sequence[str], *, in_place: bool) -> list[bytes]:
    """The vectors of texts, of length 1, as they are stored; raise `ModelError` where they cannot be.

    Synchronous code has no loop to wait on: there `embed_now` is called, where the embedder has one.
    """
    now: Any = getattr(embedder, "embed_now", None) if in_place else None
    given = await embedder.embed(list(texts)) if now is None else now(list(texts))
    vectors = [array("f", map(float, each)) for each in given]
    if len(vectors) != len(texts) or len({len(each) for each in vectors}) > 1:
        raise ModelError(
            repr(embedder), f"it gave {len(vectors)} vectors for {len(texts)} texts, or of several lengths"
        )
    return [_unit(each, embedder) for each in vectors]


def _unit(vector: array[float], embedder: Embedder) -> bytes:
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not math.isfinite(length):
        raise ModelError(repr(embedder), "it gave a vector that is not of finite numbers")
    return array("f", (each / length if length else 0.0 for each in vector)).tobytes()


def similarities(query: bytes, stored: Sequence[tuple[int, bytes]]) -> list[tuple[float, int]]:
    """How close each stored vector is to a query, from -1 to 1; those of another length are left out."""
    same = [(number, vector) for number, vector in stored if len(vector) == len(query)]
    if not same:
        return []
    try:
        numpy: Any = import_module("numpy")
    except ImportError:
        wanted = array("f", query)
        return [(sum(map(mul, wanted, array("f", vector))), number) for number, vector in same]
    matrix = numpy.frombuffer(b"".join(vector for _, vector in same), dtype="<f4").reshape(len(same), -1)
    scores = matrix @ numpy.frombuffer(query, dtype="<f4")
    return [(float(score), number) for score, (number, _) in zip(scores, same, strict=True)]


class OpenAIEmbedder:
    """Embeddings of any OpenAI-compatible endpoint (`POST {base_url}/embeddings`); needs the extra `openai`."""

    def __init__(
        self, model: str = "text-embedding-3-small", *, base_url: str = "https://api.openai.com/v1",
        api_key: str | None = None, timeout: float = 30.0,
    ) -> None:  # fmt: skip
        try:
            self._httpx: Any = import_module("httpx")
        except ImportError as exc:
            raise MissingExtraError("OpenAIEmbedder", "openai") from exc
        self._model, self._url, self._key, self._timeout = model, f"{base_url.rstrip('/')}/embeddings", api_key, timeout

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r})"

    async def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Ask the endpoint; raise `ModelError` for an answer that holds no vectors."""
        try:
            async with self._httpx.AsyncClient(timeout=self._timeout) as client:
                return _vectors_in(await client.post(self._url, **self._request(texts)))
        except self._errors as exc:
            raise self._failed(exc) from exc

    def embed_now(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """The same for synchronous code."""
        try:
            return _vectors_in(self._httpx.post(self._url, timeout=self._timeout, **self._request(texts)))
        except self._errors as exc:
            raise self._failed(exc) from exc

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        return (self._httpx.HTTPError, KeyError, TypeError, ValueError)

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return {"headers": headers, "json": {"model": self._model, "input": list(texts)}}

    def _failed(self, exc: Exception) -> ModelError:
        return ModelError(repr(self), f"no vectors came back ({type(exc).__name__}: {exc})")


def _vectors_in(answer: Any) -> list[Any]:
    answer.raise_for_status()
    return [each["embedding"] for each in sorted(answer.json()["data"], key=lambda each: each["index"])]


class WordLlamaEmbedder:
    """Static word vectors that come in the wheel of `wordllama`; nothing is downloaded, no model runs."""

    name = "wordllama-l2-supercat-256"

    def __init__(self) -> None:
        try:
            module: Any = import_module("wordllama")
        except ImportError as exc:
            raise MissingExtraError("WordLlamaEmbedder", "wordllama") from exc
        self._model: Any = module.WordLlama.load(disable_download=True)

    def __repr__(self) -> str:
        return "WordLlamaEmbedder()"

    async def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """The average of the vectors of each text's words."""
        return [[float(each) for each in vector] for vector in self._model.embed(list(texts))]
