"""Asking a person from inside a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from perdure.core.approval_terms import Terms
from perdure.core.approvers import with_starter
from perdure.core.calls import Call, Intent, key_digest, shown, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import KeyReusedError, RunFinishedError
from perdure.core.identity import check_id
from perdure.core.pauses import Decided, Opened, decided_key, decode_decided, decode_opened, opened_key, pause_id
from perdure.core.reminders import NONE, Reminders
from perdure.core.runs import PAUSED
from perdure.core.threads import ThreadPatch
from perdure.core.triggers import Moment
from perdure.runtime.decisions import Decision, decision_of
from perdure.runtime.expecting import Expected, as_expected
from perdure.runtime.scope import Scope
from perdure.runtime.unwinding import Unwinding

if TYPE_CHECKING:
    from perdure.runtime.options import Options
    from perdure.runtime.run import Run


class Question(NamedTuple):
    """What is asked."""

    name: str
    ask: str
    args: Any
    expected: Expected = Expected()
    who: tuple[str, ...] = ()
    deadline: int = 0  # microseconds; 0 for none
    shape: str = ""  # the JSON schema of the arguments, where it is known
    schema: str = ""  # what an approval is bound to where `shape` is not known
    changed: tuple[str, ...] = ()  # since somebody approved it
    approvals: int = 1  # how many people have to approve
    reminders: Reminders = NONE

    def terms(self, run: Run) -> Terms:
        """What an approval of it is bound to."""
        who = with_starter(self.who, (run.current.actor, run.journal.key.user))
        args = Raw(encode_result(self.args))
        return Terms(tool=self.name, args=args, schema=self.shape or self.schema, who=who)

    @property
    def words(self) -> str:
        """What people are asked."""
        return f"{self.ask} (changed since: {'; '.join(self.changed)})" if self.changed else self.ask


async def pause(run: Run, question: Question) -> Decision:
    """Open a pause, or return the decision about it."""
    scope = run.scope
    name = check_id(question.name, "the name of a pause")
    # By everything that is asked: of two questions of one name that are asked at once, each gets its own answer.
    call = scope.call(f"pause {name}", key_digest([question.ask, encode_result(question.args)]))
    return await ask(run, scope, call, question)


async def ask(run: Run, scope: Scope, call: Call, question: Question) -> Decision:
    """Open a pause at a place, or return the decision about it."""
    try:
        entry = await standing(run, call) or await _formerly(run, call, question.name)
        if entry is None:
            await run.find(call, scope)  # code that changed meanwhile is told before anybody is asked
        return await _asked(run, scope, call, question, entry)
    finally:
        scope.settle()


async def ask_until_same(run: Run, scope: Scope, places: Callable[[], Call], question: Question) -> Decision:
    """The decision about exactly what would run now: the same tool, arguments, schema and people who may decide.

    A decision about anything else opens a new pause, which says what changed. A denial holds whatever changed.
    """
    now = question.terms(run)
    while True:
        opened, decided, decision = await decided_about(run, scope, places(), question)
        if not decision.approved:
            return decision
        changed = _changed_since(opened, decided, now, question.approvals)
        if not changed:
            return decision
        question = question._replace(changed=tuple(changed))


def _changed_since(opened: Opened, decided: Decided, now: Terms, approvals: int) -> list[str]:
    """What differs between what was approved and what would run now; empty where it is the same."""
    # Twice: the question as it was asked, and what runs, whose arguments may have been edited by the approver.
    runs = msgspec.structs.replace(now, args=decided.args_of(opened))
    if decided.pause != opened.pause:
        return ["the decision was about another question"]
    if opened.approvals < approvals:
        return [f"it took {opened.approvals} approvals, now {approvals}"]
    if (opened.digest, decided.digest) == (now.digest, runs.digest):
        return []
    return opened.terms().differences(now) or ["the decision does not fit what was asked"]


async def decided_about(run: Run, scope: Scope, call: Call, question: Question) -> tuple[Opened, Decided, Decision]:
    """A question as it was asked, and the decision about it; waits for one as asking does."""
    try:
        return await _answer_to(run, scope, call, question, await standing(run, call))
    finally:
        scope.settle()


async def answered(run: Run, scope: Scope, call: Call, entry: Entry) -> Decision:
    """The decision about a question as it stands in the log, whatever the code would ask by now."""
    opened = told(run.journal.key.id, entry, decode_opened)
    try:
        question = Question(opened.name, opened.ask, decode(bytes(opened.args)), Expected(opened.expects), opened.who)
        return await _asked(run, scope, call, question, entry)
    finally:
        scope.settle()


async def ask_about(
    run: Run, call: Call, intent: Intent, why: Literal["unverified", "rerun"], options: Options, now: Terms
) -> Decision:
    """Ask whether a tool that may have run, or that a run that is done again comes to, is to be run.

    Those who may approve the tool are asked: others would let it run, or make up its result. What they approve is what
    would run `now`.
    """
    key = run.effect_key(call.id)
    scope = Scope(run, call.id, run.scope)
    happened = "may have run" if why == "unverified" else "has no recorded result"
    again = "run it again" if why == "unverified" else "run it"
    ask = f"{why}: {call.name} {happened}, key {key}. Approve: {again}; deny: the answer is its result"
    changed = msgspec.structs.replace(now, args=intent.arguments).differences(now)
    question = Question(
        f"{why} {call.name}", ask, decode(bytes(now.args)), who=options.who, schema=now.schema, changed=tuple(changed),
        approvals=options.approvals, reminders=options.reminders,
    )  # fmt: skip
    return await ask_until_same(run, scope, lambda: scope.call(why, key_digest(intent.attempt)), question)


async def _formerly(run: Run, call: Call, name: str) -> Entry | None:
    """The question of this name that was asked in this place, in other words or about other values."""
    if not run.resumed:
        return None
    journal = run.journal
    with journal.at_work:
        entries = await journal.storage.entries(journal.key, after=run.current.version, kinds=(EntryKind.PAUSE_OPENED,))
    asked = [(entry, told(journal.key.id, entry, decode_opened)) for entry in entries]
    return next((entry for entry, opened in asked if opened.stands_at(call, name)), None)


async def standing(run: Run, call: Call) -> Entry | None:
    """The question as it was asked before."""
    return await run.keyed(opened_key(shown(call.id))) if run.resumed else None


async def _asked(run: Run, scope: Scope, call: Call, question: Question, entry: Entry | None) -> Decision:
    opened, _, decision = await _answer_to(run, scope, call, question, entry)
    return as_expected(run, opened, question, decision)


async def _answer_to(
    run: Run, scope: Scope, call: Call, question: Question, entry: Entry | None
) -> tuple[Opened, Decided, Decision]:
    if entry is None:
        opened = await _open(run, call, question)
    else:
        opened = told(run.journal.key.id, entry, decode_opened)
        place = shown(opened.call.id)
        answer = await run.keyed(decided_key(place)) or await _expiry(run, place, opened)
        if answer is not None:
            decided = told(run.journal.key.id, answer, decode_decided)
            return opened, decided, decision_of(opened, answer.micros, decided)
    run.paused = True
    run.questions.append(opened)
    await run.runtime.settled(run, scope)
    raise Unwinding(PAUSED)


async def _expiry(run: Run, place: str, opened: Opened) -> Entry | None:
    """A question that nobody answered in time is denied, whoever finds out first."""
    if not opened.is_expired(run.runtime.clock.now()):
        return None
    entry = run.journal.entry(EntryKind.PAUSE_DECIDED, Decided(opened.pause, False, expired=True))
    with suppress(KeyReusedError):  # somebody decided at the same moment
        await run.journal.write([entry], key=decided_key(place))
    return await run.keyed(decided_key(place))


async def _open(run: Run, call: Call, question: Question) -> Opened:
    """The question, the status and a checkpoint, in one write."""
    if run.over:
        raise RunFinishedError(run.id, f"pause {question.name!r}")
    journal, place = run.journal, shown(call.id)
    who = with_starter(question.who, (run.current.actor, journal.key.user))
    opened = Opened(
        pause_id(journal.uid, place), call, question.name, question.words, Raw(encode_result(question.args)),
        question.expected.recorded, who, question.deadline, question.shape, question.schema,
        changed=question.changed, approvals=question.approvals, reminders=question.reminders,
    )  # fmt: skip
    opened = msgspec.structs.replace(opened, digest=opened.terms().digest)
    entries = [journal.entry(EntryKind.PAUSE_OPENED, opened)]
    patch = ThreadPatch(status=PAUSED)
    await run.triggering.write(Moment.PAUSE, entries, about=question.words, key=opened_key(place), patch=patch)
    run.runtime.attending.asked(journal.key)
    return opened
