"""Whether something that failed is asked again: not at once, then by one caller, then by all."""

from __future__ import annotations

import threading
from typing import Literal

FIRST = 0.5  # seconds it is left alone after a failure
LONGEST = 30.0  # … after many
CALM = 60.0  # seconds without a failure after which the next one is a first one again

State = Literal["closed", "open", "probing"]


class Breaker:
    """Opens at a failure and stays open for a while that grows; one call is the probe that closes it again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state: State = "closed"
        self.wait = 0.0  # how long it stays open
        self._since = 0.0

    def admits(self, now: float) -> bool:
        """Whether a call may go through; after the wait, one may and all others may not."""
        with self._lock:
            if self.state == "open" and now >= self._since + self.wait:
                self.state = "probing"
                return True
            return self.state == "closed"

    def failed(self, now: float) -> bool:
        """Hear of a failure; True when it opens for it, False when it was not closed before."""
        with self._lock:
            opens, counts = (
                self.state == "closed",
                self.state != "open",
            )  # others fail with the first one, and count once
            if opens and now >= self._since + CALM:
                self.wait = 0.0
            if counts:
                self.state, self._since = "open", now
                self.wait = min(max(self.wait * 2, FIRST), LONGEST)
            return opens

    def succeeded(self, now: float) -> bool:
        """Hear of a success; True when it was the probe, and all may call again."""
        with self._lock:
            closes = self.state == "probing"
            if closes:
                self.state, self._since = "closed", now
            return closes
