"""Large values kept apart: taken out of what is stored, and put back when it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.digest import digest_of
from perdure.core.document import Node, Opened, opened
from perdure.core.envelope import EnvelopeError, seal_packed, unseal
from perdure.core.errors import BlobDamagedError, ValueDamagedError
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ops import Append, Op, Set, Splice
from perdure.core.value_scan import foreign_keys
from perdure.core.writes import Blob

LIMIT = 64 * 1024
_encode = msgspec.msgpack.Encoder().encode
_TEXT_HEADS = (b"\xda", b"\xdb", b"\xc5", b"\xc6")  # of those that are long
_CONTAINERS = frozenset({zoo.TUPLE, zoo.MAPPING, zoo.OBJECT, zoo.RECORD})
_REFERENCE = re.compile(rb"\xc7\x20%c(?=(.{32}))" % zoo.BLOB, re.DOTALL)  # an extension of 32 bytes, as msgpack has it


def extract(data: bytes) -> tuple[bytes, list[Blob]]:
    """Replace every text or byte string over 64 KB by a reference; return what is left and what was taken out."""
    if len(data) <= LIMIT or not may_have_large(Raw(data)):
        return data, []
    taken: dict[bytes, Blob] = {}
    left = _encode(_without_large(_open(data), taken))
    return (left, list(taken.values())) if taken else (data, [])


def extract_change(ops: Sequence[Op], others: Sequence[Raw] = ()) -> tuple[list[Op], list[Raw], list[Blob]]:
    """Replace the large values of operations, and of other values that go with them.

    The rest of a change, its paths and its checkpoint, has types of its own: a reference there could not be read again.
    """
    taken: dict[bytes, Blob] = {}
    return [_op(op, taken) for op in ops], [_value(each, taken) for each in others], list(taken.values())


def _op(op: Op, taken: dict[bytes, Blob]) -> Op:
    if isinstance(op, Set):
        return Set(op.path, _value(op.value, taken))
    if isinstance(op, Append):
        return Append(op.path, [_value(each, taken) for each in op.items])
    if isinstance(op, Splice):
        return Splice(op.path, op.at, op.removed, [_value(each, taken) for each in op.items])
    return op


def _value(value: Raw, taken: dict[bytes, Blob]) -> Raw:
    if len(value) <= LIMIT or not may_have_large(value):
        return value
    return Raw(_encode(_without_large(_open(value), taken)))


def may_have_large(node: Node) -> bool:
    """A look at sizes alone: a long list of short items is not taken apart for nothing."""
    if type(node) is Raw:
        inside = opened(node) if len(node) > LIMIT else None
        return inside is not None and (inside is node or may_have_large(inside))
    inside = node.fields if type(node) is Opened else node
    return any(map(may_have_large, inside.values() if type(inside) is dict else inside))


def _open(data: bytes | Raw) -> Any:
    return msgspec.msgpack.decode(data, ext_hook=lambda code, body: Ext(code, bytes(body)))


def _without_large(node: Any, taken: dict[bytes, Blob]) -> Any:
    kind = type(node)
    if kind is dict:
        return {key: _without_large(child, taken) for key, child in node.items()}
    if kind is list:
        return [_without_large(child, taken) for child in node]
    if kind is Ext and node.code in _CONTAINERS and len(node.data) > LIMIT:
        return Ext(node.code, _encode(_without_large(_open(node.data), taken)))
    if kind in (str, bytes) and len(node) > LIMIT // 4:
        return _taken(node, taken)
    return node


def _taken(value: str | bytes, taken: dict[bytes, Blob]) -> Any:
    body = _encode(value)
    if len(body) <= LIMIT:
        return value
    digest = digest_of(body)
    if digest not in taken:
        taken[digest] = Blob(digest, seal_packed(body))
    return Ext(zoo.BLOB, digest)


def referred(body: bytes | Raw) -> list[bytes]:
    """What looks like a reference to a large value, anywhere in a body; there may be others that only look like one."""
    return _REFERENCE.findall(body)


def resolve(data: bytes | Raw, bodies: Mapping[bytes, bytes], limits: DecodeLimits = DEFAULT_LIMITS) -> bytes:
    """Put large values back where they are referred to; one may be meant a thousand times.

    Raises `ValueTooLargeError` before it puts together more than one value may have.
    """
    size = memoryview(data).nbytes + sum(len(bodies.get(digest, b"")) for digest in referred(data))
    limits.check_size(size, "a state with its large values")
    if foreign_keys(data):
        raise ValueDamagedError("has a mapping whose keys are no texts, as none was ever written")
    return _resolved(data, bodies)


def _resolved(data: bytes | memoryview | Raw, bodies: Mapping[bytes, bytes]) -> bytes:

    def back(code: int, body: memoryview) -> Any:
        if code == zoo.BLOB:
            return Raw(_body(bytes(body), bodies))
        if code in _CONTAINERS:
            return Ext(code, _resolved(bytes(body), bodies))
        return Ext(code, bytes(body))

    return _encode(msgspec.msgpack.decode(data, ext_hook=back))


def _body(digest: bytes, bodies: Mapping[bytes, bytes]) -> bytes:
    if digest not in bodies:
        raise BlobDamagedError(digest.hex(), "is missing")
    if bodies[digest][:1] not in _TEXT_HEADS:
        raise BlobDamagedError(digest.hex(), "is neither a text nor bytes")
    return bodies[digest]


def checked(digest: bytes, payload: bytes) -> bytes:
    """The body of a stored large value, checked against its digest."""
    try:
        body = unseal(payload)
    except EnvelopeError as exc:
        raise BlobDamagedError(digest.hex(), str(exc)) from exc
    if digest_of(body) != digest:
        raise BlobDamagedError(digest.hex(), "fails its digest")
    return body
