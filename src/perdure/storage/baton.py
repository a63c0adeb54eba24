"""One thread at a time thinks, others wait for the server: what an event loop does for tasks, for threads."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class Baton:
    """A lock that its holder lays down while it waits for a server, and takes up again to go on.

    Between two waits an operation is alone, as a task is on an event loop; during a wait the others go on.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None
        self._lock.release()

    @contextmanager
    def laid_down(self) -> Generator[None]:
        """Let others go on meanwhile; nothing happens for a thread that does not hold it."""
        if self._holder != threading.get_ident():
            yield
            return
        depth = self._depth
        for _ in range(depth):
            self.__exit__()
        try:
            yield
        finally:
            for _ in range(depth):
                self.__enter__()
