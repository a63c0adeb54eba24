"""Taking turns: a run that holds its thread keeps every other one waiting, or refused, until it is over."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

import msgspec

from perdure.adapters.langgraph.keeper import Keeper
from perdure.adapters.langgraph.places import KIND, Place
from perdure.adapters.langgraph.sides import Sides
from perdure.checkpoints.requests import Request
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import LeaseLostError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadPatch
from perdure.runtime.keeping import Keeper as Renewing
from perdure.runtime.leases import Held

_HELD: ContextVar[dict[ThreadKey, Held]] = ContextVar("perdure_langgraph_turns")


def fenced(key: ThreadKey, request: Request) -> Request:
    """The request of a put, fenced by the turn that it is made in."""
    held = _HELD.get({}).get(key)
    if held is None:
        return request
    if held.lost is not None:
        raise LeaseLostError(key.id, held.epoch, held.epoch + 1)
    return msgspec.structs.replace(request, epoch=held.epoch)


class Turn:
    """One turn on a thread: `with` for synchronous code, `async with` for asynchronous."""

    def __init__(self, sides: Sides[Keeper], thread: str, wait: float) -> None:
        self._sides = sides
        self._thread = thread
        self._wait = wait
        self._held: Held | None = None
        self._renewing: Renewing | None = None
        self._token: Token[dict[ThreadKey, Held]] | None = None

    async def _take(self, keeper: Keeper) -> None:
        await keeper.parts.ready()
        key, runtime = keeper.key(Place(self._thread)), keeper.parts.running.runtime
        try:
            self._held = await runtime.leases.claim(key, self._wait)
        except NotFoundError:
            await _made(keeper, key)
            self._held = await runtime.leases.claim(key, self._wait)
        self._renewing = runtime.keep(self._held)

    async def _give_back(self, keeper: Keeper, error: BaseException | None = None) -> None:
        """Release the lease; the end of the renewals turns a cancellation that its loss caused into that loss."""
        if self._renewing is None or self._held is None:
            return
        try:
            await keeper.parts.running.runtime.leases.release(self._held)
        finally:
            await self._renewing.__aexit__(type(error) if error else None, error, None)

    def _enter(self) -> None:
        if self._held is not None:
            self._token = _HELD.set({**_HELD.get({}), self._held.key: self._held})

    def _leave(self) -> None:
        if self._token is not None:
            _HELD.reset(self._token)

    def __enter__(self) -> Turn:
        self._sides.run(self._take)
        self._enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._leave()
        self._sides.run(self._give_back)

    async def __aenter__(self) -> Turn:
        await self._sides.arun(self._take)
        self._enter()
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._leave()
        await self._sides.arun(lambda keeper: self._give_back(keeper, error))


async def _made(keeper: Keeper, key: ThreadKey) -> None:
    """A thread that nobody put anything into yet."""
    entry = keeper.parts.engine.entry(EntryKind.THREAD_CHANGED, encode({"agent": KIND}), None)
    await keeper.parts.engine.speak(key, [entry], Request(patch=ThreadPatch(agent=KIND)))
