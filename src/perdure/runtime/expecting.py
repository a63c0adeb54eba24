"""What the code of a run expects of an answer, and whether what was decided still fits it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.core.answers import APPROVAL, Expects, args_changed, differences, expects_of, plain, problem
from perdure.core.codec import decode, encode_result
from perdure.core.errors import InvalidInputError, PauseChangedError
from perdure.core.identity import check_label
from perdure.core.pauses import Opened
from perdure.core.times import moment
from perdure.runtime.decisions import Decision

if TYPE_CHECKING:
    from perdure.runtime.pausing import Question
    from perdure.runtime.run import Run

Deadline = datetime | timedelta | float
_LONGEST = 100 * 366 * 24 * 3600.0  # seconds


class Expected(NamedTuple):
    """The answer that code asks for: as it is recorded, and the type that the code gets."""

    recorded: Expects = APPROVAL
    type: Any = None


def expected(expects: Any) -> Expected:
    """Read what the code says."""
    recorded = expects_of(expects)
    return Expected(recorded, expects if recorded.kind in ("form", "choice") else None)


def until(deadline: Deadline | None, now: int, what: str = "deadline") -> int:
    """When it is too late, in microseconds; 0 for never. `what` names the parameter in errors."""
    if deadline is None:
        return 0
    if isinstance(deadline, datetime):
        return moment(deadline, what, InvalidInputError)
    seconds = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
    if type(seconds) not in (int, float) or not 0 < seconds < _LONGEST:
        raise InvalidInputError(f"{what} must be a datetime, a timedelta or seconds from now on, not {deadline!r}")
    return now + int(seconds * 1_000_000)


def words(ask: object) -> str:
    """A question that a person can be asked."""
    text = check_label(ask, "ask")
    if not text or not text.strip():
        raise InvalidInputError("ask must say what is asked")
    return text


def arguments(args: Any) -> dict[str, Any]:
    """What is asked about."""
    if args is not None and not (isinstance(args, Mapping) and all(isinstance(name, str) for name in args)):
        raise InvalidInputError(f"args must be a mapping of names to values, not {args!r}")
    return dict(args or {})


def as_expected(run: Run, opened: Opened, question: Question, decision: Decision) -> Decision:
    """The decision with the answer as the code expects it.

    Raises `PauseChangedError` when the code asks something else by now than what was decided about.
    """
    if not run.accept:
        changed = _changed(opened, question, decision)
        if changed:
            raise PauseChangedError(opened.pause, opened.name, changed)
    try:
        answer = _typed(question.expected.type, decision)
    except (msgspec.ValidationError, ValueError) as exc:  # a rule of the type that no schema tells
        if not run.accept:
            raise PauseChangedError(opened.pause, opened.name, [f"the answer does not fit: {exc}"]) from exc
        answer = decision.answer
    return msgspec.structs.replace(decision, answer=answer)


def _changed(opened: Opened, question: Question, decision: Decision) -> list[str]:
    now = encode_result(question.args)
    other = [] if now == bytes(opened.args) else args_changed(decode(bytes(opened.args)), decode(now))
    if opened.is_by_code and opened.ask != question.ask:
        other.insert(0, f"it asked {opened.ask!r}, now {question.ask!r}")
    if decision.approved and opened.approvals < question.approvals:
        other.append(f"it took {opened.approvals} approvals, now {question.approvals}")
    if opened.expects == question.expected.recorded or not decision.approved:
        return other
    why = problem(question.expected.recorded, plain(decision.answer))
    return [*other, *differences(opened.expects, question.expected.recorded), why] if why else other


def _typed(asked: Any, decision: Decision) -> Any:
    if not decision.approved or asked is None or isinstance(asked, list | tuple | dict):
        return decision.answer
    if hasattr(asked, "model_validate"):  # pydantic
        return asked.model_validate(decision.answer)
    return msgspec.convert(decision.answer, asked)
