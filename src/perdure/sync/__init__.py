"""The synchronous face: the same store for code without an event loop.

Every call drives the one implementation in place: no loop, no thread, no hop. Threads may share a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.sync.run import Run
from perdure.sync.store import Perdure
from perdure.sync.thread import Thread

if TYPE_CHECKING:
    from perdure.sync.memory import MemoryManager

__all__ = ["MemoryManager", "Perdure", "Run", "Thread"]


def __getattr__(name: str) -> Any:
    if name != "MemoryManager":  # imported when it is first used: most programs have none
        raise AttributeError(f"module 'perdure.sync' has no attribute {name!r}")
    from perdure.sync.memory import MemoryManager

    return MemoryManager
