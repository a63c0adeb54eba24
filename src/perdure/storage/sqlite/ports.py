"""Where SQLite's transactions run: in place, or in groups that share a commit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

from perdure.core.errors import StorageClosedError
from perdure.core.ports import Telemetry
from perdure.storage.ports import Answer, Worker, check_usable, outcome, pause_in_place, pause_on_loop, settle_together
from perdure.storage.sql.transactions import Job, Landed, T, Transaction
from perdure.storage.sqlite.connection import BEGIN_READ, BEGIN_WRITE, Connection, Outcome
from perdure.storage.sqlite.looking import Looking
from perdure.storage.sqlite.pace import Company, Pace, Upkeep

_GROUP = 128  # writes that share one commit at most

Open = Callable[[], Connection]
Waiting = tuple[Job[Any], Answer]


class DirectPort:
    """Runs transactions in place, one at a time; a lock is enough for threads."""

    def __init__(self, open_connection: Open) -> None:
        self._connection = open_connection()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False

    async def write(self, job: Job[T], landed: Landed[T] | None = None) -> T:
        return self._run(job, BEGIN_WRITE)

    async def patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await attempt()

    async def write_long(self, job: Job[T]) -> T:
        """A write that takes its time."""
        return self._run(job, BEGIN_WRITE)

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        return self._run(job, BEGIN_READ)

    async def glance(self, job: Job[T]) -> T:
        return self._run(job, BEGIN_READ)

    def _run(self, job: Job[T], begin: str) -> T:
        if self._closed or self._pid != os.getpid():
            check_usable(self._connection.path, self._pid, self._closed)
        with self._lock:
            return self._connection.transact(job, begin)

    async def disk_bytes(self) -> int:
        return disk_bytes(self._connection.path)

    async def compact(self) -> None:
        check_usable(self._connection.path, self._pid, self._closed)
        with self._lock:
            self._connection.compact()

    async def pause(self, seconds: float) -> None:
        await pause_in_place(seconds)

    async def close(self) -> None:
        self._closed = True
        if self._pid != os.getpid():
            self._connection.forget()
            return
        with self._lock:
            self._connection.close()


class GroupPort:
    """Transactions of asynchronous callers: those that wait together are committed together.

    A group is worked through on the event loop, which takes microseconds, and its commit with the sync to disk goes to
    a thread, unless the disk is quick (`Pace`); what arrives meanwhile is the next group. Handing every statement to a
    thread would make the two fight for the interpreter. A write that comes alone is made at once (`Company`). Reads
    have a connection of their own (`Looking`).
    """

    def __init__(self, open_connection: Open, telemetry: Telemetry) -> None:
        self._writing = open_connection()
        self._writer, self._looking = Worker(self._writing.path), Looking(open_connection())
        self._telemetry = telemetry
        self._pid = os.getpid()
        self._closed = False
        self._lanes: dict[
            Any, list[Waiting]
        ] = {}  # what waits, by event loop: a loop that ends takes only its own along
        self._turn = threading.Lock()  # one loop at a time touches the writing connection; held during quick syncs only
        self._under_way = 0  # what the writer has not finished
        self._soon_over = 0  # … of these, what a group had better wait for: commits of others, copies of the WAL
        self._pace = Pace()
        self._company = Company()
        self._upkeep = Upkeep(self._writing.path)
        self._writing.leave_wal()

    async def write(self, job: Job[T], landed: Landed[T] | None = None) -> T:
        check_usable(self._writing.path, self._pid, self._closed)
        if not self._lanes and not self._under_way and self._pace.is_quick and self._company.is_absent():
            made = self._at_once(job)
            if made is not None:
                return _value(made)
        answer = Answer()
        lane = self._lanes.setdefault(answer.loop, [])
        lane.append((job, answer))
        if len(lane) == 1 and not self._under_way:
            answer.soon(lambda: self._begin(answer.loop))
        return await answer.future

    def _at_once(self, job: Job[Any]) -> Outcome | None:
        """Make a write on the event loop of its caller, who goes on with it; None where others are at work."""
        with self._turn:
            if self._closed or self._under_way:
                return None
            outcomes = self._writing.stage([job])
            if outcomes is None:
                return None
            made = self._committed(1, outcomes)[0]
            self._keep_up(1)
            return made

    async def write_long(self, job: Job[T]) -> T:
        """A write that takes its time: all of it is done by the writer's thread, and the event loop goes on."""
        check_usable(self._writing.path, self._pid, self._closed)
        answer = Answer()
        with self._turn:
            check_usable(self._writing.path, self._pid, self._closed)
            self._send([(job, answer)], self._one_by_one([job]), long=True)
        return await answer.future

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        return await self._looking.read(job)

    async def glance(self, job: Job[T]) -> T:
        return await self._looking.glance(job)

    async def patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await attempt()

    def _begin(self, loop: Any) -> None:
        """Work through everything that waits on this loop, and commit it, or hand that to the writer."""
        with self._turn:
            if self._soon_over and not self._closed:
                return  # what waits is begun at its end
            lane = self._lanes.pop(loop, [])
            if self._closed:
                self._refuse(lane, self._too_late())
                return
            group = [each for each in lane[:_GROUP] if each[1].wanted()]
            if rest := lane[_GROUP:]:
                self._lanes[loop] = rest
            if group:
                self._hand_over(group)
            if rest and not self._under_way:
                rest[0][1].soon(lambda: self._begin(loop))

    def _hand_over(self, group: list[Waiting]) -> None:
        self._company.note(len(group))
        jobs = [job for job, _ in group]
        outcomes, failure = (None, None) if self._under_way else outcome(lambda: self._writing.stage(jobs))
        if failure is not None:
            self._refuse(group, failure)
        elif outcomes is None:
            self._send(group, self._one_by_one(jobs))
        elif self._pace.is_quick:
            self._commit_here(group, outcomes)
        else:
            self._send(group, self._commit(outcomes))

    def _commit_here(self, group: list[Waiting], outcomes: list[Outcome]) -> None:
        """On the event loop of the group."""
        for (_, answer), result in zip(group, self._committed(len(group), outcomes), strict=True):
            answer.set(*result)
        self._keep_up(len(group))

    def _committed(self, writes: int, outcomes: list[Outcome]) -> list[Outcome]:
        """Commit what was staged, here and now, and return what each caller is told."""
        return self._told(writes, *outcome(self._commit(outcomes)))

    def _keep_up(self, writes: int) -> None:
        if self._upkeep.note(writes):
            self._send([], self._copy_wal)

    def _send(self, group: list[Waiting], work: Callable[[], list[Outcome]], *, long: bool = False) -> None:
        self._under_way += 1
        self._soon_over += not long
        self._writer.hand_over(work, lambda found, error: self._finish(group, found, error, long))

    def _refuse(self, group: list[Waiting], failure: BaseException) -> None:
        """Something nobody expects: without an answer the callers would wait for ever."""
        for _, answer in group:
            answer.set(None, failure)

    def _commit(self, outcomes: list[Outcome]) -> Callable[[], list[Outcome]]:
        def work() -> list[Outcome]:
            began = perf_counter()
            self._writing.commit()
            self._pace.note(perf_counter() - began)
            return outcomes

        return work

    def _copy_wal(self) -> list[Outcome]:
        self._writing.copy_wal()
        return []

    def _one_by_one(self, jobs: list[Job[Any]]) -> Callable[[], list[Outcome]]:
        def work() -> list[Outcome]:
            self._writing.wait_for_others()
            return [outcome(lambda job=job: self._writing.transact(job, BEGIN_WRITE)) for job in jobs]

        return work

    def _finish(self, group: list[Waiting], found: Any, error: BaseException | None, long: bool) -> None:
        """On the writer's thread, after the commit: tell everybody, and begin the next group on its event loop."""
        results = self._told(len(group), found, error)
        with self._turn:
            self._under_way -= 1
            self._soon_over -= not long
            if self._upkeep.note(len(group), looks=long) and not self._closed:
                self._send([], self._copy_wal)
        settle_together([answer for _, answer in group], results)
        for loop, lane in list(self._lanes.items()):
            for _, answer in lane[:1]:
                answer.soon_from_elsewhere(lambda loop=loop: self._begin(loop))

    def _told(self, writes: int, found: Any, error: BaseException | None) -> list[Outcome]:
        """What each of a group is told after its commit."""
        if writes:
            self._telemetry.count("perdure.sqlite.commits", 1)
            self._telemetry.count("perdure.sqlite.grouped_writes", writes)
        elif error is not None:
            self._telemetry.log("warning", "the WAL could not be copied into the database", error=str(error))
        return [(None, error)] * writes if error is not None else found

    async def disk_bytes(self) -> int:
        return disk_bytes(self._writing.path)

    async def compact(self) -> None:
        check_usable(self._writing.path, self._pid, self._closed)
        answer = Answer()

        def work() -> list[Outcome]:
            self._writing.wait_for_others()
            return [outcome(self._writing.compact)]

        with self._turn:
            check_usable(self._writing.path, self._pid, self._closed)
            self._send([(_nothing, answer)], work, long=True)
        await answer.future

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    async def close(self) -> None:
        if self._pid != os.getpid():
            self._closed = True  # the lock may be held by a thread that os.fork left behind
            self._looking.forget()
            self._writing.forget()
            return
        with self._turn:
            if self._closed:
                return
            self._closed = True
        self._looking.close()
        self._writer.close()
        with self._turn:
            self._writing.close()
            left, self._lanes = self._lanes, {}
        for _, answer in [each for lane in left.values() for each in lane]:
            answer.settle(None, self._too_late())

    def _too_late(self) -> StorageClosedError:
        return StorageClosedError(self._writing.path, "it was closed before this write began")


def _value(made: Outcome) -> Any:
    value, error = made
    if error is not None:
        raise error
    return value


async def _nothing(tx: Transaction) -> None:
    """The job of work that is not a transaction."""


def disk_bytes(path: str) -> int:
    """The size of the file with its WAL."""
    return sum(os.path.getsize(name) for name in (path, f"{path}-wal") if os.path.exists(name))
