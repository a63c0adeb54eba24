"""Connections between two calls."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_LENT_FOR = 600.0  # seconds after which a connection goes back to its pool, which may replace it


class Kept:
    """Connections that stay lent between two calls: a pool's own bookkeeping costs as much as a small statement.

    Whoever waits for the pool is served first, and a connection goes back from time to time to be looked after.
    """

    def __init__(self) -> None:
        self._wires: list[Any] = []
        self._waiting: list[None] = []  # counted by its length: adding and removing are atomic between threads

    def take(self) -> Any:
        """A connection that is kept, if there is one."""
        try:
            return self._wires.pop()
        except IndexError:
            return None

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Tell others that somebody waits for the pool."""
        self._waiting.append(None)
        try:
            yield
        finally:
            self._waiting.pop()

    def keep(self, wire: Any) -> Any:
        """Keep a connection; returns one that has to go back to the pool instead, or None."""
        if not wire.stays(_LENT_FOR):
            return wire
        self._wires.append(wire)
        return self.take() if self._waiting else None
