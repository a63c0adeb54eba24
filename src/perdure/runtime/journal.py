"""The journal of a run: what it recorded is looked up, what is new is written under its lease."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.requests import Request
from perdure.core.calls import (
    Call,
    Failure,
    Intent,
    Outcome,
    decode_failure,
    decode_intent,
    decode_outcome,
    intent_key,
    result_key,
    told,
)
from perdure.core.checkpoint import CheckpointMark
from perdure.core.entries import Entry, EntryKind, NewEntry
from perdure.core.errors import LeaseLostError
from perdure.core.identity import ThreadKey
from perdure.core.pauses import Opened, decode_opened
from perdure.core.payload import encode_body
from perdure.core.runs import decode_ended
from perdure.core.threads import NO_PATCH, ThreadPatch
from perdure.core.writes import Appended
from perdure.runtime.leases import Held, Leases
from perdure.runtime.written import Written
from perdure.storage.contract import Storage

_PAGE = 1024
_RESULTS = (EntryKind.STEP_FINISHED, EntryKind.TOOL_FINISHED)
_FAILURES = (EntryKind.STEP_FAILED, EntryKind.TOOL_FAILED)
_BREAKS = (EntryKind.RUN_FAILED, EntryKind.RUN_RESUMED)
_KINDS = (*_RESULTS, *_FAILURES, *_BREAKS, EntryKind.TOOL_STARTED, EntryKind.PAUSE_OPENED)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What the log has of a call."""

    outcome: Outcome | None = None
    failure: Failure | None = None  # the run went on after it
    intent: Intent | None = None  # a tool that was started, and nothing more
    attempt: int = 0  # the newest that was told of


NOTHING = Recorded()


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
        self._outcomes: dict[bytes, Outcome] = {}
        self._intents: dict[bytes, Intent] = {}
        self._failures: dict[bytes, Failure] = {}
        self._doubtful: dict[bytes, Failure] = {}  # failures that the code made no call after, so far
        self._newest: dict[bytes, Outcome | Failure | Intent] = {}  # what was told of a call last
        self._inside: dict[bytes, dict[bytes, Recorded]] = {}  # of steps under way: a new attempt asks for it again
        self._places: dict[tuple[bytes, int], Call] = {}  # calls that were made in sequence, by their place

    @property
    def key(self) -> ThreadKey:
        return self.held.key

    def read_from(self, version: int, head: int) -> None:
        """There may be records between these versions."""
        self._read, self.began, self.head = version, version, head

    async def find(self, call: Call) -> Recorded:
        """What is recorded of a call; the pages of the log are read in their order, and past the next one by key."""
        call_id, inside = call.id, self._inside.get(call.parent)
        found = (inside.get(call_id) if inside else None) or self._known(call_id)
        if found is None and self._read < self.head:
            await self._page()
            found = self._known(call_id)
            if found is None and self._read < self.head:
                found = await self._looked_up(call)
        if found is not None:
            self.keep(call, found)
        return found or NOTHING

    def keep(self, call: Call, found: Recorded) -> None:
        """A step that is tried again asks for what is inside it again; a failure in there is not final then."""
        if call.parent:
            self._inside.setdefault(call.parent, {})[call.id] = replace(found, failure=None)

    def forget_inside(self, call_id: bytes) -> None:
        """A call is recorded: nobody asks for what is inside it."""
        self._inside.pop(call_id, None)
        self.written.forget_inside(call_id)

    def _known(self, call_id: bytes) -> Recorded | None:
        newest = self._newest.pop(call_id, None)
        if newest is None:
            return None
        self._places.pop((newest.call.parent, newest.call.at), None)
        return Recorded(
            outcome=self._outcomes.pop(call_id, None), failure=self._failures.pop(call_id, None),
            intent=self._intents.pop(call_id, None), attempt=newest.attempt,
        )  # fmt: skip

    def expected(self, call: Call) -> Call | None:
        """The call that the log has at this place, where the code follows the log step by step."""
        other = self._places.get((call.parent, call.at)) if call.in_sequence else None
        return other if other is not None and other.run == call.run else None

    async def _page(self) -> None:
        entries = await self.storage.entries(self.key, after=self._read, limit=_PAGE, kinds=_KINDS)
        for entry in entries:
            self._note(entry)
        self._read = entries[-1].version if len(entries) == _PAGE else self.head

    def _note(self, entry: Entry) -> None:
        if entry.kind in _BREAKS:
            self._note_break(entry)
        elif entry.kind in _FAILURES:
            self._note_failure(told(self.key.id, entry, decode_failure))
        elif entry.kind in _RESULTS:
            self._note_outcome(told(self.key.id, entry, decode_outcome))
        elif entry.kind is EntryKind.PAUSE_OPENED:
            self._note_pause(told(self.key.id, entry, decode_opened))
        else:
            self._note_intent(told(self.key.id, entry, decode_intent))

    def _note_pause(self, opened: Opened) -> None:
        """Code that does not ask any more what it asked must not go past that question."""
        call = opened.call
        self._went_on(call)
        if call.in_sequence and opened.is_by_code:
            self._places[call.parent, call.at] = call

    def _note_break(self, entry: Entry) -> None:
        """The code stopped there. A failure that stopped it is not final, whatever was done about it in between."""
        self._doubtful.clear()
        ended = told(self.key.id, entry, decode_ended) if entry.kind is EntryKind.RUN_FAILED else None
        for failed in [each for each in self._failures.values() if ended and ended.is_by(each.error, each.text)]:
            del self._failures[failed.call.id]
            self._places = {at: call for at, call in self._places.items() if not failed.is_before(call)}

    def _note_failure(self, failure: Failure) -> None:
        self._went_on(failure.call)
        self._newest[failure.call.id] = failure
        self._intents.pop(failure.call.id, None)
        if not failure.again:
            self._doubtful[failure.call.id] = failure

    def _note_outcome(self, outcome: Outcome) -> None:
        call_id = outcome.call.id
        self._outcomes[call_id] = outcome
        self._intents.pop(call_id, None)
        self._place(outcome, call_id)

    def _note_intent(self, intent: Intent) -> None:
        call_id = intent.call.id
        self._intents[call_id] = intent
        self._place(intent, call_id)

    def _place(self, record: Outcome | Intent, call_id: bytes) -> None:
        call = record.call
        self._went_on(call)
        self._newest[call_id] = record
        self._failures.pop(call_id, None)
        self._doubtful.pop(call_id, None)
        if call.in_sequence:
            self._places[call.parent, call.at] = call

    def _went_on(self, call: Call) -> None:
        """A call that was made after a failure beside it: the code handled that one."""
        for failed in [each for each in self._doubtful.values() if each.is_before(call)]:
            self._failures[failed.call.id] = self._doubtful.pop(failed.call.id)

    async def _looked_up(self, call: Call) -> Recorded | None:
        entry = await self.storage.keyed(self.key, result_key(call.id))
        if entry is not None:
            outcome = told(self.key.id, entry, decode_outcome)
            return Recorded(outcome=outcome, attempt=outcome.attempt)
        if await self.storage.keyed(self.key, intent_key(call.id, 1)) is None:
            return None
        while self._read < self.head:  # what became of it has no key
            await self._page()
        return self._known(call.id)

    def entry(self, kind: EntryKind, body: object) -> NewEntry:
        """An entry of the run."""
        return self.engine.entry(kind, encode_body(body), self._actor)

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
