"""A run as a block of code: `async with thread.run() as run:`."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from contextvars import Token
from typing import Any

from perdure.core.errors import InvalidInputError
from perdure.core.identity import ThreadKey
from perdure.runtime import ending
from perdure.runtime.keeping import Keeper
from perdure.runtime.opening import Wanted, begin
from perdure.runtime.run import Run
from perdure.runtime.runtime import Runtime
from perdure.runtime.scope import SCOPE, Scope
from perdure.runtime.unwinding import Unwinding, sorted_out

Find = Callable[[], Awaitable[ThreadKey]]


class Block:
    """Begins a run when it is entered, and ends it when it is left."""

    def __init__(self, runtime: Runtime, find: Find, ask: Wanted, wait: float | None = None) -> None:
        self._runtime = runtime
        self._find = find
        self._ask = ask
        self._wait = runtime.leases.ttl if wait is None else wait
        self._run: Run | None = None
        self._keeper: Keeper | None = None
        self._token: Token[Scope | None] | None = None

    async def __aenter__(self) -> Run:
        if self._run is not None:
            raise InvalidInputError("a run is entered once: call thread.run() again")
        key = await self._find()
        self._run = run = await begin(self._runtime, key, self._ask, self._wait)
        if not run.over:
            self._keeper = self._runtime.keep(run.journal.held)
        self._token = SCOPE.set(run.scope)
        return run

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        run, keeper = self._run, self._keeper
        error = sorted_out(error) if error is not None else None
        if self._token is not None:
            SCOPE.reset(self._token)
        if run is None or keeper is None:
            return isinstance(error, Unwinding)
        async with keeper:
            return await self._ended(run, error)

    async def _ended(self, run: Run, error: BaseException | None) -> bool:
        if error is None:
            run.result = await ending.finish(run, run.result)
        elif isinstance(error, Unwinding):
            await ending.let_go(run, error)
            return True
        elif run.journal.held.lost is not None and not isinstance(error, CancelledError):
            raise run.journal.held.lost from None
        elif isinstance(error, Exception):
            await ending.fail_here(run, error)
        else:
            await ending.cut_off(run)
            if isinstance(error, CancelledError):
                raise error  # the keeper tells whether the loss of the lease caused it
        return False
