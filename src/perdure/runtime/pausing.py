"""Asking a person from inside a run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Raw

from perdure.core.approvers import with_starter
from perdure.core.calls import Call, Intent, key_digest, shown, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import KeyReusedError, RunFinishedError
from perdure.core.identity import check_id
from perdure.core.pauses import Decided, Opened, decided_key, decode_decided, decode_opened, opened_key, pause_id
from perdure.core.runs import PAUSED
from perdure.core.threads import ThreadPatch
from perdure.core.triggers import Moment
from perdure.runtime.decisions import Decision, decision_of
from perdure.runtime.expecting import Expected, as_expected
from perdure.runtime.scope import Scope
from perdure.runtime.unwinding import Unwinding

if TYPE_CHECKING:
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


async def answered(run: Run, scope: Scope, call: Call, entry: Entry) -> Decision:
    """The decision about a question as it stands in the log, whatever the code would ask by now."""
    opened = told(run.journal.key.id, entry, decode_opened)
    try:
        question = Question(opened.name, opened.ask, decode(bytes(opened.args)), Expected(opened.expects), opened.who)
        return await _asked(run, scope, call, question, entry)
    finally:
        scope.settle()


async def ask_about(
    run: Run, call: Call, intent: Intent, why: Literal["unverified", "rerun"], who: tuple[str, ...]
) -> Decision:
    """Ask whether a tool that may have run, or that a run that is done again comes to, is to be run.

    Those who may approve the tool are asked: others would let it run, or make up its result.
    """
    key = run.effect_key(call.id)
    scope = Scope(run, call.id, run.scope)
    place = scope.call(why, key_digest(intent.attempt))
    happened = "may have run" if why == "unverified" else "has no recorded result"
    again = "run it again" if why == "unverified" else "run it"
    ask = f"{why}: {call.name} {happened}, key {key}. Approve: {again}; deny: the answer is its result"
    question = Question(f"{why} {call.name}", ask, decode(bytes(intent.arguments)), who=who)
    return await _asked(run, scope, place, question, await standing(run, place))


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
    if entry is None:
        opened = await _open(run, call, question)
    else:
        opened = told(run.journal.key.id, entry, decode_opened)
        place = shown(opened.call.id)
        answer = await run.keyed(decided_key(place)) or await _expiry(run, place, opened)
        if answer is not None:
            return as_expected(run, opened, question, _decision(run, opened, answer))
    run.paused = True
    run.questions.append(opened)
    await run.runtime.settled(run, scope)
    raise Unwinding(PAUSED)


def _decision(run: Run, opened: Opened, answer: Entry) -> Decision:
    return decision_of(opened, answer.micros, told(run.journal.key.id, answer, decode_decided))


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
        pause_id(journal.uid, place), call, question.name, question.ask, Raw(encode_result(question.args)),
        question.expected.recorded, who, question.deadline, question.shape,
    )  # fmt: skip
    entries = [journal.entry(EntryKind.PAUSE_OPENED, opened)]
    patch = ThreadPatch(status=PAUSED)
    await run.triggering.write(Moment.PAUSE, entries, about=question.ask, key=opened_key(place), patch=patch)
    run.runtime.attending.asked(journal.key)
    return opened
