"""The first bytes of everything stored: format, flags and key id.

byte 0     format, 1 in this release
byte 1     flags: 1 = zstd, 2 = deflate without a header, of a body of at most 64 KB; others are refused
byte 2     length of the key id, 0 while nothing is encrypted
…          key id, then the body
"""

from __future__ import annotations

from functools import cache
from typing import Any

FORMAT = 1
ZSTD, DEFLATE = 1, 2
_PLAIN = bytes((FORMAT, 0, 0))
_PACKED = bytes((FORMAT, ZSTD, 0))
_DEFLATED = bytes((FORMAT, DEFLATE, 0))
_WORTH = 512
_SHORT = 4096  # deflate takes twice as long as zstd above
_INFLATED = 1 << 16  # bytes that a deflated body has at most
_MOST_INFLATED = 1032  # bytes that deflate makes of one at most
MAX_BODY = 1 << 31


class EnvelopeError(Exception):
    """Bytes that are not an envelope of ours; callers turn it into a damage error that names the place."""


def seal(body: bytes | bytearray) -> bytes:
    """Wrap `body` as it is."""
    return _PLAIN + body


def seal_packed(body: bytes | bytearray) -> bytes:
    """Wrap `body`, compressed where that saves something."""
    if len(body) < _WORTH:
        return _PLAIN + body
    packed = _compression().pack(body)
    return _PACKED + packed if len(packed) < len(body) else _PLAIN + body


def seal_record(body: bytes) -> bytes:
    """`seal_packed` for what is read again one by one, in thousands: a short body is unpacked in half the time.

    zstd would make a decompressor for each, which takes three times as long as using it.
    """
    if not _WORTH <= len(body) <= _SHORT:
        return seal_packed(body)
    packed = _zlib().compress(body, 1, -15)
    return _DEFLATED + packed if len(packed) < len(body) else _PLAIN + body


def unseal(sealed: bytes) -> bytes:
    """Return the body; raise `EnvelopeError` when these are not bytes of ours."""
    return bytes(unsealed(sealed))


def unsealed(sealed: bytes | memoryview) -> bytes | memoryview:
    """`unseal` without a copy of what is there already."""
    head = bytes(sealed[:3])
    if head == _PLAIN:
        return memoryview(sealed)[3:]
    if head == _PACKED:
        return _unpack(memoryview(sealed)[3:])
    if head == _DEFLATED:
        return _inflate(memoryview(sealed)[3:])
    raise EnvelopeError(_why(head))


def claimed(sealed: bytes) -> int:
    """How many bytes the body has at most, as the envelope claims: `unsealed` gives no more than that."""
    head = sealed[:3]
    if head == _DEFLATED:
        return min(_INFLATED, len(sealed) * _MOST_INFLATED)
    return weight(sealed) if head == _PACKED else len(sealed)


def weight(sealed: bytes) -> int:
    """How many bytes there are to read and fold, unpacked; 0 for bytes that are not ours."""
    if sealed[:3] != _PACKED:
        return len(sealed)  # also of a record, which is not folded
    zstd = _compression().zstd
    try:
        return zstd.get_frame_info(memoryview(sealed)[3:]).decompressed_size or 0
    except zstd.ZstdError:
        return 0


def _unpack(packed: memoryview) -> bytes:
    zstd = _compression().zstd
    try:
        size = zstd.get_frame_info(packed).decompressed_size
        if not size or size > MAX_BODY:
            raise EnvelopeError(f"claims {size} bytes")
        unpacking = zstd.ZstdDecompressor()  # refuses windows over 128 MB, and takes no more for one than the claim
        body = unpacking.decompress(packed, size)  # told the size, it needs no second copy of what is large
    except zstd.ZstdError as exc:
        raise EnvelopeError(f"cannot be decompressed ({exc})") from exc
    if len(body) != size or not unpacking.eof or unpacking.unused_data:
        raise EnvelopeError(f"is not one frame of {size} bytes")
    return body


def _inflate(packed: memoryview) -> bytes:
    zlib = _zlib()
    unpacking = zlib.decompressobj(-15)
    try:
        body = unpacking.decompress(packed, _INFLATED + 1)
    except zlib.error as exc:
        raise EnvelopeError(f"cannot be decompressed ({exc})") from exc
    if len(body) > _INFLATED or not unpacking.eof or unpacking.unused_data:
        raise EnvelopeError(f"is not one stream of at most {_INFLATED} bytes")
    return body


@cache
def _zlib() -> Any:
    import zlib

    return zlib


@cache
def _compression() -> Any:
    """Imported with the first body that is packed; an import statement at each would cost a tenth of unpacking it."""
    from perdure.core import compression

    return compression


def _why(head: bytes) -> str:
    if len(head) < 3:
        return "is shorter than an envelope"
    if head[0] != FORMAT:
        return f"has envelope format {head[0]}, this release reads {FORMAT}"
    return f"has envelope flags {head[1]} and key id length {head[2]}, which this release cannot read"
