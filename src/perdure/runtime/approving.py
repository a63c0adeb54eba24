"""Asking for a person's word before a tool runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from perdure.core.approval import needs_approval
from perdure.core.calls import Call, key_digest
from perdure.core.errors import InvalidInputError, PauseChangedError, ToolDeniedError
from perdure.core.json_schema import mismatch
from perdure.core.plain import LEAVES
from perdure.core.templates import filled, names_in
from perdure.runtime.pausing import Question, answered, ask, standing
from perdure.runtime.scope import Scope

if TYPE_CHECKING:
    from perdure.runtime.calling import Asked
    from perdure.runtime.options import Options
    from perdure.runtime.run import Run

_PLACED = "args"  # what arguments without a name are called
_FILLED_IN = ("run", "idempotency_key")  # by us; nobody is asked about them
_MOST = 500  # characters of an argument in a question


async def approved(run: Run, scope: Scope, call: Call, options: Options, asked: Asked, *, begun: bool) -> Asked:
    """The call as somebody approved it, maybe with other arguments; as it is where nobody has to be asked.

    Once asked, the answer holds, whatever an operator asks for by now: a tool that was begun with edited arguments is
    tried again with those. Raises `ToolDeniedError`.
    """
    inside, place = _place(run, scope, call, asked.name)
    needed = needs_approval(run.runtime.approvals, asked.name, required=options.require_approval)
    if (begun or not needed) and await standing(run, place) is None:
        return asked
    decision = await ask(run, inside, place, _asks(run, options, asked))
    if not decision:
        raise ToolDeniedError(asked.name, decision.by, decision.answer)
    shape = "" if asked.args else options.shape
    changed = mismatch(json.loads(shape), decision.args, "args") if shape else None
    if changed and not run.accept:
        # The tool takes other arguments by now than those that somebody approved: nothing else must run in their name.
        raise PauseChangedError(decision.pause, asked.name, [f"the tool takes other arguments now: {changed}"])
    return _with(asked, dict(decision.args))


async def approved_by(run: Run, scope: Scope, call: Call, name: str) -> str | None:
    """Who approved a call, whatever its tool is like by now; None where nobody was asked about it.

    Raises `ToolDeniedError`; waits for an answer as asking does.
    """
    inside, place = _place(run, scope, call, name)
    entry = await standing(run, place)
    if entry is None:
        return None
    decision = await answered(run, inside, place, entry)
    if not decision:
        raise ToolDeniedError(name, decision.by, decision.answer)
    return decision.by


def _place(run: Run, scope: Scope, call: Call, name: str) -> tuple[Scope, Call]:
    inside = Scope(run, call.id, scope)
    inside.free = True  # an operator may ask for approval that the log knows nothing of
    # Not called a pause: it is asked around the tool, and must not stand where the tool's own first call is expected.
    return inside, inside.call(f"approval {name}", key_digest(name))


def _asks(run: Run, options: Options, asked: Asked) -> Question:
    asked = asked._replace(named={**_defaults(asked), **asked.named})
    prompt = options.approval_prompt
    if prompt is not None:
        check_prompt(prompt, asked.fn, asked.named, asked.name)
    text = f"Run {asked.name}?" if prompt is None else filled(prompt, asked.named, longest=_MOST)
    latest = run.runtime.patience(run.runtime.clock.now())
    return Question(
        asked.name, text, _shown(asked), who=options.who, deadline=latest, shape="" if asked.args else options.shape
    )


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
    return {**({_PLACED: list(asked.args)} if asked.args else {}), **asked.named}


def _with(asked: Asked, args: dict[str, Any]) -> Asked:
    placed = args.pop(_PLACED, asked.args) if asked.args else ()
    return asked._replace(args=tuple(placed), named=args)
