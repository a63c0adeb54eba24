"""Writing from where nobody can wait: a bounded queue and one thread, flushed at the end."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from perdure.core.errors import BackgroundWriteError, InvalidInputError

_log = logging.getLogger("perdure.checkpointer")
Work = Callable[[], Any]
_Queue = queue.Queue[tuple[str, Work] | None]


class Soon:
    """Runs writes one after the other on a thread of its own.

    A full queue makes the caller wait, and says so once. What fails is logged, and raised by the next `flush`. What is
    queued when a process ends without a release is written first. The thread does not refer to the writer: it ends with
    a writer that nobody released and nobody uses any more.
    """

    def __init__(self, max_pending: int) -> None:
        if type(max_pending) is not int or max_pending < 1:
            raise InvalidInputError(f"max_pending_writes must be an int from 1 on, not {max_pending!r}")
        self._max = max_pending
        self._begin()

    def _begin(self) -> None:
        self._queue: _Queue = queue.Queue(self._max)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failed: list[tuple[str, Exception]] = []
        self._told = False
        self._pid = os.getpid()
        self._at_exit = partial(_write_the_rest, self._queue, self._pid)

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
            arguments = (self._queue, self._failed)
            self._thread = threading.Thread(target=_serve, args=arguments, name="perdure checkpointer", daemon=True)
            self._thread.start()
            atexit.register(self._at_exit)
            self._abandoned = weakref.finalize(self, _end, self._queue, self._pid, self._at_exit)
            self._abandoned.atexit = False

    def _tell_if_full(self) -> None:
        full = self._queue.full()
        if full and not self._told:
            _log.warning("the background writer cannot keep up: %d writes wait, callers wait with them", self._max)
        self._told = full or (self._told and not self._queue.empty())

    def flush(self) -> None:
        """Wait until everything is written; raise `BackgroundWriteError` naming what could not be."""
        if self._thread is not None and self._pid == os.getpid():
            self._queue.join()
        failed = list(self._failed)
        del self._failed[: len(failed)]
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
                self._abandoned.detach()


def _serve(work: _Queue, failed: list[tuple[str, Exception]]) -> None:
    while (item := work.get()) is not None:
        _write(*item, failed)
        del item  # it refers to the checkpointer, which may be collected while this thread waits
        work.task_done()
    work.task_done()


def _write(thread_id: str, work: Work, failed: list[tuple[str, Exception]]) -> None:
    try:
        work()
    except Exception as exc:
        _log.exception("a background write to thread %r failed", thread_id)
        failed.append((thread_id, exc))


def _write_the_rest(work: _Queue, pid: int) -> None:
    """The process ends."""
    if pid == os.getpid():
        work.join()  # what fails has been logged


def _end(work: _Queue, pid: int, at_exit: Callable[[], None]) -> None:
    """End the thread of a writer that is gone; all is written, since what is queued refers to it."""
    atexit.unregister(at_exit)
    if pid == os.getpid():
        with suppress(queue.Full):
            work.put_nowait(None)
