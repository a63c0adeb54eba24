"""The system's clock and randomness: the one place that asks for them."""

from __future__ import annotations

import os
import time


class SystemClock:
    """The time of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1000


class SystemRandomness:
    """Unpredictable bytes from the operating system."""

    bytes = staticmethod(os.urandom)
