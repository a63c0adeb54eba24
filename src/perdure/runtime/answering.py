"""Pauses from outside a run: which are open, and what somebody decided."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from perdure.checkpoints.requests import Request
from perdure.core.calls import told
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, KeyReusedError, NotFoundError, PauseClosedError, VersionConflictError
from perdure.core.pauses import (
    Decided,
    Opened,
    decided_key,
    decode_decided,
    decode_opened,
    opened_key,
    parts_of,
)
from perdure.core.payload import encode_body
from perdure.core.runs import PAUSED, WAKING, end_key
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.times import to_datetime
from perdure.runtime.decisions import Decision, Pause, decision_of, pause_of
from perdure.runtime.runtime import Runtime

_KINDS = (EntryKind.PAUSE_OPENED, EntryKind.PAUSE_DECIDED)


class Answers:
    """Lists questions and keeps answers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._storage = runtime.storage

    async def open(self, namespace: str, user: str | None, shown: Any, limit: int) -> list[Pause]:
        """The questions that wait, of the threads that changed last first."""
        query = ThreadQuery(namespace=namespace, user=user, status=PAUSED, limit=limit)
        rows = await self._storage.threads(query)
        return [pause for row in rows for pause in await self.of(row, shown(row.key.user))][:limit]

    async def of(self, row: ThreadRow, user: Any) -> list[Pause]:
        """The open questions of the newest run of a thread."""
        entries = await self._storage.entries(row.key, after=max(row.run - 1, 0), kinds=_KINDS)
        opened = {}
        for entry in entries:
            if entry.kind is EntryKind.PAUSE_OPENED:
                asked = told(row.key.id, entry, decode_opened)
                opened[asked.pause] = pause_of(row.key.id, user, entry, asked)
            else:
                opened.pop(told(row.key.id, entry, decode_decided).pause, None)
        return list(opened.values())

    async def decide(
        self, namespace: str, pause: str, *, approved: bool, by: str | None, args: Any, answer: Any, version: int | None
    ) -> tuple[ThreadRow, Decision]:
        """Keep a decision, and wake whoever goes on with the run.

        Raises `NotFoundError`, `PauseClosedError` naming the first decision, `VersionConflictError` when the caller
        saw another question than the one that stands.
        """
        row, place, opened, asked_at = await self._found(namespace, pause)
        if version is not None and version != asked_at:
            raise VersionConflictError(row.key.id, version, asked_at)
        await self._refuse_over(row, place, opened)
        kept = Raw(encode(args, root="args"))
        decided = Decided(pause, approved, by, args is not None, kept, Raw(encode(answer, root="answer")))
        entry = self._runtime.engine.entry(EntryKind.PAUSE_DECIDED, encode_body(decided), by)
        request = Request(key=decided_key(place), actor=by, uid=row.uid, patch=self._woken(row))
        try:
            done = await self._runtime.engine.speak(row.key, [entry], request)
        except KeyReusedError:
            raise await self._closed(row, place, opened) from None
        if done.again:
            raise await self._closed(row, place, opened)
        return done.row, decision_of(opened, done.row.updated, decided)

    async def _refuse_over(self, row: ThreadRow, place: str, opened: Opened) -> None:
        """A question of a run that is over cannot be answered any more."""
        end = await self._storage.keyed(row.key, end_key(opened.call.run))
        if end is None:
            return
        if await self._storage.keyed(row.key, decided_key(place)) is not None:
            raise await self._closed(row, place, opened)
        raise PauseClosedError(opened.pause, "the end of its run", False, to_datetime(end.micros).isoformat())

    def _woken(self, row: ThreadRow) -> ThreadPatch:
        """A run of a handler is due at once; the code of a block comes back when it comes back."""
        due = row.agent is not None and row.status in WAKING
        return ThreadPatch(wake_at=self._runtime.clock.now()) if due else ThreadPatch()

    async def _found(self, namespace: str, pause: str) -> tuple[ThreadRow, str, Opened, int]:
        parts = parts_of(pause) if isinstance(pause, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if parts is None:
            raise InvalidInputError(f"{pause!r} is not the id of a pause; store.pauses() lists them")
        row = await self._storage.line(parts[0])
        entry = await self._storage.keyed(row.key, opened_key(parts[1])) if row else None
        if row is None or entry is None or row.key.namespace != namespace:
            raise NotFoundError(f"pause {pause}", "store.pauses() lists those that are open")
        return row, parts[1], told(row.key.id, entry, decode_opened), entry.version

    async def _closed(self, row: ThreadRow, place: str, opened: Opened) -> PauseClosedError:
        entry = await self._storage.keyed(row.key, decided_key(place))
        if entry is None:
            return PauseClosedError(opened.pause, None, False, "an unknown time")
        first = decision_of(opened, entry.micros, told(row.key.id, entry, decode_decided))
        return PauseClosedError(opened.pause, first.by, first.approved, to_datetime(entry.micros).isoformat())
