"""Asking a person from inside a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw

from perdure.core.calls import Call, Intent, key_digest, shown, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import RunFinishedError
from perdure.core.identity import check_id
from perdure.core.pauses import Opened, decided_key, decode_decided, decode_opened, opened_key, pause_id
from perdure.core.runs import PAUSED
from perdure.core.threads import ThreadPatch
from perdure.core.triggers import Moment
from perdure.runtime.decisions import Decision, decision_of
from perdure.runtime.scope import Scope
from perdure.runtime.unwinding import Unwinding

if TYPE_CHECKING:
    from perdure.runtime.run import Run


async def pause(run: Run, name: str, ask: str, args: dict[str, Any]) -> Decision:
    """Open a pause, or return the decision about it."""
    scope = run.scope
    call = scope.call(f"pause {check_id(name, 'the name of a pause')}", key_digest(name))
    try:
        return await _asked(run, scope, call, name, ask, args)
    finally:
        scope.settle()


async def ask_about(run: Run, call: Call, intent: Intent, why: Literal["unverified", "rerun"]) -> Decision:
    """Ask whether a tool that may have run, or that a run that is done again comes to, is to be run."""
    key = run.effect_key(call.id)
    scope = Scope(run, call.id, run.scope)
    question = scope.call(why, key_digest(intent.attempt))
    happened = "may have run" if why == "unverified" else "has no recorded result"
    ask = f"{why}: {call.name} {happened}, key {key}. Approve: run it; deny: the answer is its result"
    return await _asked(run, scope, question, f"{why} {call.name}", ask, decode(bytes(intent.arguments)))


async def _asked(run: Run, scope: Scope, call: Call, name: str, ask: str, args: Any) -> Decision:
    key, place = run.journal.key, shown(call.id)
    entry = await run.keyed(opened_key(place)) if run.resumed else None
    if entry is None:
        if run.over:
            raise RunFinishedError(run.id, f"pause {name!r}")
        await _open(run, call, name, ask, args)
    else:
        opened = told(key.id, entry, decode_opened)
        answer = await run.keyed(decided_key(place))
        if answer is not None:
            return decision_of(opened, answer.micros, told(key.id, answer, decode_decided))
    run.paused = True
    await run.runtime.settled(run, scope)
    raise Unwinding(PAUSED)


async def _open(run: Run, call: Call, name: str, ask: str, args: Any) -> None:
    """The question, the status and a checkpoint of the state, where there is one, in one write."""
    journal, place = run.journal, shown(call.id)
    opened = Opened(pause_id(journal.uid, place), call, name, ask, Raw(encode_result(args)))
    entries = [journal.entry(EntryKind.PAUSE_OPENED, opened)]
    patch = ThreadPatch(status=PAUSED)
    await run.triggering.write(Moment.PAUSE, entries, about=ask, key=opened_key(place), patch=patch)
