"""The synchronous face: the same store for code without an event loop.

Every call drives the one implementation in place: no loop, no thread, no hop. Threads may share a store.
"""

from __future__ import annotations

from perdure.sync.run import Run
from perdure.sync.store import Perdure
from perdure.sync.thread import Thread

__all__ = ["Perdure", "Run", "Thread"]
