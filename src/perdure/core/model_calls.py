"""Calls of a model as the log keeps them: what changed in the request since the one before, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core.calls import Answered, Call, Tokens, printable
from perdure.core.delta import delta
from perdure.core.document import Document
from perdure.core.errors import EntryDamagedError
from perdure.core.ops import Op


class ModelCalled(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `model.called`."""

    call: Call
    base: int  # the version of the `model.called` entry that the changes follow; 0: they are the whole request
    ops: list[Op]
    digest: bytes  # of the whole request
    answered: Answered | None = None  # None where it was written before the answer came, which has it then


decode_model_called = msgspec.msgpack.Decoder(ModelCalled).decode


class Requests:
    """The newest request of a run, so that the next one is kept as what changed."""

    def __init__(self) -> None:
        self._document = Document()
        self._version = 0

    @property
    def is_new(self) -> bool:
        """Whether there is nothing to compare with."""
        return self._version == 0

    def called(self, call: Call, encoded: bytes, answered: Answered | None) -> tuple[ModelCalled, Document]:
        """What to keep of a request, and the request that the next one is compared with."""
        ops, document = delta(self._document, encoded)
        return ModelCalled(call, self._version, ops, sha256(encoded).digest(), answered), document

    def keep(self, document: Document, version: int) -> None:
        """The request stands at a version."""
        self._document, self._version = document, version


def assembled(thread_id: str, version: int, chain: list[ModelCalled]) -> tuple[Document, bytes]:
    """The request that a chain of changes leads to, oldest first, and its bytes; raise where its digest differs."""
    document = Document()
    for called in chain:
        document.apply(called.ops)
    encoded = bytes(document.close())
    if sha256(encoded).digest() != chain[-1].digest:
        raise EntryDamagedError(thread_id, version, "does not lead to the request that was sent")
    return document, encoded


_LONGEST_NAME = 200  # characters
_MOST_TOKENS = 1 << 50  # of one answer; a larger number is no count
_INPUT, _OUTPUT = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")
_CACHED_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")  # Anthropic counts them beside the input


def tokens_of(answer: object) -> Tokens | None:
    """The tokens that an answer tells of, in the words of whatever provider; None where it tells of none.

    It is a mapping or an object with `usage`. What is no sensible count is taken as not told.
    """
    usage = _of(answer, "usage")
    if usage is None:
        return None
    given, made = _count(usage, *_INPUT), _count(usage, *_OUTPUT)
    if given is None and made is None:
        return None
    apart = sum(_count(usage, name) or 0 for name in _CACHED_APART)
    details = _of(usage, "prompt_tokens_details") or _of(usage, "input_tokens_details")
    cached = _count(usage, "cached_tokens", "cache_read_tokens", "cache_read_input_tokens")
    cached = cached if cached is not None else _count(details, "cached_tokens")
    whole = (given or 0) + apart
    return Tokens(whole, made or 0, min(cached or 0, whole))


def model_name(answer: object, settings: Mapping[str, object], otherwise: str) -> str:
    """What a model that was asked is called: as the caller named it, else as the answer says, else as the call."""
    for each in (settings.get("model"), _of(answer, "model"), otherwise):
        if isinstance(each, str) and each:
            return printable(each)[:_LONGEST_NAME]
    return ""


def _of(thing: object, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _count(usage: object, *names: str) -> int | None:
    for name in names:
        found = _of(usage, name)
        if type(found) is int and 0 <= found <= _MOST_TOKENS:
            return found
    return None
