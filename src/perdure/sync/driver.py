"""Driving operations to their end, in place."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.core.errors import ForkedProcessError
from perdure.storage.baton import Baton

T = TypeVar("T")


class Driver:
    """Runs one operation at a time, others while it waits for a server: what a store remembers is never torn."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._pid = os.getpid()

    def is_inherited(self) -> bool:
        """Whether another process opened the store."""
        return self._pid != os.getpid()

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        if self._pid != os.getpid():
            # The lock may be held by a thread that os.fork left behind: waiting for it would be for ever.
            work.close()
            raise ForkedProcessError("the store", f"opened by process {self._pid}, used by {os.getpid()}")
        return self._baton.drive(work)
