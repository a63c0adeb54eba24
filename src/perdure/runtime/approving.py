"""Asking for a person's word before a tool runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from inspect import Parameter, signature
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from perdure.core.approval import needs_approval
from perdure.core.approval_terms import schema_of
from perdure.core.calls import Call, key_digest, shown, told
from perdure.core.codec import encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, ToolDeniedError
from perdure.core.pauses import Decided, decided_key, decode_decided, pause_id
from perdure.core.payload import encode_body
from perdure.core.plain import LEAVES
from perdure.core.templates import filled, names_in
from perdure.runtime.pausing import Question, answered, ask_until_same, standing
from perdure.runtime.scope import Scope

if TYPE_CHECKING:
    from perdure.runtime.calling import Asked
    from perdure.runtime.options import Options
    from perdure.runtime.run import Run

_FILLED_IN = ("run", "idempotency_key")  # by us; nobody is asked about them
_MOST = 500  # characters of an argument in a question


async def approved(run: Run, scope: Scope, call: Call, options: Options, asked: Asked, *, begun: bool) -> Asked:
    """The call as somebody approved it, maybe with other arguments; as it is where nobody has to be asked.

    Once asked, the answer holds, whatever an operator asks for by now: a tool that was begun with edited arguments is
    tried again with those. It holds for what was approved alone: where the tool's schema, its arguments or the people
    who may decide are others by now, it is asked again. Raises `ToolDeniedError`.
    """
    inside = _inside(run, scope, call)
    first = _place(inside, asked.name)
    needed = needs_approval(run.runtime.approvals, asked.name, required=options.require_approval)
    question = None
    if await standing(run, first) is None:
        if begun or not needed:
            return asked
        question = _asks(run, options, asked)
        left = await _unless_allowed(run, inside, question)
        if left is None:
            return _with(asked, question.args)
        question = left
    question = question or _asks(run, options, asked)
    places = chain([first], (_place(inside, asked.name) for _ in count()))
    decision = await ask_until_same(run, inside, lambda: next(places), question)
    if not decision:
        raise ToolDeniedError(asked.name, decision.by, decision.answer)
    return _with(asked, decision.args)


async def _unless_allowed(run: Run, inside: Scope, question: Question) -> Question | None:
    """The question, or None where an allowance answers it; the log says which one, and whose."""
    if question.approvals > 1:
        return question  # an allowance is one person's word
    call = inside.call(f"allowance {question.name}", key_digest(question.name))
    inside.settle()
    terms, place, allowances = question.terms(run), shown(call.id), run.runtime.allowances
    found = await run.keyed(decided_key(place)) if run.resumed else None
    if found is not None:
        decided = told(run.journal.key.id, found, decode_decided)
        if decided.digest == terms.digest and await allowances.still_holds(run, decided.allowance, place, terms):
            return None
        return question._replace(changed=(f"allowance {decided.allowance} does not hold any more",))
    allowed = await allowances.take(run, place, terms)
    if allowed is None:
        return question
    decided = Decided(
        pause_id(run.journal.uid, place), True, allowed.by, True, terms.args, digest=terms.digest, allowance=allowed.id
    )
    entry = run.journal.engine.record(EntryKind.PAUSE_DECIDED, encode_body(decided), allowed.by)
    await run.journal.write([entry], key=decided_key(place))
    return None


async def approved_by(run: Run, scope: Scope, call: Call, name: str) -> str | None:
    """Who approved a call, whatever its tool is like by now; None where nobody was asked about it.

    Raises `ToolDeniedError`; waits for an answer as asking does.
    """
    inside, by = _inside(run, scope, call), None
    while (entry := await standing(run, place := _place(inside, name))) is not None:  # the last one counts
        decision = await answered(run, inside, place, entry)
        if not decision:
            raise ToolDeniedError(name, decision.by, decision.answer)
        by = decision.by
    return by


def _inside(run: Run, scope: Scope, call: Call) -> Scope:
    inside = Scope(run, call.id, scope)
    inside.free = True  # an operator may ask for approval that the log knows nothing of
    return inside


def _place(inside: Scope, name: str) -> Call:
    """The place of the next question about a tool: there is more than one where what was approved changed."""
    # Not called a pause: it is asked around the tool, and must not stand where the tool's own first call is expected.
    return inside.call(f"approval {name}", key_digest(name))


def _asks(run: Run, options: Options, asked: Asked) -> Question:
    asked = asked._replace(named={**_defaults(asked), **asked.named})
    prompt = options.approval_prompt
    if prompt is not None:
        check_prompt(prompt, asked.fn, asked.named, asked.name)
    text = f"Run {asked.name}?" if prompt is None else filled(prompt, asked.named, longest=_MOST)
    latest = run.runtime.patience(run.runtime.clock.now())
    return Question(
        asked.name, text, _shown(asked), who=options.who, deadline=latest, shape="" if asked.args else options.shape,
        schema=bound_schema(options, asked) if asked.args or not options.shape else "",
        approvals=options.approvals, reminders=options.reminders,
    )  # fmt: skip


def bound_schema(options: Options, asked: Asked) -> str:
    """The schema that an approval of a call is bound to."""
    return options.shape or schema_of(asked.fn)


def check_prompt(prompt: str, fn: Any, given: Collection[str], name: str) -> None:
    """Raise `InvalidInputError` for a place that no argument fills: whoever approves would read `{comand}`."""
    try:
        parameters = signature(fn).parameters.values()
    except (TypeError, ValueError):
        return
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return
    names = {each.name for each in parameters}
    if unknown := sorted(names_in(prompt) - names - set(given)):
        raise InvalidInputError(
            f"tool {name!r}: approval_prompt has {{{unknown[0]}}}, which is none of its arguments "
            f"({', '.join(sorted(names)) or 'it has none'}); write {{{{{unknown[0]}}}}} for the text itself"
        )


def _defaults(asked: Asked) -> dict[str, Any]:
    """What the function takes where nothing is given: whoever approves has to see it."""
    try:
        parameters = list(signature(asked.fn).parameters.values())[len(asked.args) :]
    except (TypeError, ValueError):
        return {}
    return {
        each.name: each.default
        for each in parameters
        if each.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        and type(each.default) in LEAVES
        and each.name not in _FILLED_IN
    }


def _shown(asked: Asked) -> dict[str, Any]:
    return {**({"args": list(asked.args)} if asked.args else {}), **asked.named}


def _with(asked: Asked, args: Mapping[str, Any]) -> Asked:
    """The call with the arguments that were approved; they are kept encoded, since an attempt may change its own."""
    return asked._replace(approved=encode_result(args)).fresh()
