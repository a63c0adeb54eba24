"""Writing from where nobody can wait: a bounded queue and one thread, flushed at the end."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from perdure.core.errors import BackgroundWriteError, InvalidInputError

_log = logging.getLogger("perdure.checkpointer")
Work = Callable[[], Any]


class Soon:
    """Runs writes one after the other on a thread of its own.

    A full queue makes the caller wait, and says so once. What fails is logged, and raised by the next `flush`. What is
    queued when a process ends without a release is written first.
    """

    def __init__(self, max_pending: int) -> None:
        if type(max_pending) is not int or max_pending < 1:
            raise InvalidInputError(f"max_pending_writes must be an int from 1 on, not {max_pending!r}")
        self._max = max_pending
        self._begin()

    def _begin(self) -> None:
        self._queue: queue.Queue[tuple[str, Work] | None] = queue.Queue(self._max)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failed: list[tuple[str, Exception]] = []
        self._told = False
        self._pid = os.getpid()

    def put(self, thread_id: str, work: Work) -> None:
        """Have it written soon."""
        if self._pid != os.getpid():
            self._begin()  # what was queued before os.fork is written by the process that queued it
        with self._lock:
            self._start()
            self._tell_if_full()
            self._queue.put((thread_id, work))

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="perdure checkpointer", daemon=True)
            self._thread.start()
            atexit.register(self._at_exit)

    def _tell_if_full(self) -> None:
        full = self._queue.full()
        if full and not self._told:
            _log.warning("the background writer cannot keep up: %d writes wait, callers wait with them", self._max)
        self._told = full or (self._told and not self._queue.empty())

    def _serve(self) -> None:
        work = self._queue.get()
        while work is not None:
            self._write(*work)
            self._queue.task_done()
            work = self._queue.get()
        self._queue.task_done()

    def _write(self, thread_id: str, work: Work) -> None:
        try:
            work()
        except Exception as exc:
            _log.exception("a background write to thread %r failed", thread_id)
            self._failed.append((thread_id, exc))

    def flush(self) -> None:
        """Wait until everything is written; raise `BackgroundWriteError` naming what could not be."""
        if self._thread is not None and self._pid == os.getpid():
            self._queue.join()
        failed, self._failed = self._failed, []
        if failed:
            thread_id, error = failed[0]
            lines = tuple(f"{each!r}: {why}" for each, why in failed)
            raise BackgroundWriteError(
                thread_id, 0, f"{len(failed)} background writes failed, the first: {error}", lines
            ) from error

    def close(self) -> None:
        """Flush, and let the thread go; the next write starts another."""
        try:
            self.flush()
        finally:
            self._stop()

    def _stop(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None and self._pid == os.getpid():
                self._queue.put(None)
                thread.join()
                atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            self._queue.join()  # what fails has been logged
