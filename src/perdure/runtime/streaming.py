"""Steps that give their result piece by piece: what came is recorded as it comes, with its offset."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.core.calls import Call, Outcome, args_digest, result_key, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.identity import ThreadKey, check_id
from perdure.runtime.calling import Asked
from perdure.runtime.scope import Scope
from perdure.storage.contract import Storage

if TYPE_CHECKING:
    from perdure.runtime.run import Run

_BATCH = 16  # items of one entry, at most
_MOMENT = 200_000  # microseconds after which items are recorded even if they are few


class Streamed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `step.streamed`."""

    call: Call
    attempt: int
    offset: int  # how many items of this attempt came before
    items: list[Raw]


decode_streamed = msgspec.msgpack.Decoder(Streamed).decode


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Items of a stream, as somebody outside reads them.

    A new `attempt` begins at offset 0: what a reader has of the one before was given by a process that died.
    """

    name: str
    run: str
    attempt: int
    offset: int
    items: list[Any]
    version: int  # where to read on from


async def stream(run: Run, asked: Asked) -> AsyncIterator[Any]:
    """The items of a stream: as they come, or from the log once it came to its end."""
    scope = run.scope
    call = scope.call(check_id(asked.name, "the name of a step"), args_digest(asked.args, asked.named))
    try:
        found = await run.find(call, scope)
        if found.outcome is not None:
            for item in await _recorded(run, call, found.outcome.attempt):
                yield item
            return
        async for item in _Recording(run, scope, call, await _attempt(run, call)).of(asked):
            yield item
    finally:
        scope.settle()


async def came_to_its_end(run: Run, name: str) -> bool:
    """Whether the log has the whole of a stream that is made here and has no arguments."""
    if not run.resumed:
        return False
    call = Call(run.calls_as, run.scope.call_id, name, args_digest((), {}), 0, 0, 0)
    return await run.keyed(result_key(call.id)) is not None  # not by `find`, which gives a record once


class _Recording:
    """A stream that is under way."""

    def __init__(self, run: Run, scope: Scope, call: Call, attempt: int) -> None:
        self._run = run
        self._scope = Scope(run, call.id, scope)
        self._call = call
        self._attempt = attempt
        self._offset = 0
        self._items: list[Raw] = []
        self._since = run.runtime.clock.now()

    async def of(self, asked: Asked) -> AsyncIterator[Any]:
        self._run.under_way.add(self._scope)
        try:
            async for item in _iterated(asked.fn(*asked.args, **asked.named)):
                encoded = encode_result(item, subclasses=self._run.journal.engine.subclasses)
                self._items.append(Raw(encoded))
                if len(self._items) >= _BATCH or self._run.runtime.clock.now() - self._since > _MOMENT:
                    await self._flush()
                yield decode(encoded)
            await self._finish()
        finally:
            self._run.under_way.discard(self._scope)

    async def _flush(self) -> None:
        if self._items:
            body = Streamed(self._call, self._attempt, self._offset, self._items)
            await self._run.journal.write([self._run.journal.entry(EntryKind.STEP_STREAMED, body)])
        self._offset += len(self._items)
        self._items, self._since = [], self._run.runtime.clock.now()

    async def _finish(self) -> None:
        await self._flush()
        outcome = Outcome(self._call, Raw(encode_result(self._offset)), self._attempt)
        entry = self._run.journal.entry(EntryKind.STEP_FINISHED, outcome)
        await self._run.journal.write([entry], key=result_key(self._call.id))


async def _iterated(made: Any) -> AsyncIterator[Any]:
    if hasattr(made, "__aiter__"):
        async for item in made:
            yield item
    else:
        for item in made:
            yield item


async def _attempt(run: Run, call: Call) -> int:
    """Which attempt this is, by what earlier ones left in the log."""
    if not run.resumed:
        return 1
    made = [each.attempt for each in await _all(run.journal.storage, run.journal.key, run.current.version)
            if each.call.id == call.id]  # fmt: skip
    return max(made, default=0) + 1


async def _recorded(run: Run, call: Call, attempt: int) -> list[Any]:
    streamed = await _all(run.journal.storage, run.journal.key, run.current.version)
    own = [each for each in streamed if each.call.id == call.id and each.attempt == attempt]
    return [decode(bytes(item)) for each in own for item in each.items]


async def _all(storage: Storage, key: ThreadKey, after: int) -> list[Streamed]:
    entries = await storage.entries(key, after=after, kinds=(EntryKind.STEP_STREAMED,))
    return [told(key.id, entry, decode_streamed) for entry in entries]


async def chunks(storage: Storage, key: ThreadKey, after: int) -> list[Chunk]:
    """What streams of a thread gave after a version."""
    entries = await storage.entries(key, after=after, kinds=(EntryKind.STEP_STREAMED,))
    return [_chunk(entry.version, told(key.id, entry, decode_streamed)) for entry in entries]


def _chunk(version: int, streamed: Streamed) -> Chunk:
    items = [decode(bytes(item)) for item in streamed.items]
    return Chunk(
        name=streamed.call.name, run=streamed.call.run, attempt=streamed.attempt, offset=streamed.offset, items=items,
        version=version,
    )  # fmt: skip
