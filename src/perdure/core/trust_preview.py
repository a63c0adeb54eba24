"""What trusting a thread would set going, read from its log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import MAXYEAR, datetime
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.calls import (
    decode_failure,
    decode_intent,
    decode_outcome,
    failure_key,
    intent_key,
    result_key,
    shown,
    told,
)
from perdure.core.codec import decode_known
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import EntryDamagedError
from perdure.core.pauses import (
    Opened,
    approved_key,
    decided_key,
    decode_decided,
    decode_opened,
    opened_key,
    parts_of,
    pause_id,
)
from perdure.core.printable import printable
from perdure.core.runs import Started, decode_ended, decode_resumed, decode_started, end_key, input_key
from perdure.core.threads import ThreadRow
from perdure.core.times import MAX_MICROS, to_datetime

_STARTS = ("r.", "n.")  # what the keys of runs begin with (`run_key`, `next_key`)
_ENDS = (EntryKind.RUN_FINISHED, EntryKind.RUN_CANCELLED)
KINDS = (
    *(EntryKind.RUN_STARTED, EntryKind.RUN_RESUMED, *_ENDS),
    *(EntryKind.TOOL_STARTED, EntryKind.TOOL_FINISHED, EntryKind.TOOL_FAILED),
    *(EntryKind.PAUSE_OPENED, EntryKind.PAUSE_APPROVED, EntryKind.PAUSE_DECIDED),
)


class ToolToVerify(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was started and has no result: nobody knows whether it ran."""

    name: str
    args: Any
    key: str  # its idempotency key
    version: int


