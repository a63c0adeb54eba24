"""Recording that a handler is to be run, and waiting for what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.checkpoints.requests import Request
from perdure.core.entries import EntryKind
from perdure.core.errors import (
    KeyReusedError,
    LeaseHeldError,
    RunCancelledError,
    RunFailedError,
    UnfinishedRunError,
    VersionConflictError,
)
from perdure.core.identity import ThreadKey
from perdure.core.payload import encode_body
from perdure.core.quarantine import check_run
from perdure.core.runs import CANCELLED, DEAD, FINISHED, QUEUED, Current, Started, next_key, run_key
from perdure.core.threads import ThreadPatch, ThreadRow
from perdure.runtime.infos import is_live
from perdure.runtime.opening import started_by
from perdure.runtime.runtime import Runtime

if TYPE_CHECKING:
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.parts import RunParts

Shown = Callable[[str], Any]
_LOOK = 1.0  # seconds: a storage tells earlier where it can
_LEAVING, _LOOKS = 0.05, 40  # seconds between looks at an owner that leaves, and how many


class Ticket:
    """A run that was started: what it is called, and what comes of it."""

    def __init__(self, parts: RunParts, key: ThreadKey, run: str, shown: Shown) -> None:
        self._parts = parts
        self._key = key
        self._shown = shown
        self.id = run
        self.thread = key.id

    def __repr__(self) -> str:
        return f"Ticket({self.id!r}, thread={self.thread!r})"

    async def info(self) -> RunInfo:
        """How far the run came."""
        return await self._parts.info(self._key, self._shown, self.id)

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # in place nothing can cancel it
        """Wait for the run to end, and return its result.

        Raises `RunFailedError`, `RunCancelledError`, and `TimeoutError` after `timeout` seconds.
        """
        runtime = self._parts.runtime
        end = None if timeout is None else runtime.in_seconds(timeout)
        watch = runtime.storage.watch(self._key.namespace)
        try:
            while (info := await self.info()).status not in (FINISHED, CANCELLED, DEAD):
                left = _LOOK if end is None else (end - runtime.clock.now()) / 1_000_000
                if left <= 0:
                    raise TimeoutError(f"run {self.id} is {info.status} after {timeout} s")
                await watch.wait(min(left, _LOOK))
        finally:
            await watch.close()
        return _result(info)


def _result(info: RunInfo) -> Any:
    if info.status == CANCELLED:
        raise RunCancelledError(info.id, info.error)
    if info.status == DEAD:
        error, _, text = info.error.partition(": ")
        raise RunFailedError(info.id, error, text)
    return info.result


async def start(
    parts: RunParts, key: ThreadKey, name: str, input: Any, run: str | None, at: int | None, shown: Shown,
    actor: str | None = None,
) -> Ticket:  # fmt: skip
    """Record that a handler is to be run at a time, and make the thread where there is none."""
    runtime = parts.runtime
    started = started_by(runtime, name, run, parts.encoded(input))
    standing = await runtime.standing.named(key, run) if run is not None else None
    if standing is not None and (known := await runtime.storage.thread(key)) is not None:
        check_run(known)  # what a stranger's file says was started is no run
    if standing is None:
        row = await _free(runtime, key, run)
        standing = await _recorded(runtime, key, started, at, row.run if row else 0, actor)
    if bytes(standing.started.input) != bytes(started.input) or standing.started.name != name:
        raise KeyReusedError(key.id, run or "", standing.version)
    return Ticket(parts, key, standing.started.run, shown)


async def _free(runtime: Runtime, key: ThreadKey, run: str | None) -> ThreadRow | None:
    """The line of a thread that takes a run. An owner whose run is over is about to leave: it is waited for."""
    row: ThreadRow | None = None
    for _ in range(_LOOKS):
        row = await runtime.storage.thread(key)
        if row is not None:
            check_run(row)
            await _refuse_second(runtime, row, run)
        if row is None or not is_live(row, runtime.clock.now()):
            return row
        await runtime.work.pause(_LEAVING)
    raise LeaseHeldError(key.id, (row.lease_owner if row else None) or "")


async def _refuse_second(runtime: Runtime, row: ThreadRow, run: str | None) -> None:
    newest = await runtime.standing.newest(row)
    if newest is None or newest.is_over or row.status == DEAD:
        return
    if run is None or newest.started.key != run:  # the same key: started at this moment
        raise UnfinishedRunError(row.key.id, newest.started.run, row.status)


async def _recorded(
    runtime: Runtime, key: ThreadKey, started: Started, at: int | None, after: int, actor: str | None
) -> Current:
    entry = runtime.engine.entry(EntryKind.RUN_STARTED, encode_body(started), actor)
    patch = ThreadPatch(status=QUEUED, agent=started.name, attempts=0, wake_at=at or runtime.clock.now())
    idem = next_key(after) if started.key is None else run_key(started.key)
    try:
        done = await runtime.engine.speak(key, [entry], Request(key=idem, patch=patch, after_run=after))
    except (KeyReusedError, VersionConflictError):  # at the same moment as somebody else, whose run stands
        return await _other(runtime, key, started)
    return Current(version=done.version, started=started, micros=done.row.updated, actor=actor)


async def _other(runtime: Runtime, key: ThreadKey, started: Started) -> Current:
    named = await runtime.standing.named(key, started.key) if started.key is not None else None
    if named is not None:
        return named
    row = await runtime.storage.thread(key)
    if row is not None:
        await _refuse_second(runtime, row, None)
    raise UnfinishedRunError(key.id, "that was started at the same moment", QUEUED)
