"""Making durable what was acknowledged: one write of a thread after the other, each compared with its promise."""

from __future__ import annotations

import msgspec

from perdure.core.ports import Telemetry
from perdure.core.writes import Appended
from perdure.storage.background.backlog import Backlog, Turn
from perdure.storage.background.errors import BrokenPromise
from perdure.storage.background.ports import Queue
from perdure.storage.contract import Storage

APPLIED = "perdure.background.applied"
LOST = "perdure.background.lost"
MOVED = "perdure.background.moved"


class Writer:
    """Applies what is queued to the storage. Several may run at once: a thread is in the hands of one."""

    def __init__(self, inner: Storage, backlog: Backlog, queue: Queue, telemetry: Telemetry) -> None:
        self._inner = inner
        self._backlog = backlog
        self._queue = queue
        self._telemetry = telemetry

    async def run(self) -> None:
        """Work until every lane is empty or in the hands of somebody else."""
        while (turn := self._take()) is not None:
            await self._apply(turn)

    def _take(self) -> Turn | None:
        with self._queue.lock:
            return self._backlog.take(self._queue.alive())

    async def _apply(self, turn: Turn) -> None:
        queued = turn.queued
        # A try whose answer nobody heard may stand: only such a one is looked for, since looking takes time.
        since = queued.before if queued.in_doubt else None
        try:
            done = await self._inner.append(msgspec.structs.replace(queued.write, since=since))
        except Exception as exc:  # whatever it is, the callers have to hear of it, and the other threads go on
            self._lose(turn, exc)
        except BaseException:  # cancelled with its event loop
            with self._queue.lock:
                self._backlog.give_back(turn)
                self._queue.tell()
            raise
        else:
            self._settle(turn, done)

    def _settle(self, turn: Turn, done: Appended) -> None:
        broken = _difference(turn, done)
        with self._queue.lock:
            applied = self._backlog.done(turn)
            if applied and broken:
                self._backlog.break_promise(broken)
            self._queue.tell()
        if applied:
            self._telemetry.count(APPLIED)
        if applied and broken:
            self._report(MOVED, 1, "an acknowledged write stands at another version than was answered", broken)

    def _lose(self, turn: Turn, exc: Exception) -> None:
        with self._queue.lock:
            lost = self._backlog.fail(turn)
            reason = f"{type(exc).__name__}: {exc}"
            broken = BrokenPromise(key=turn.key, version=turn.queued.before, lost=lost, reason=reason)
            if lost:
                self._backlog.break_promise(broken)
            self._queue.tell()
        if lost:
            self._report(LOST, lost, "acknowledged writes are lost", broken)

    def _report(self, counter: str, count: int, message: str, broken: BrokenPromise) -> None:
        self._telemetry.count(counter, count)
        key, place = broken.key, {"writes": count, "version": broken.version, "error": broken.reason}
        self._telemetry.log("error", message, thread=key.id, user=key.user, namespace=key.namespace, **place)


def _difference(turn: Turn, done: Appended) -> BrokenPromise | None:
    """How what stands differs from what was promised; None when it does not."""
    promised = turn.queued.promised
    later = done.row.head > done.version  # found again, and others wrote after it
    if done.version == promised.version and (later or done.row.head_digest == promised.row.head_digest):
        return None
    reason = f"another writer was first: version {promised.version} was answered, {done.version} it is"
    if done.version == promised.version:
        reason = (
            f"version {done.version} has another digest than was answered; does the storage keep a time of its own?"
        )
    return BrokenPromise(key=turn.key, version=turn.queued.before, moved=1, reason=reason)
