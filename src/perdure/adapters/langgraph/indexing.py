"""Vectors of what is put into a long-term store and of what is asked for, by the embedding function of an index."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from langgraph.store.base import IndexConfig, PutOp, SearchOp, ensure_embeddings, get_text_at_path, tokenize_path

from perdure.adapters.langgraph.matching import packed
from perdure.core.errors import InvalidInputError

Put = tuple[tuple[str, ...], str]  # namespace and key
Places = dict[str, list[tuple[Put, str]]]  # text → where it stands


class Embedded(msgspec.Struct, frozen=True):
    """The vectors that a batch needs."""

    queries: Mapping[str, list[float]] = {}
    puts: Mapping[Put, dict[str, bytes]] = {}


NOTHING = Embedded()


class Index:
    """How values become vectors."""

    def __init__(self, config: IndexConfig) -> None:
        self._embeddings = ensure_embeddings(config.get("embed"))
        self._fields = _tokenized(config.get("fields") or ["$"])

    def embed(self, puts: Mapping[Put, PutOp], searches: Iterable[SearchOp]) -> Embedded:
        """The vectors for a batch. Asks the embedding function once for all texts that are put."""
        places, queries = self._places(puts), _queries(searches)
        found = {query: self._embeddings.embed_query(query) for query in queries}
        vectors = self._embeddings.embed_documents(list(places)) if places else []
        return Embedded(found, _placed(places, vectors))

    async def aembed(self, puts: Mapping[Put, PutOp], searches: Iterable[SearchOp]) -> Embedded:
        """`embed` for asynchronous code."""
        places, queries = self._places(puts), _queries(searches)
        found = await asyncio.gather(*(self._embeddings.aembed_query(query) for query in queries))
        vectors = await self._embeddings.aembed_documents(list(places)) if places else []
        return Embedded(dict(zip(queries, found, strict=True)), _placed(places, vectors))

    def _places(self, puts: Mapping[Put, PutOp]) -> Places:
        places: Places = {}
        for put, op in puts.items():
            if op.value is None or op.index is False:
                continue
            for path, tokens in self._fields if op.index is None else _tokenized(op.index):
                texts = _texts(op.value, tokens)
                for at, text in enumerate(texts):
                    places.setdefault(text, []).append((put, f"{path}.{at}" if len(texts) > 1 else path))
        return places


def _tokenized(fields: Iterable[str]) -> list[tuple[str, Any]]:
    return [(path, path if path == "$" else tokenize_path(path)) for path in fields]


def _queries(searches: Iterable[SearchOp]) -> list[str]:
    return list(dict.fromkeys(op.query for op in searches if op.query))


def _texts(value: Any, tokens: Any) -> list[str]:
    try:
        return get_text_at_path(value, tokens)
    except TypeError:  # it writes JSON, which has no datetimes; what is indexed is text anyway
        return get_text_at_path(json.loads(json.dumps(value, default=str)), tokens)


def _placed(places: Places, vectors: list[list[float]]) -> dict[Put, dict[str, bytes]]:
    if len(vectors) != len(places):
        raise InvalidInputError(f"the embedding function gave {len(vectors)} vectors for {len(places)} texts")
    found: dict[Put, dict[str, bytes]] = {}
    for vector, wanted in zip(vectors, places.values(), strict=True):
        for put, path in wanted:
            found.setdefault(put, {})[path] = packed(vector)
    return found
