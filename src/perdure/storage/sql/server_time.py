"""What time it is at the server, as far as its answers tell."""

from __future__ import annotations

from time import monotonic

_CLOSE = 0.04  # seconds that an answer may have taken: so much earlier than it is there we may take it to be
_LATELY = 60.0  # seconds after which two clocks may have drifted apart
BEHIND = 100_000  # microseconds that the server lets a time of ours be before its own; after its own none may be


class ServerTime:
    """The time that the server told last, and when that was."""

    def __init__(self) -> None:
        self._told: tuple[int, float] | None = None  # one value: other threads read it meanwhile

    def hear(self, micros: int, asked: float) -> None:
        """The server told the time, asked at `asked` by our monotonic clock; an answer that took long tells nothing."""
        heard = monotonic()
        if heard - asked <= _CLOSE:
            self._told = micros, heard

    def doubt(self) -> None:
        """What was told did not fit: it is told anew."""
        self._told = None

    def now(self) -> int | None:
        """About what time it is there, as a rule a little earlier; None when nobody told lately."""
        told = self._told
        if told is None:
            return None
        micros, heard = told
        since = monotonic() - heard
        return micros + int(since * 1_000_000) if since <= _LATELY else None
