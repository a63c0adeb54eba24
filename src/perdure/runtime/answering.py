"""Pauses from outside a run: which are open, and what somebody decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from perdure.checkpoints.requests import Request
from perdure.core.allowances import Allowed, check_arguments
from perdure.core.answers import plain, problem
from perdure.core.approvers import Approver
from perdure.core.calls import shown, told
from perdure.core.codec import encode
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.errors import (
    InvalidAnswerError,
    InvalidInputError,
    KeyReusedError,
    NotAllowedError,
    NotFoundError,
    PauseClosedError,
    VersionConflictError,
)
from perdure.core.json_schema import mismatch
from perdure.core.pauses import (
    Decided,
    Opened,
    approved_key,
    check_another,
    decided_key,
    decode_decided,
    decode_opened,
    opened_key,
    parts_of,
)
from perdure.core.payload import encode_body
from perdure.core.quarantine import check_run
from perdure.core.runs import DECIDED, PAUSED, RUNNING, WAKING, end_key
from perdure.core.threads import NO_PATCH, ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.times import to_datetime
from perdure.core.writes import Appended
from perdure.runtime.decisions import Decision, Pause, decision_of, pause_of
from perdure.runtime.questions import open_questions
from perdure.runtime.runtime import Runtime

Scope = Literal["call", "run"]
_ASKING = (PAUSED, DECIDED)  # one of several questions may be decided, and the others wait


class View(NamedTuple):
    """Which pauses a caller can see; the others look absent."""

    namespace: str
    owner: str | None = None  # of their threads; None for anybody
    approver: Approver | None = None  # they are addressed to; None for whomever
    advice: str = "store.pauses() lists those that are open"

    def shows(self, row: ThreadRow, people: tuple[str, ...]) -> bool:
        """Whether a question of a thread that these people may answer is one of them."""
        if self.approver is not None and row.is_quarantined:
            return False
        mine = row.key.namespace == self.namespace and self.owner in (None, row.key.user)
        return mine and (self.approver is None or self.approver.may(people))


class Answer(NamedTuple):
    """What somebody decides."""

    pause: str
    approved: bool
    by: Approver
    args: Any = None
    answer: Any = None
    version: int | None = None  # of the question as they saw it
    scope: Scope = "call"  # "run": the tool is not asked about again in this run


class Answers:
    """Lists questions and keeps answers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._storage = runtime.storage

    async def open(self, view: View, shown: Any, limit: int) -> list[Pause]:
        """The questions that wait, of the threads that changed last first."""
        pages = [ThreadQuery(namespace=view.namespace, user=view.owner, status=each, limit=limit) for each in _ASKING]
        found: list[tuple[ThreadRow, Pause]] = []
        while pages:
            page = pages.pop()
            rows = await self._storage.threads(page)
            asked: list[tuple[ThreadRow, Pause]] = []
            for row in rows:
                with self._runtime.engine.damage_log.skip(row):
                    asked += [(row, pause) for pause in await self.of(row, shown(row.key.user), view)]
            found += asked
            # Of those that a limit let through, some may be addressed to others: look further.
            if len(asked) < limit <= len(rows):
                pages.append(replace(page, before=(rows[-1].updated, rows[-1].uid)))
        found.sort(key=lambda each: (each[0].updated, each[0].uid), reverse=True)
        return [pause for _, pause in found[:limit]]

    async def of(self, row: ThreadRow, user: Any, view: View | None = None) -> list[Pause]:
        """The open questions of the newest run of a thread."""
        asked = await open_questions(self._storage, row)
        now = self._runtime.clock.now()
        found = [each for each in asked if view is None or view.shows(row, each.people(now))]
        is_owners = view is None or view.approver is None  # an approver does not see whom the owner tells
        return [
            pause_of(
                row.key.id, user, each.entry, each.opened, id=each.id_in(row), approved=each.approved, now=now,
                untold=each.untold if is_owners else (), quarantined=row.is_quarantined,
            )
            for each in found
        ]  # fmt: skip

    async def asked(self, view: View, pause: str, shown: Any) -> Pause:
        """A question that is open; raise `NotFoundError`, `PauseClosedError`."""
        row, place, opened, at, _ = await self._found(view, pause)
        check_run(row)
        await self._refuse_closed(row, place, opened)
        found = await self.of(row, shown(row.key.user), view)
        return next(each for each in found if each.id == pause and each.version == at)

    async def standing(self, view: View, pause: str, by: Approver) -> int:
        """The version of an open question that somebody may decide about."""
        row, place, opened, at, asked_at = await self._found(view, pause)
        check_run(row)
        await self._refuse_closed(row, place, opened)
        people = opened.people(self._runtime.clock.now() - asked_at)
        if not by.may(people):
            raise NotAllowedError(pause, by.name, people)
        return at

    async def _refuse_closed(self, row: ThreadRow, place: str, opened: Opened) -> None:
        await self._refuse_over(row, place, opened)
        if opened.is_expired(self._runtime.clock.now()):
            await self.expire(row, opened)
        if await self._storage.keyed(row.key, decided_key(place)) is not None:
            raise await self._closed(row, place, opened)

    async def decide(self, view: View, answer: Answer) -> Decision:
        """Keep a decision, and wake whoever goes on with the run.

        Raises `NotFoundError`, `PauseClosedError` naming the first decision or the deadline, `NotAllowedError`,
        `InvalidAnswerError`, `VersionConflictError` when the caller saw another question than the one that stands, and
        `QuarantinedError` for a question of a thread that nobody has trusted.
        """
        row, place, opened, asked_at, asked_micros = await self._found(view, answer.pause)
        check_run(row)
        if answer.version is not None and answer.version != asked_at:
            told = f"pause {answer.pause} is version {asked_at}, you saw {answer.version}; look at it again and decide"
            raise VersionConflictError(row.key.id, answer.version, asked_at, told)
        await self._refuse_over(row, place, opened)
        if opened.is_expired(self._runtime.clock.now()):
            await self.expire(row, opened)
            raise await self._closed(row, place, opened)
        decided = _checked(opened, answer, opened.people(self._runtime.clock.now() - asked_micros))
        for_run = self._for_run(row, opened, answer) if answer.scope == "run" and answer.approved else None
        before = await self._agreed(row, place, opened, decided)
        missing = opened.approvals - len(before) - 1 if decided.approved else 0
        if missing > 0:
            return await self._approved(row, place, opened, decided, len(before) + 1, missing, view, answer)
        if before:
            decided = replace(decided, approvers=(*(each.by or "" for each in before), answer.by.name))
        entry = self._runtime.engine.entry(EntryKind.PAUSE_DECIDED, encode_body(decided), answer.by.name)
        done = await self._kept(row, decided_key(place), entry, self._woken(row, self._runtime.clock.now()))
        if done is None:
            raise await self._closed(row, place, opened)
        if for_run is not None:  # after the decision: without it the tool is asked about once more
            await self._runtime.allowances.make(row.key.namespace, for_run)
        return decision_of(opened, done.row.updated, decided)

    def _for_run(self, row: ThreadRow, opened: Opened, answer: Answer) -> Allowed:
        """The allowance that an approval for the rest of a run makes: of the same tool, with the same schema."""
        if opened.call.name != f"approval {opened.name}":
            raise InvalidInputError('scope="run" is for tools: other questions are asked once anyway')
        if opened.approvals > 1:
            raise InvalidInputError(f"pause {opened.pause} takes {opened.approvals} approvals, each for one call")
        return Allowed(
            f"alw_{shown(opened.call.id)}", opened.name, answer.by.name, answer.by.groups, Raw(check_arguments(None)),
            opened.shape or opened.schema, user=row.key.user, run=opened.call.run,
        )  # fmt: skip

    async def _agreed(self, row: ThreadRow, place: str, opened: Opened, decided: Decided) -> list[Decided]:
        """The approvals that stand before the one that decides; raise where this one does not go with them."""
        found = list[Decided]()
        for nth in range(1, opened.approvals):
            entry = await self._storage.keyed(row.key, approved_key(place, nth))
            if entry is None:
                break
            found.append(told(row.key.id, entry, decode_decided))
        check_another(opened, found, decided)
        return found

    async def _approved(
        self, row: ThreadRow, place: str, opened: Opened, decided: Decided, nth: int, missing: int, view: View,
        answer: Answer,
    ) -> Decision:  # fmt: skip
        """Keep one of several approvals; the run waits for the others."""
        if await self._storage.keyed(row.key, decided_key(place)) is not None:
            raise await self._closed(row, place, opened)
        entry = self._runtime.engine.entry(EntryKind.PAUSE_APPROVED, encode_body(decided), answer.by.name)
        done = await self._kept(row, approved_key(place, nth), entry, NO_PATCH)
        if done is None:  # another one took this turn at the same moment
            return await self.decide(view, answer)
        return replace(decision_of(opened, done.row.updated, decided), missing=missing)

    async def expire(self, row: ThreadRow, opened: Opened) -> None:
        """Nobody answered in time: it is denied, since the deadline."""
        body = encode_body(Decided(opened.pause, False, expired=True))
        entry = self._runtime.engine.entry(EntryKind.PAUSE_DECIDED, body, None)
        await self._kept(row, decided_key(shown(opened.call.id)), entry, self._woken(row, opened.deadline))

    async def _kept(self, row: ThreadRow, key: str, entry: NewEntry, patch: ThreadPatch) -> Appended | None:
        """Write a decision; None when there is one already."""
        request = Request(key=key, actor=entry.actor, uid=row.uid, patch=patch)
        try:
            done = await self._runtime.engine.speak(row.key, [entry], request)
        except KeyReusedError:
            return None
        return None if done.again else done

    async def _refuse_over(self, row: ThreadRow, place: str, opened: Opened) -> None:
        """A question of a run that is over cannot be answered any more."""
        end = await self._storage.keyed(row.key, end_key(opened.call.run))
        if end is None:
            return
        if await self._storage.keyed(row.key, decided_key(place)) is not None:
            raise await self._closed(row, place, opened)
        raise PauseClosedError(opened.pause, "the end of its run", False, to_datetime(end.micros).isoformat())

    def _woken(self, row: ThreadRow, at: int) -> ThreadPatch:
        """A run of a handler is due at once; the code of a block comes back when it comes back."""
        if row.status not in WAKING:
            return ThreadPatch()
        status = None if row.status == RUNNING else DECIDED
        return ThreadPatch(status=status, wake_at=at if row.agent is not None else 0)

    async def _found(self, view: View, pause: str) -> tuple[ThreadRow, str, Opened, int, int]:
        parts = parts_of(pause) if isinstance(pause, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if parts is None:
            raise InvalidInputError(f"{pause!r} is not the id of a pause; store.pauses() lists them")
        row = await self._storage.line(parts[0])
        entry = await self._storage.keyed(row.key, opened_key(parts[1])) if row else None
        if row is None or entry is None or row.key.namespace != view.namespace:
            raise NotFoundError(f"pause {pause}", view.advice)
        opened = told(row.key.id, entry, decode_opened)
        if not view.shows(row, opened.people(self._runtime.clock.now() - entry.micros)):
            raise NotFoundError(f"pause {pause}", view.advice)
        return row, parts[1], opened, entry.version, entry.micros

    async def _closed(self, row: ThreadRow, place: str, opened: Opened) -> PauseClosedError:
        entry = await self._storage.keyed(row.key, decided_key(place))
        if entry is None:
            return PauseClosedError(opened.pause, None, False, "an unknown time")
        first = decision_of(opened, entry.micros, told(row.key.id, entry, decode_decided))
        by, at = ("its deadline", opened.deadline) if first.expired else (first.by, entry.micros)
        return PauseClosedError(opened.pause, by, first.approved, to_datetime(at).isoformat())


def _checked(opened: Opened, answer: Answer, people: tuple[str, ...]) -> Decided:
    """The decision as it is kept; raise when this person may not decide, or what they say does not fit."""
    if not answer.by.may(people):
        raise NotAllowedError(opened.pause, answer.by.name, people)
    if answer.args is not None and not isinstance(answer.args, Mapping):
        raise InvalidAnswerError(opened.pause, f"args must be a mapping of names to values, not {answer.args!r}")
    said = plain(answer.answer)
    why = problem(opened.expects, said) if answer.approved else None
    if why is None and answer.args is not None and opened.shape:
        why = mismatch(opened.form, plain(answer.args), "args")
    if why is not None:
        raise InvalidAnswerError(opened.pause, why)
    edited = answer.args is not None
    kept = Raw(encode(answer.args, root="args"))
    digest = opened.terms(kept if edited else None).digest
    kept_answer = Raw(encode(said, root="answer"))
    return Decided(opened.pause, answer.approved, answer.by.name, edited, kept, kept_answer, digest=digest)
