"""Going on after a crash: runs that nobody runs, or that wait no longer, are found by an index and taken up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from perdure.core.errors import LeaseHeldError, LeaseLostError, NotFoundError
from perdure.core.taking_up import ATTENDED, taken_up
from perdure.core.threads import ThreadRow
from perdure.runtime.attending import GRACE, UNTOLD
from perdure.runtime.executing import Executor, Handlers
from perdure.runtime.leases import SECOND
from perdure.runtime.opening import Wanted
from perdure.runtime.owner import is_dead
from perdure.runtime.runtime import Runtime
from perdure.runtime.worker_log import WorkerLog

RUN_FAILED = "a run failed"  # the log line
_PAGE = 1000
_STRANGERS = 2.0  # seconds between two looks for runs of handlers that are not registered here
_OVERDUE = 1.0  # … that such a run is due before it is told of
_AT_ONCE = 20  # questions that are looked after beside each other
_WAITING = 10_000  # threads with a question that are looked through for one that nobody was told of
_LATE = 2 * 3600.0  # seconds: the next round of attempts to tell somebody is never further ahead
RESUME = Wanted(only_resume=True)


TakeUp = Callable[[Sequence[ThreadRow]], Coroutine[Any, Any, "list[Tried]"]]


class Tried(msgspec.Struct, frozen=True):
    """A run that was taken up, and what it raised."""

    row: ThreadRow
    error: Exception | None = None


class Recovery:
    """Finds and takes up what is due in a namespace."""

    def __init__(
        self, runtime: Runtime, executor: Executor, handlers: Handlers, namespace: str, *, ask: Wanted = RESUME,
        log: WorkerLog | None = None,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._which = taken_up(runtime.recovery_policy, runtime.clock.now())
        self._executor = executor
        self._handlers = handlers
        self._namespace = namespace
        self._ask = ask
        self._log = log
        self._looked_for_strangers: int | None = None
        self._looked_at: dict[str, int] = {}  # threads whose questions were told, by how far their logs were then
        self._began = False  # whether it looked for what was left before it served

    async def due(self, limit: int = _PAGE) -> list[ThreadRow]:
        """Threads with a run of a handler that is known here, whose timer or lease ran out; oldest first."""
        now = self._runtime.clock.now()
        return await self._runtime.storage.due(self._namespace, now, limit, self._handlers.names, which=self._which)

    async def look_for_strangers(self) -> None:
        """Now and then: tell of runs that are due and whose handler nobody seems to register."""
        now = self._runtime.clock.now()
        last = self._looked_for_strangers
        if self._log is None or (last is not None and 0 <= now - last < _STRANGERS * SECOND):
            return
        self._looked_for_strangers = now
        overdue = -int(_OVERDUE * SECOND)  # another process may take it up this very moment
        rows = await self._runtime.storage.due(self._namespace, now, _PAGE, ahead=overdue, which=self._which)
        names = self._handlers.names
        strangers = [row for row in rows if row.agent is not None and row.agent not in names]
        self._log.strangers(strangers, names, now)

    async def orphans(self) -> list[ThreadRow]:
        """Threads whose owner died on this machine: nobody has to wait for their leases."""
        now, ahead = self._runtime.clock.now(), int(2 * self._runtime.leases.ttl * SECOND)
        rows = await self._runtime.storage.due(
            self._namespace, now, _PAGE, self._handlers.names, ahead=ahead, which=self._which
        )
        return [row for row in rows if row.lease_owner is not None and is_dead(row.lease_owner)]

    async def asked(self, limit: int = _PAGE, ahead: float = 0.0) -> list[ThreadRow]:
        """Threads with questions that somebody has to look after: their notification, their deadline."""
        now = self._runtime.clock.now()
        return await self._runtime.storage.due(
            self._namespace, now, limit, ahead=int(ahead * SECOND), which=ATTENDED
        )  # fmt: skip

    async def untold(self, *, eager: bool = False) -> list[ThreadRow]:
        """Threads with a question that perhaps nobody was told of: whoever asked had no webhooks, or, if not `eager`,
        had time enough to use them.
        """
        if not self._runtime.webhooks:
            return []
        now, rows = self._runtime.clock.now(), await self.asked(_WAITING, ahead=UNTOLD / SECOND)
        rows = [row for row in rows if row.lease_owner is None and (row.wake_at or 0) > now]
        self._looked_at = {row.uid: row.head for row in rows if self._looked_at.get(row.uid) == row.head}
        fresh = [row for row in rows if row.uid not in self._looked_at]
        return [row for row in fresh if eager or row.wake_at == UNTOLD or row.updated + GRACE * SECOND <= now]

    async def attend(self, row: ThreadRow, *, eager: bool = False, untold: bool = False) -> bool:
        """Look after the questions of a thread; say whether its run has to go on here for another reason."""
        due = False
        with self._runtime.engine.damage_log.skip(row):
            due = await self._runtime.attending.attend(row, eager=eager, untold=untold)
        if untold:
            self._looked_at[row.uid] = row.head
        is_left = row.lease_owner is not None and not self._runtime.recovery_policy.auto_resume  # it was cut off
        return due and not is_left and row.agent in self._handlers.names

    async def sweep(self, concurrency: int) -> list[Tried]:
        """Take up everything that is due now, so many at once, and wait until it came as far as it goes."""
        turn = asyncio.Semaphore(concurrency)
        asking = asyncio.create_task(self._look_after_all())  # no run waits for somebody who is slow to be told
        try:
            tried = await self._until_none(lambda rows: self._all(rows, turn), {})
            others = await asking
        finally:
            await _stopped(asking)
        tried |= {each.row.uid: each for each in await self._all(others, turn)}
        return list((await self._until_none(lambda rows: self._all(rows, turn), tried)).values())

    async def _all(self, rows: Sequence[ThreadRow], turn: asyncio.Semaphore) -> list[Tried]:
        async def one(row: ThreadRow) -> Tried:
            async with turn:
                return await self.take_up(row)

        return await asyncio.gather(*(one(row) for row in rows))

    async def in_turn(self) -> list[Tried]:
        """The same for synchronous callers: one after the other."""

        async def each(rows: Sequence[ThreadRow]) -> list[Tried]:
            return [await self.take_up(row) for row in rows]

        tried = await self._until_none(each, {})
        eager, self._began = not self._began, True
        others = [row for row in await self._late(eager=eager) if await self.attend(row, eager=eager)]
        for row in await self.untold(eager=eager):
            await self.attend(row, untold=True)
        tried |= {done.row.uid: done for done in await each(others)}
        return list((await self._until_none(each, tried)).values())

    async def _until_none(self, take: TakeUp, tried: dict[str, Tried]) -> dict[str, Tried]:
        """Take up what is due until nothing is that was not tried."""
        while rows := [row for row in [*await self.due(), *await self.orphans()] if row.uid not in tried]:
            tried |= {done.row.uid: done for done in await take(list({row.uid: row for row in rows}.values()))}
        return tried

    async def _look_after_all(self) -> list[ThreadRow]:
        """Look after all questions, and return the threads whose runs have to go on for another reason."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(row: ThreadRow, *, untold: bool = False) -> bool:
            async with turn:
                return await self.attend(row, eager=not untold, untold=untold)

        rows = await self._late()
        others = await asyncio.gather(*(one(row) for row in rows))
        await asyncio.gather(*(one(row, untold=True) for row in await self.untold(eager=True)))
        return [row for row, other in zip(rows, others, strict=True) if other]

    async def _late(self, *, eager: bool = True) -> list[ThreadRow]:
        """Questions to look after; that people were not told of one is made up for at once."""
        return await self.asked(ahead=_LATE if self._runtime.webhooks and eager else 0.0)

    async def take_up(self, row: ThreadRow) -> Tried:
        """Bring one run as far as it goes; what it raises is recorded in its log, and told here."""
        try:
            await self._executor.run(row.key, self._ask, 0.0, self._log)
        except (LeaseHeldError, LeaseLostError, NotFoundError) as exc:
            return Tried(row, exc)  # somebody else has it, or it is gone
        except Exception as exc:
            self._runtime.telemetry.count("perdure.runs.failed")
            self._runtime.telemetry.log("warning", RUN_FAILED, thread=row.key.id, error=f"{type(exc).__name__}: {exc}")
            return Tried(row, exc)
        return Tried(row)


async def _stopped(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
