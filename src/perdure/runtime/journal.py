"""The journal of a run: what it recorded is looked up, what is new is written under its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.requests import Request
from perdure.core.calls import (
    Call,
    decode_failure,
    decode_intent,
    decode_outcome,
    failure_key,
    intent_key,
    result_key,
    told,
)
from perdure.core.checkpoint import CheckpointMark
from perdure.core.entries import Entry, EntryKind, NewEntry
from perdure.core.errors import LeaseLostError
from perdure.core.identity import ThreadKey
from perdure.core.pauses import decode_opened
from perdure.core.payload import encode_body
from perdure.core.runs import decode_ended
from perdure.core.threads import NO_PATCH, ThreadPatch
from perdure.core.writes import Appended
from perdure.runtime.leases import Held, Leases
from perdure.runtime.records import Recorded, Records, recorded
from perdure.runtime.written import Written
from perdure.storage.contract import Storage

_PAGE = 1024
_RESULTS = (EntryKind.STEP_FINISHED, EntryKind.TOOL_FINISHED)
_FAILURES = (EntryKind.STEP_FAILED, EntryKind.TOOL_FAILED)
_BREAKS = (EntryKind.RUN_FAILED, EntryKind.RUN_RESUMED)
_KINDS = (*_RESULTS, *_FAILURES, *_BREAKS, EntryKind.TOOL_STARTED, EntryKind.PAUSE_OPENED)


class AtWork:
    """Reads and writes of a log that are under way: what waits beside them is not to let go of the thread."""

    count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


class Journal:
    """What one run recorded, read page by page as its code asks for it."""

    def __init__(self, engine: Engine, leases: Leases, held: Held, uid: str, actor: str | None) -> None:
        self.engine = engine
        self.storage: Storage = engine.storage
        self._leases = leases
        self.held = held
        self.uid = uid
        self.state_version = 0  # as far as this run knows
        self.status = ""  # as this run wrote it last
        self.progressed = False  # since it was taken up
        self.at_work = AtWork()
        self._actor = actor
        self._read = self.head = self.began = 0
        self.written = Written(self)
        self._records = Records()
        self._paging: asyncio.Event | None = None  # while a page is read

    @property
    def key(self) -> ThreadKey:
        return self.held.key

    def read_from(self, version: int, head: int) -> None:
        """There may be records between these versions."""
        self._read, self.began, self.head = version, version, head

    def at_hand(self, call: Call) -> Recorded | None:
        """What is recorded of a call, as far as the log was read and nothing after it can change it."""
        return self._records.take(call, whole=self._read >= self.head)

    async def find(self, call: Call) -> Recorded | None:
        """What is recorded of a call; the log is read page by page in its order, and past the next one by key."""
        found = self.at_hand(call)
        if found is None and self._read < self.head:
            await self._page()
            found = self.at_hand(call)
            if found is None and self._read < self.head:
                found = await self._looked_up(call)
        return found

    def keep(self, call: Call, found: Recorded) -> None:
        """A step that is tried again asks for what is inside it again."""
        self._records.keep(call, found)

    def forget_inside(self, call_id: bytes) -> None:
        """A call is recorded: nobody asks for what is inside it."""
        self._records.forget_inside(call_id)
        self.written.forget_inside(call_id)

    def expected(self, call: Call) -> Call | None:
        """The call that the log has at this place, where the code follows the log step by step."""
        return self._records.expected(call)

    async def _page(self) -> None:
        """Read the next page. Of many calls that are made at once one does it, and the others wait for it."""
        if self._paging is not None:
            await self._paging.wait()
            return
        self._paging = asyncio.Event()
        try:
            entries = await self.storage.entries(self.key, after=self._read, limit=_PAGE, kinds=_KINDS)
            for entry in entries:
                self._note(entry)
            self._read = entries[-1].version if len(entries) == _PAGE else self.head
        finally:
            self._paging.set()
            self._paging = None

    def _note(self, entry: Entry) -> None:
        thread_id, records = self.key.id, self._records
        if entry.kind in _RESULTS:
            records.note(told(thread_id, entry, decode_outcome))
        elif entry.kind in _BREAKS:
            ended = told(thread_id, entry, decode_ended) if entry.kind is EntryKind.RUN_FAILED else None
            records.note_break(ended)
        elif entry.kind in _FAILURES:
            records.note_failure(told(thread_id, entry, decode_failure))
        elif entry.kind is EntryKind.PAUSE_OPENED:
            records.note_pause(told(thread_id, entry, decode_opened))
        else:
            records.note(told(thread_id, entry, decode_intent))

    async def _looked_up(self, call: Call) -> Recorded | None:
        entry = await self.storage.keyed(self.key, result_key(call.id))
        if entry is not None:
            return self._records.kept(call, recorded(told(self.key.id, entry, decode_outcome)))
        begun = self._records.knows(call)
        for key in () if begun else (intent_key(call.id, 1), failure_key(call.id, 1)):
            begun = begun or await self.storage.keyed(self.key, key) is not None
        while begun and self._read < self.head:  # only the rest of the log tells what became of it
            await self._page()
        return self.at_hand(call) if begun else None

    def entry(self, kind: EntryKind, body: object) -> NewEntry:
        """An entry of the run."""
        return self.engine.record(kind, encode_body(body), self._actor)

    async def write(
        self,
        entries: Sequence[NewEntry],
        *,
        key: str | None = None,
        patch: ThreadPatch = NO_PATCH,
        mark: CheckpointMark | None = None,
        after_run: int | None = None,
    ) -> Appended:
        """Add entries under the lease, which is renewed by the way; raise `LeaseLostError` when it is another's."""
        request = self.request(key, patch, mark, after_run)
        try:
            with self.at_work:
                done = await self.engine.speak(self.key, entries, request)
        except LeaseLostError as exc:
            self.held.lost = exc
            raise
        self.state_version = done.row.state_version
        self.status = patch.status or self.status
        self.progressed = self.progressed or any(entry.kind in _RESULTS for entry in entries)
        return done

    def request(
        self,
        key: str | None = None,
        patch: ThreadPatch = NO_PATCH,
        mark: CheckpointMark | None = None,
        after_run: int | None = None,
    ) -> Request:
        """The circumstances of a write of this run."""
        if self.held.lost is not None:
            raise self.held.lost
        return Request(
            mark=mark, key=key, actor=self._actor, patch=patch, uid=self.uid, epoch=self.held.epoch,
            renew_until=self._leases.by_the_way(self.held), after_run=after_run,
        )  # fmt: skip
