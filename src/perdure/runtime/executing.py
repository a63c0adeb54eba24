"""Running a handler: with retries, a dead letter, and the lease kept meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from perdure.core.errors import (
    EffectUnverifiedError,
    HandlerMissingError,
    InvalidInputError,
    ModelRefusedError,
    PerdureError,
    RunDivergedError,
    StorageError,
    TurnLimitError,
    UnsupportedValueError,
)
from perdure.core.identity import ThreadKey
from perdure.runtime import ending
from perdure.runtime.opening import Wanted, begin
from perdure.runtime.options import Retry
from perdure.runtime.run import Run
from perdure.runtime.runtime import Runtime
from perdure.runtime.scope import SCOPE
from perdure.runtime.unwinding import Unwinding, sorted_out
from perdure.runtime.worker_log import WorkerLog

Handler = Callable[[Run], Any]
RETRIES = Retry(attempts=5, wait=1.0, longest=300.0)
# Trying again gives the same; a person who changed something resumes them.
_HOPELESS = (RunDivergedError, EffectUnverifiedError, UnsupportedValueError, ModelRefusedError, TurnLimitError)


class Handlers:
    """The functions that can be run by name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Handler, Retry]] = {}

    @property
    def names(self) -> list[str]:
        return list(self._known)

    def add(self, name: str, handler: Handler, retry: Retry, *, replace: bool = False) -> None:
        """Register a handler; raise `InvalidInputError` when there is another one of this name."""
        if not callable(handler):
            raise InvalidInputError(f"handler {name!r} must be a function that takes a run, not {handler!r}")
        if not replace and name in self._known and self._known[name][0] is not handler:
            raise InvalidInputError(f"there is a handler {name!r} already: {self._known[name][0]!r}")
        self._known[name] = (handler, retry)

    def of(self, name: str | None, thread_id: str) -> tuple[Handler, Retry]:
        """The handler of a name; raise `HandlerMissingError`."""
        if name is None or name not in self._known:
            raise HandlerMissingError(name, thread_id)
        return self._known[name]


class Executor:
    """Takes up runs and brings them as far as they go."""

    def __init__(self, runtime: Runtime, handlers: Handlers) -> None:
        self._runtime = runtime
        self._handlers = handlers

    async def run(self, key: ThreadKey, ask: Wanted, wait: float, log: WorkerLog | None = None) -> Run:
        """Take up the run of a thread and call its handler.

        What the handler raises is recorded, and raised; a run that pauses or waits is given back.
        """
        run = await begin(self._runtime, key, ask, wait)
        if run.over:
            return run
        if log is None:
            return await self._taken_up(run)
        with log.of(run):
            return await self._taken_up(run)

    async def _taken_up(self, run: Run) -> Run:
        try:
            handler, retry = self._handlers.of(run.current.started.name, run.journal.key.id)
        except HandlerMissingError:
            await ending.cut_off(run)
            raise
        if run.attempt > retry.attempts:
            await ending.give_up(run, retry.attempts)
            return run
        await self._called(run, handler, retry)
        return run

    async def _called(self, run: Run, handler: Handler, retry: Retry) -> None:
        token = SCOPE.set(run.scope)
        try:
            async with self._runtime.keep(run.journal.held):
                await self._run_to_end(run, handler, retry)
        finally:
            SCOPE.reset(token)

    async def _run_to_end(self, run: Run, handler: Handler, retry: Retry) -> None:
        try:
            value = await self._handled(handler, run)
            run.result = await ending.finish(run, value)
            run.over = True
        except Unwinding as why:
            await ending.let_go(run, why)
        except Exception as exc:
            await self._failed(run, exc, retry)
            raise
        except BaseException:
            await ending.cut_off(run)
            raise

    async def _handled(self, handler: Handler, run: Run) -> Any:
        try:
            return await self._runtime.work.call(lambda: handler(run), None)
        except BaseExceptionGroup as group:
            raise sorted_out(group) from None

    async def _failed(self, run: Run, exc: Exception, retry: Retry) -> None:
        if run.journal.held.lost is not None:
            return
        if isinstance(exc, StorageError):  # not the handler's fault: whoever reaches the storage goes on
            with suppress(PerdureError):
                await ending.cut_off(run)
            return
        attempt = 1 if run.journal.progressed else run.attempt
        hopeless = isinstance(exc, _HOPELESS) or attempt >= retry.attempts or not retry.applies_to(exc)
        again_in = None if hopeless else retry.wait_after(attempt)
        await ending.fail(run, exc, attempt, again_in=again_in)
