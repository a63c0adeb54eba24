"""Why a pool of ours has no connection to lend: it tries again by itself, and would tell its log alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Refusals:
    """What the newest try to connect met; nothing after one that went well."""

    def __init__(self) -> None:
        self.newest: Exception | None = None

    @contextmanager
    def heard(self) -> Generator[None]:
        """Note how a try ends."""
        try:
            yield
        except Exception as exc:
            self.newest = exc
            raise
        self.newest = None


def connections_in_place(kind: Any, refusals: Refusals) -> Any:
    """A kind of psycopg's connections whose refusals are heard."""

    class Heard(kind):
        @classmethod
        def connect(cls, *args: Any, **kwargs: Any) -> Any:
            with refusals.heard():
                return super().connect(*args, **kwargs)

    return Heard


def connections_on_loop(kind: Any, refusals: Refusals) -> Any:
    """A kind of psycopg's connections on an event loop whose refusals are heard."""

    class Heard(kind):
        @classmethod
        async def connect(cls, *args: Any, **kwargs: Any) -> Any:
            with refusals.heard():
                return await super().connect(*args, **kwargs)

    return Heard
