"""zstd, from where this Python has it. It is imported with the first body that is worth packing."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
