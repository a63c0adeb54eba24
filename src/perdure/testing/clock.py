"""Time and randomness that a test decides."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from perdure.core.times import moment

START = datetime(2026, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class ManualClock:
    """A clock that stands still until a test moves it, forwards or back."""

    def __init__(self, start: datetime = START) -> None:
        self._micros = moment(start, "start")

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return self._micros

    def advance(self, by: timedelta) -> None:
        """Move by `by`; a negative one goes back, as clocks of real machines do."""
        self._micros += by // _MICROSECOND

    def set(self, at: datetime) -> None:
        """Jump to `at`, which must say its time zone."""
        self._micros = moment(at, "at")


class SeededRandomness:
    """Bytes that look random and are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        return self._random.randbytes(count)
