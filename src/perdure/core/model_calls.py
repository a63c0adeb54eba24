"""Calls of a model as the log keeps them: what changed in the request since the one before, and its digest."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from perdure.core.calls import Call
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

    def called(self, call: Call, encoded: bytes) -> tuple[ModelCalled, Document]:
        """What to keep of a request, and the request that the next one is compared with."""
        ops, document = delta(self._document, encoded)
        return ModelCalled(call, self._version, ops, sha256(encoded).digest()), document

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
