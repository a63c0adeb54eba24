"""Reads of asynchronous callers: on a connection and a thread of their own, and in place where that is quicker."""

from __future__ import annotations

import os
import threading
from time import monotonic, perf_counter, sleep

from perdure.core.errors import StorageBusyError
from perdure.storage.ports import Worker, check_usable
from perdure.storage.sql.transactions import Job, T
from perdure.storage.sqlite.connection import BEGIN_READ, Connection
from perdure.storage.sqlite.pace import Pace

_TRUST = 2  # quick glances before one is cast on the event loop
_IN_A_ROW = 16  # that are cast there before one lets the others in
_AGAIN = 0.005  # seconds


class Looking:
    """Looks through one connection, one at a time. It never waits for other processes: the thread does, in here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._worker = Worker(connection.path)
        self._one = threading.Lock()  # held by whoever uses the connection
        self._pace = Pace(_TRUST)
        self._in_a_row = 0
        self._waiting: set[object] = set()  # what was handed over, and whose caller has not gone on yet
        self._pid = os.getpid()
        self._closed = False
        connection.never_wait()

    async def read(self, job: Job[T]) -> T:
        """Any look, on the thread."""
        return await self._handed_over(job, timed=False)

    async def _handed_over(self, job: Job[T], *, timed: bool) -> T:
        self._waiting.add(job)
        try:
            return await self._worker.run(lambda: self._patiently(job, timed=timed))
        finally:
            self._waiting.discard(job)

    async def glance(self, job: Job[T]) -> T:
        """A look that takes a moment: on the event loop while that is quick, and nobody else looks."""
        check_usable(self._connection.path, self._pid, self._closed)
        if self._is_quick() and self._one.acquire(blocking=False):
            try:
                check_usable(self._connection.path, self._pid, self._closed)  # whoever closes takes the lock too
                return self._timed(job)
            except StorageBusyError:
                pass  # the thread waits for others
            finally:
                self._one.release()
        self._in_a_row = 0
        return await self._handed_over(job, timed=True)

    def _is_quick(self) -> bool:
        """Who never waits never lets the others in; nobody overtakes who waits; and opening takes its time."""
        self._in_a_row += 1
        free = not self._waiting and self._connection.is_open
        return self._pace.is_quick and self._in_a_row <= _IN_A_ROW and free

    def _timed(self, job: Job[T]) -> T:
        began = perf_counter()
        try:
            return self._connection.transact(job, BEGIN_READ)
        finally:
            self._pace.note(perf_counter() - began)

    def _patiently(self, job: Job[T], *, timed: bool) -> T:
        """On the thread: what is in the way of other processes is tried again."""
        end = monotonic() + self._connection.patience
        while True:
            try:
                with self._one:
                    return self._timed(job) if timed else self._connection.transact(job, BEGIN_READ)
            except StorageBusyError:
                if monotonic() >= end:
                    raise
            sleep(_AGAIN)

    def close(self) -> None:
        """End the thread, after what it was given, and close the connection."""
        self._worker.close()
        with self._one:
            self._closed = True
            self._connection.close()

    def forget(self) -> None:
        """After os.fork: the connection is the parent's, and so may be the lock."""
        self._closed = True
        self._connection.forget()
