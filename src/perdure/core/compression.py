"""zstd, from where this Python has it. It is imported with the first body that is worth packing."""

from __future__ import annotations

import sys
from threading import local

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["pack", "zstd"]


def pack(body: bytes | bytearray, level: int) -> bytes:
    """Compress to one frame that says how long its content is."""
    kept = _packers.by_level.get(level)
    if kept is None:
        kept = _packers.by_level[level] = zstd.ZstdCompressor(level=level)
    return kept.compress(body, kept.FLUSH_FRAME)


class _Packers(local):
    """Kept, since making one takes as long as packing a message; of each thread, so that a fork finds none in use."""

    def __init__(self) -> None:
        self.by_level: dict[int, zstd.ZstdCompressor] = {}


_packers = _Packers()
