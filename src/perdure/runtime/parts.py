"""The parts of the runtime, joined."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.requests import Request
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import KeyReusedError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.payload import encode_body
from perdure.core.policies import Policies
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.runs import CANCELLED, DEAD, FAILED, WAKING, Current, Ended, end_key
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.runtime.answering import Answers
from perdure.runtime.executing import Executor, Handlers
from perdure.runtime.infos import RunInfo, info_of
from perdure.runtime.keeping import Drive
from perdure.runtime.linking import Links
from perdure.runtime.recovery import RESUME, Recovery
from perdure.runtime.runtime import Runtime
from perdure.runtime.signals import signal_body
from perdure.runtime.stalled import Stalled
from perdure.runtime.triggering import Upkeep
from perdure.runtime.work import InPlace, OnLoop
from perdure.runtime.worker_log import WorkerLog

_PAGE, _LARGEST = 200, 10_000  # threads that are looked at together


class RunParts:
    """Everything behind the runs of one store."""

    def __init__(
        self, engine: Engine, drive: Drive | None, *, clock: Clock, randomness: Randomness, telemetry: Telemetry,
        ttl: float, policies: Policies | None = None, upkeep: Upkeep | None = None, traceback: bool = True,
    ) -> None:  # fmt: skip
        work = OnLoop() if drive is None else InPlace(drive)
        self.runtime = Runtime(
            engine, work, clock=clock, randomness=randomness, telemetry=telemetry, ttl=ttl, policies=policies,
            upkeep=upkeep, traceback=traceback,
        )  # fmt: skip
        self.handlers = Handlers()
        self.executor = Executor(self.runtime, self.handlers)
        self.answers = Answers(self.runtime)
        self.links = Links(self.runtime, self.answers)

    def recovery(
        self, namespace: str, *, worker: str | None = None, traceback: bool | None = None, log: WorkerLog | None = None
    ) -> Recovery:
        """What is due in a namespace; a worker has a name and tells of what it does."""
        ask = msgspec.structs.replace(RESUME, worker=worker, traceback=traceback)
        return Recovery(self.runtime, self.executor, self.handlers, namespace, ask=ask, log=log)

    def encoded(self, input: Any) -> bytes | None:
        """An input as it is kept."""
        return None if input is None else encode(input, root="input", subclasses=self.runtime.engine.subclasses)

    async def info(self, key: ThreadKey, shown: Any, run: str | None = None) -> RunInfo:
        """How far a run of a thread came, its newest when none is named; raise `NotFoundError` when there is none."""
        standing, row = self.runtime.standing, await self.runtime.storage.thread(key)
        current = await (standing.of(row, run) if run else standing.newest(row)) if row else None
        if row is None or current is None:
            raise NotFoundError(f"run {run}" if run else f"a run of thread {key.id!r}")
        return await self._told(row, shown, current)

    async def _told(self, row: ThreadRow, shown: Any, current: Current) -> RunInfo:
        failed = row.status in (FAILED, DEAD) and not current.is_over
        error, traceback = await self.runtime.standing.failure(row) if failed else ("", "")
        return info_of(row, shown(row.key.user), current, self.runtime.clock.now(), error, traceback)

    async def listed(
        self, namespace: str, user: str | None, limit: int, status: str | None, agent: str | None, since: int | None,
        shown: Any,
    ) -> list[RunInfo]:  # fmt: skip
        """The newest runs of threads, of those that changed last first."""
        found: list[RunInfo] = []
        query = ThreadQuery(namespace=namespace, user=user, agent=agent, limit=_PAGE)
        while len(found) < limit and (rows := await self.runtime.storage.threads(query)):
            for row in rows:
                if len(found) == limit:
                    break  # a log is opened for each thread
                with self.runtime.engine.damage_log.skip(row):
                    current = await self.runtime.standing.newest(row) if row.run else None
                    if current is not None and (since is None or current.micros >= since):
                        info = await self._told(row, shown, current)
                        found += [info] if status in (None, info.status) else []
            last = rows[-1]
            # Larger ones as it goes on: each page of a minute sorts all threads that changed in it.
            more = min(query.limit * 4, _LARGEST)
            query = msgspec.structs.replace(query, limit=more, before=(last.updated, last.uid))
        return found

    async def stalled(self, namespace: str, user: str | None, after: float, shown: Any) -> list[RunInfo]:
        """Runs whose log did not grow for so many seconds although somebody holds them."""
        rows = await Stalled(self.runtime, namespace).rows(after)
        mine = [row for row in rows if user is None or row.key.user == user]
        found: list[RunInfo] = []
        for row in mine:
            with self.runtime.engine.damage_log.skip(row):
                current = await self.runtime.standing.newest(row)
                found += [await self._told(row, shown, current)] if current is not None else []
        return found

    async def take_away(self, key: ThreadKey) -> None:
        """End the lease of whoever runs a thread."""
        row = await self.runtime.storage.thread(key)
        if row is not None and row.lease_owner is not None:
            await self.runtime.leases.take_away(key, row.lease_owner)

    async def cancel(self, key: ThreadKey, reason: str, shown: Any) -> RunInfo:
        """End the unfinished run of a thread; raise `NotFoundError` when it ended by itself at that moment."""
        row = await self.runtime.storage.thread(key)
        current = await self.runtime.standing.newest(row) if row else None
        if row is None or current is None or current.is_over:
            raise NotFoundError(f"an unfinished run of thread {key.id!r}")
        run, engine = current.started.run, self.runtime.engine
        entry = engine.entry(EntryKind.RUN_CANCELLED, encode_body(Ended(run, text=reason)), None)
        request = Request(key=end_key(run), uid=row.uid, patch=ThreadPatch(status=CANCELLED, wake_at=0))
        try:
            await engine.speak(key, [entry], request)
        except KeyReusedError:
            raise NotFoundError(f"an unfinished run of thread {key.id!r}", f"{run} ended at this moment") from None
        await self.take_away(key)  # after the entry: whoever takes it up now finds it ended
        return await self.info(key, shown, run)

    async def signal(self, key: ThreadKey, name: str, value: Any, idem: str | None) -> None:
        """Keep a signal, and wake the run that may wait for it."""
        row = await self.runtime.storage.thread(key)
        if row is None:
            raise NotFoundError(f"thread {key.id!r}", "start a run in it first")
        current = await self.runtime.standing.newest(row)
        waits = row.agent is not None and current is not None and not current.is_over and row.status in WAKING
        patch = ThreadPatch(wake_at=self.runtime.clock.now()) if waits else ThreadPatch()
        entry = self.runtime.engine.entry(EntryKind.SIGNAL_RECEIVED, signal_body(name, value), None)
        await self.runtime.engine.speak(key, [entry], Request(key=idem, uid=row.uid, patch=patch))
