"""zstd, from where this Python has it. It is imported with the first body that is worth packing."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["pack", "zstd"]

_LEVEL = 1  # what lower ones leave is up to twice as much, and is unpacked hardly faster


_free: list[zstd.ZstdCompressor] = []  # making one takes as long as packing a message


def pack(body: bytes | bytearray) -> bytes:
    """Compress to one frame that says how long its content is."""
    try:
        packer = _free.pop()  # so that it is nobody else's meanwhile, and a fork finds none in use
    except IndexError:
        packer = zstd.ZstdCompressor(level=_LEVEL)
    packed = packer.compress(body, zstd.ZstdCompressor.FLUSH_FRAME)
    _free.append(packer)
    return packed
