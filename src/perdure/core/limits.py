"""How large a value may be: the bytes and nodes that are decoded at most, checked before memory is taken.

A node is a value or a key of a mapping. Each takes at least one byte, so nodes are counted only where a value has more
bytes than nodes are allowed: for all others the number of bytes is proof enough.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from perdure.core.document import Document, Node, Opened
from perdure.core.envelope import EnvelopeError, claimed, unsealed
from perdure.core.errors import InvalidInputError, ValueTooLargeError
from perdure.core.value_scan import nodes

_LEAST, _MOST = 1024, 1 << 40


class DecodeLimits(msgspec.Struct, frozen=True):
    """What one value may have when it is decoded, and so when it is stored."""

    bytes: int = 256 << 20
    nodes: int = 2_000_000

    def check(self, body: bytes | bytearray | memoryview | Raw, what: str) -> None:
        """Raise `ValueTooLargeError` for an encoded value that has more."""
        size = memoryview(body).nbytes
        if size > self.nodes:
            self.check_size(size, what)
            self.check_nodes(nodes(body, self.nodes), what)

    def check_sealed(self, payload: object, what: str) -> None:
        """The same for what a storage keeps, before it is unpacked; one that is damaged is left to its reader.

        A value stands there with what is told of it, such as the times of its messages: that may be as much again.
        """
        size = claimed(payload) if type(payload) is bytes else 0
        if size <= self.nodes:
            return
        self.check_size(size // 2, what)
        try:
            self.check_nodes((nodes(unsealed(payload), 2 * self.nodes) + 1) // 2, what)  # type: ignore[arg-type]
        except EnvelopeError:
            return

    def check_document(self, document: Document, what: str) -> int:
        """The same for a state; return how many nodes it has at most."""
        self.check_size(document.size, what)
        if document.size <= self.nodes:
            return document.size
        count = _nodes_of(document.root, self.nodes)
        self.check_nodes(count, what)
        return count

    def check_size(self, size: int, what: str) -> None:
        """Raise for more bytes than allowed."""
        if size > self.bytes:
            raise ValueTooLargeError(what, size, self.bytes, "bytes", "max_decoded_bytes")

    def check_nodes(self, count: int, what: str) -> None:
        """Raise for more nodes than allowed."""
        if count > self.nodes:
            raise ValueTooLargeError(what, None, self.nodes, "nodes", "max_decoded_nodes")


DEFAULT_LIMITS = DecodeLimits()


def limits_given(max_bytes: int | None, max_nodes: int | None, default: DecodeLimits = DEFAULT_LIMITS) -> DecodeLimits:
    """The limits of a caller; what is None is as in `default`. Raises `InvalidInputError`."""
    for name, value in {"max_decoded_bytes": max_bytes, "max_decoded_nodes": max_nodes}.items():
        if value is not None and (type(value) is not int or not _LEAST <= value <= _MOST):
            raise InvalidInputError(f"{name} must be a whole number from {_LEAST:,} to {_MOST:,}, not {value!r}")
    return DecodeLimits(
        default.bytes if max_bytes is None else max_bytes, default.nodes if max_nodes is None else max_nodes
    )


def _nodes_of(node: Node, most: int) -> int:
    """The same of a state that may be opened, and so has been decoded: it has no more depth than that allows."""
    if type(node) is Raw:
        return nodes(node, most)
    if type(node) is Opened:
        return 3 + _nodes_of(node.fields, most)
    count = 1 + (len(node) if type(node) is dict else 0)
    for child in node.values() if type(node) is dict else node or ():
        count += _nodes_of(child, most - count)
        if count > most:
            break
    return count
