"""zstd, from where this Python has it. It is imported with the first body that is worth packing."""

from __future__ import annotations

import sys
from threading import local

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["pack", "zstd"]

_LEVEL = 1  # what lower ones leave is up to twice as much, and is unpacked hardly faster


def pack(body: bytes | bytearray) -> bytes:
    """Compress to one frame that says how long its content is."""
    return _kept.packer.compress(body, zstd.ZstdCompressor.FLUSH_FRAME)


class _Kept(local):
    """Kept, since making one takes as long as packing a message; of each thread, so that a fork finds none in use."""

    def __init__(self) -> None:
        self.packer = zstd.ZstdCompressor(level=_LEVEL)


_kept = _Kept()
