"""A worker for synchronous code: one run at a time; several processes serve several."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from perdure.core.errors import StorageError

POLL = 0.25  # seconds between two looks for what is due


class Worker:
    """Serves the handlers of a store on the caller's thread."""

    def __init__(self, recover: Callable[[], Any]) -> None:
        self._recover = recover
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Take up nothing more; `run()` ends after the run that is under way."""
        self._stopping.set()

    def run(self, *, signals: bool = True) -> None:
        """Serve until `stop()`, or until SIGTERM or SIGINT come."""
        before = self._handle_signals() if signals else {}
        try:
            while not self._stopping.is_set():
                with suppress(StorageError):  # it may be back in a moment
                    self._recover()
                self._stopping.wait(POLL)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _handle_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {each: signal.signal(each, lambda *_: self.stop()) for each in (signal.SIGTERM, signal.SIGINT)}