class RunToContinue(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is not over."""

    run: str
    agent: str | None  # the handler; None for a block of code, which goes on when it is entered again
    key: str | None
    input: Any
    version: int  # of its first entry
    unverified: list[ToolToVerify] = []


class RecordedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision of the log. It counts once the thread is trusted."""

    pause: str
    name: str
    ask: str
    approved: bool
    by: str | None  # as the log says; None when a deadline decided
    args: Any  # with which what was asked about is done
    answer: Any
    at: datetime  # as the log says
    version: int


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the log that nobody decided."""

    pause: str
    name: str
    ask: str
    args: Any
    deadline: datetime | None
    version: int


class TrustPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on, and what counts, once a thread is trusted. `str()` of it is for people."""

    thread: str
    user: Any
    version: int  # of its newest entry: what is trusted is the thread up to here
    quarantined_at: datetime | None  # None: it is trusted
    origin: str | None  # SHA-256 of the file it came from
    origin_version: int  # its head in that file
    status: str
    agent: str | None
    wake_at: datetime | None  # the timer: a worker looks at it then, at once if that is past
    runs: list[RunToContinue] = []
    decisions: list[RecordedDecision] = []
    pauses: list[OpenQuestion] = []

    @property
    def is_quarantined(self) -> bool:
        """Whether it is not trusted yet."""
        return self.quarantined_at is not None

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def preview(row: ThreadRow, user: Any, entries: Iterable[Entry], headers: Iterable[Entry] = ()) -> TrustPreview:
    """Read it from all entries of the kinds `KINDS`; raise `EntryDamagedError` for one that cannot be read.

    A run finds entries by their keys, people read what they say: a file whose keys say something else than its entries
    would show one decision and follow another. The runtime never writes such a log, so nobody can trust it.
    """
    found = _Reader(row)
    for entry in entries:
        if entry.payload:  # one that was pruned says nothing, to a run neither
            found.read(entry)
    for header in headers:
        found.check_header(header)
    return TrustPreview(
        thread=row.key.id, user=user, version=row.head, quarantined_at=_time(row.quarantined_at), origin=row.origin,
        origin_version=row.origin_version, status=row.status, agent=row.agent, wake_at=_time(row.wake_at),
        runs=found.runs(), decisions=found.decisions, pauses=found.open_questions(),
    )  # fmt: skip


class _Reader:
    """What was read so far."""

    def __init__(self, row: ThreadRow) -> None:
        self._row = row
        self._thread = row.key.id
        self._runs: dict[str, tuple[int, Started]] = {}
        self._tools: dict[bytes, tuple[str, ToolToVerify]] = {}  # with the run they belong to
        self._asked: dict[str, tuple[int, Opened]] = {}
        self._all_asked: dict[str, Opened] = {}
        self._approvals: dict[str, int] = {}  # of questions that take several
        self._over: set[str] = set()
        self._inputs: dict[str, list[Raw]] = {}  # that a run was given anew, of all runs
        self.decisions: list[RecordedDecision] = []

    def read(self, entry: Entry) -> None:
        """Go on with the next entry."""
        kind = entry.kind
        if kind is EntryKind.RUN_STARTED:
            started = told(self._thread, entry, decode_started)
            if started.run in self._inputs:
                raise self._forged(entry, "starts a run that was started before")
            if entry.key is not None and not entry.key.startswith(_STARTS):
                self._check_key(entry, None)
            self._runs[started.run], self._inputs[started.run] = (entry.version, started), []
        elif kind is EntryKind.RUN_RESUMED:
            self._read_resumed(entry)
        elif kind in _ENDS:
            run = told(self._thread, entry, decode_ended).run
            self._check_key(entry, end_key(run))
            self._runs.pop(run, None)
            self._over.add(run)
        elif kind is EntryKind.TOOL_STARTED:
            self._read_intent(entry)
        elif kind is EntryKind.TOOL_FINISHED:
            call = told(self._thread, entry, decode_outcome).call
            self._check_key(entry, result_key(call.id))
            self._tools.pop(call.id, None)
        elif kind is EntryKind.TOOL_FAILED:
            failure = told(self._thread, entry, decode_failure)
            self._check_key(entry, failure_key(failure.call.id, failure.attempt))
            self._tools.pop(failure.call.id, None)
        elif kind is EntryKind.PAUSE_OPENED:
            opened = told(self._thread, entry, decode_opened)
            self._check_key(entry, opened_key(shown(opened.call.id)))
            place = _place(opened.pause)
            if place in self._all_asked or place != shown(opened.call.id):
                raise self._forged(entry, "asks a question in the place of another one")
            self._asked[place], self._all_asked[place] = (entry.version, opened), opened
        elif kind in (EntryKind.PAUSE_APPROVED, EntryKind.PAUSE_DECIDED):
            self._read_decision(entry)

    def check_header(self, header: Entry) -> None:
        """Refuse an entry of another kind under a key by which a run looks for one of these."""
        key = header.key
        if key is None or header.kind in KINDS:
            return
        kind, _, rest = key.partition(".")
        calls = self._all_asked.keys()
        run = rest if kind == "e" else rest.rpartition(".")[0]
        asked = (kind in ("p", "d") and rest in calls) or (kind == "a" and rest.rpartition(".")[0] in calls)
        if asked or (kind in ("e", "i") and run in self._inputs):
            raise self._forged(header, "stands where a run looks for something else")

    def _read_resumed(self, entry: Entry) -> None:
        resumed = told(self._thread, entry, decode_resumed)
        given = self._inputs.get(resumed.run)
        if given is None:
            raise self._forged(entry, "resumes a run that was not started")
        self._check_key(entry, input_key(resumed.run, len(given) + 1) if resumed.anew else None)
        if resumed.anew:
            given.append(resumed.input)

    def _check_key(self, entry: Entry, key: str | None) -> None:
        if entry.key != key:
            raise self._forged(entry, f"stands under the key {entry.key!r}, where a run looks for something else")

    def _forged(self, entry: Entry, why: str) -> EntryDamagedError:
        return EntryDamagedError(self._thread, entry.version, f"{why}: no run wrote this, and nobody can trust it")

    def runs(self) -> list[RunToContinue]:
        """The runs that are not over, oldest first."""
        return [
            RunToContinue(
                run=run, agent=started.name, key=started.key,
                input=decode_known(bytes([started.input, *self._inputs[run]][-1])),
                version=version, unverified=[tool for of, tool in self._tools.values() if of == run],
            )
            for run, (version, started) in self._runs.items()
        ]  # fmt: skip

    def open_questions(self) -> list[OpenQuestion]:
        """The questions without a decision, oldest first; those of runs that are over are asked no more."""
        return [
            OpenQuestion(
                pause=self._id_here(version, opened), name=opened.name, ask=opened.ask,
                args=decode_known(bytes(opened.args)), deadline=_time(opened.deadline or None), version=version,
            )
            for version, opened in self._asked.values()
            if opened.call.run not in self._over
        ]  # fmt: skip

    def _id_here(self, version: int, opened: Opened) -> str:
        own = version > self._row.parent_version
        return pause_id(self._row.uid, shown(opened.call.id)) if own else opened.pause

    def _read_intent(self, entry: Entry) -> None:
        intent = told(self._thread, entry, decode_intent)
        self._check_key(entry, intent_key(intent.call.id, intent.attempt))
        self._tools[intent.call.id] = intent.call.run, ToolToVerify(
            name=intent.call.name, args=decode_known(bytes(intent.arguments)), key=shown(intent.call.id),
            version=entry.version,
        )  # fmt: skip

    def _read_decision(self, entry: Entry) -> None:
        decided = told(self._thread, entry, decode_decided)
        place = _place(decided.pause)
        if entry.kind is EntryKind.PAUSE_APPROVED:
            nth = self._approvals[place] = self._approvals.get(place, 0) + 1
            self._check_key(entry, approved_key(place, nth))
        else:
            self._check_key(entry, decided_key(place))
            self._asked.pop(place, None)
        opened = self._all_asked.get(place)
        args = decided.args if opened is None else decided.args_of(opened)
        self.decisions.append(
            RecordedDecision(
                pause=decided.pause, name=opened.name if opened else "", ask=opened.ask if opened else "",
                approved=decided.approved, by=decided.by, args=decode_known(bytes(args)),
                answer=decode_known(bytes(decided.answer)), at=to_datetime(entry.micros), version=entry.version,
            )
        )  # fmt: skip


def _place(pause: str) -> str:
    """The call that a pause is about."""
    parts = parts_of(pause)
    return parts[1] if parts else ""


def _time(micros: int | None) -> datetime | None:
    """A time of a row that somebody else may have written; one beyond the calendar is its end."""
    return None if micros is None else to_datetime(min(max(micros, 0), MAX_MICROS))


def _lines(found: TrustPreview) -> list[str]:
    whose = f" of {found.user}" if found.user is not None else ""
    lines = [f"thread {found.thread}{whose}, version {found.version}: {_standing(found)}"]
    lines += [f"  status {found.status}, agent {found.agent or 'none'}, {_timer(found)}"]
    for run in found.runs:
        what = f"of {run.agent}" if run.agent else "of a block of code"
        lines.append(f"  would go on: run {run.run} {what}, with input {run.input!r} (version {run.version})")
        lines += [f"    unverified: {tool.name}({tool.args!r}), key {tool.key}" for tool in run.unverified]
    lines += [f"  would count: {_decision(each)}" for each in found.decisions]
    lines += [f"  would be asked: {each.pause} {each.name}: {each.ask!r} with {each.args!r}" for each in found.pauses]
    if not (found.runs or found.decisions or found.pauses):
        lines.append("  nothing would go on: no run is unfinished, nothing was decided, nothing is asked")
    # Each of them is one line of ours: a line break in a stored text must not begin another.
    return [printable(line) for line in lines]


def _standing(found: TrustPreview) -> str:
    if found.quarantined_at is None:
        return "trusted"
    since = found.quarantined_at.strftime("%Y-%m-%d %H:%M:%SZ")
    if found.origin is None:
        return f"quarantined since {since}, when a backup was restored"
    return f"quarantined since {since}, from file {found.origin} up to version {found.origin_version}"


def _timer(found: TrustPreview) -> str:
    at = found.wake_at
    if at is None or at.year == MAXYEAR:  # a question that nobody was told of has a timer in that year
        return "no timer"
    return f"due at {at.strftime('%Y-%m-%d %H:%M:%SZ')}"


def _decision(each: RecordedDecision) -> str:
    word = "approved" if each.approved else "denied"
    by = each.by or "a deadline"
    answer = "" if each.answer is None else f", answer {each.answer!r}"
    return f"{each.name} {each.pause} {word} by {by}: {each.ask!r} with {each.args!r}{answer} (version {each.version})"
