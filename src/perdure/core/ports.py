"""What core needs from outside: time, randomness, and somebody to tell."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time in microseconds since 1970, UTC."""

    def now(self) -> int: ...


class Randomness(Protocol):
    """Gives unpredictable bytes."""

    def bytes(self, count: int, /) -> bytes: ...


class Telemetry(Protocol):
    """Hears what happens; never changes it and never fails."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Add `value` to a counter."""
        ...

    def timing(self, name: str, seconds: float, /, **labels: str) -> None:
        """Record how long something took."""
        ...

    def log(self, level: str, message: str, /, **fields: object) -> None:
        """Write one log line."""
        ...

    def event(self, kind: str, /, **fields: object) -> None:
        """Tell listeners that something was committed."""
        ...


class Silence:
    """The telemetry that hears nothing: the default."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None: ...

    def timing(self, name: str, seconds: float, /, **labels: str) -> None: ...

    def log(self, level: str, message: str, /, **fields: object) -> None: ...

    def event(self, kind: str, /, **fields: object) -> None: ...
