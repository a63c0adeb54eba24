"""Where SQLite's transactions run: in place, or on a writer thread that commits many at once."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from perdure.core.ports import Telemetry
from perdure.storage.drive import drive
from perdure.storage.ports import Answer, Worker, check_usable, outcome
from perdure.storage.sql.transactions import Job, T
from perdure.storage.sqlite.connection import Connection, SqliteTransaction

_BEGIN_WRITE = "BEGIN IMMEDIATE"
_BEGIN_READ = "BEGIN"
_GROUP = 256  # writes that share one commit at most

Open = Callable[[], Connection]


class DirectPort:
    """Runs transactions in place, one at a time; a lock is enough for threads."""

    def __init__(self, open_connection: Open) -> None:
        self._connection = open_connection()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False

    async def write(self, job: Job[T]) -> T:
        return self._run(job, _BEGIN_WRITE)

    async def read(self, job: Job[T]) -> T:
        return self._run(job, _BEGIN_READ)

    def _run(self, job: Job[T], begin: str) -> T:
        check_usable(self._connection.path, self._pid, self._closed)
        with self._lock:
            return self._connection.transact(job, begin)

    async def disk_bytes(self) -> int:
        return disk_bytes(self._connection.path)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._connection.close() if self._pid == os.getpid() else self._connection.forget()


class GroupPort:
    """Writes go to one thread that commits all waiting ones together; reads go to another."""

    def __init__(self, open_connection: Open, telemetry: Telemetry) -> None:
        self._writer = GroupWriter(open_connection(), telemetry)
        self._reading = open_connection()
        self._reader = Worker(self._reading.path)

    async def write(self, job: Job[T]) -> T:
        return await self._writer.run(job)

    async def read(self, job: Job[T]) -> T:
        return await self._reader.run(lambda: self._reading.transact(job, _BEGIN_READ))

    async def disk_bytes(self) -> int:
        return disk_bytes(self._reading.path)

    def close(self) -> None:
        self._reader.close()
        self._reading.close()
        self._writer.close()


class GroupWriter:
    """A thread with a queue: what arrives while one commit is under way shares the next."""

    def __init__(self, connection: Connection, telemetry: Telemetry) -> None:
        self._connection = connection
        self._telemetry = telemetry
        self._pid = os.getpid()
        self._jobs: queue.SimpleQueue[tuple[Job[Any], Answer] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, job: Job[T]) -> T:
        check_usable(self._connection.path, self._pid, self._closed)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="perdure sqlite writer", daemon=True)
            self._thread.start()
        answer = Answer()
        self._jobs.put((job, answer))
        return await answer.future

    def _serve(self) -> None:
        going = True
        while going:
            first = self._jobs.get()
            group = self._gather(first)
            going = None not in group
            self._commit([each for each in group if each is not None and each[1].wanted()])

    def _gather(self, first: tuple[Job[Any], Answer] | None) -> list[tuple[Job[Any], Answer] | None]:
        group = [first]
        while group[-1] is not None and len(group) < _GROUP:
            try:
                group.append(self._jobs.get_nowait())
            except queue.Empty:
                break
        return group

    def _commit(self, group: list[tuple[Job[Any], Answer]]) -> None:
        if not group:
            return
        outcomes, failure = outcome(lambda: self._transact([job for job, _ in group]))
        self._telemetry.count("perdure.sqlite.commits", 1)
        self._telemetry.count("perdure.sqlite.grouped_writes", len(group))
        for at, (_, answer) in enumerate(group):
            answer.settle(*((None, failure) if failure is not None else outcomes[at]))

    def _transact(self, jobs: list[Job[Any]]) -> list[tuple[Any, BaseException | None]]:
        return self._connection.commit(lambda raw: [self._apart(raw, job) for job in jobs], _BEGIN_WRITE)

    def _apart(self, raw: sqlite3.Connection, job: Job[Any]) -> tuple[Any, BaseException | None]:
        """Run one job in a savepoint: its refusal is its own, a fault of the database is everybody's."""
        raw.execute("SAVEPOINT job")
        value, error = outcome(lambda: drive(job(SqliteTransaction(raw))))
        if isinstance(error, sqlite3.Error):
            raise error
        if error is not None:
            raw.execute("ROLLBACK TO job")
        raw.execute("RELEASE job")
        return value, error

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pid != os.getpid():
            self._connection.forget()
            return
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        self._connection.close()


def disk_bytes(path: str) -> int:
    """The size of the file with its WAL."""
    return sum(os.path.getsize(name) for name in (path, f"{path}-wal") if os.path.exists(name))
