"""How a step or a tool is run: how often, how long, under which key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec

from perdure.core.approvers import check_approvals, check_who
from perdure.core.errors import InvalidInputError, short_repr
from perdure.core.reminders import NONE, Reminders, reminders_of
from perdure.core.resume import wait_before
from perdure.core.vocabulary import one_of

Policy = Literal["ask", "tell", "fail"]
_POLICIES = ("ask", "tell", "fail")


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Try a step again when it raises: `attempts` times in all, waiting longer each time."""

    attempts: int = 3
    wait: float = 0.1  # seconds after the first failure
    longest: float = 30.0
    on: tuple[type[Exception] | str, ...] = (Exception,)  # a text is the name of a class
    backoff: float = 2.0  # each wait is this many times as long as the one before

    def applies_to(self, exc: Exception) -> bool:
        """Whether an exception is one to try again after."""
        kinds = tuple(each for each in self.on if not isinstance(each, str))
        return isinstance(exc, kinds) or any(kind.__name__ in self.on for kind in type(exc).__mro__)

    def wait_after(self, attempt: int) -> float:
        """How many seconds to wait after an attempt failed."""
        return wait_before(attempt, self.wait, self.longest, self.backoff)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What `run.options(…)` was given."""

    retry: Retry = Retry(attempts=1)
    timeout: float | None = None
    key: Any = None
    returns: Any = None
    repeatable: bool = False
    unverified: Policy = "ask"
    require_approval: bool = False
    approval_prompt: str | None = None  # "Execute: {command}?"
    who: tuple[str, ...] = ()  # may approve; empty for anybody
    approvals: int = 1  # how many people have to approve
    reminders: Reminders = NONE
    shape: str = ""  # the JSON schema of its arguments, where it is known
    blocking: bool = False
    traceback: bool | None = None  # whether one is kept of a failure; None: as the run says
    checkpoint: bool = True  # the one after a tool; a loop that keeps the result in the state saves it there


DEFAULTS = Options()


def options_of(
    *,
    retry: Retry | int | None = None,
    timeout: float | timedelta | None = None,
    key: object = None,
    returns: Callable[..., Any] | None = None,
    repeatable: bool = False,
    unverified: Policy = "ask",
    require_approval: bool = False,
    approval_prompt: str | None = None,
    who: str | Sequence[str] | None = None,
    approvals: int = 1,
    remind: timedelta | float | None = None,
    escalate: Mapping[str, Any] | None = None,
    blocking: bool = False,
    traceback: bool | None = None,
) -> Options:
    """The options that these words ask for; raise `InvalidInputError` for what cannot be."""
    one_of(unverified, _POLICIES, "unverified", InvalidInputError)
    if blocking and timeout is not None:
        raise InvalidInputError("a blocking function cannot be stopped after a timeout; give it a timeout of its own")
    people = check_who(who)
    return Options(
        retry=_retry(retry), timeout=_seconds(timeout), key=key, returns=returns, repeatable=bool(repeatable),
        unverified=unverified, blocking=bool(blocking), approval_prompt=approval_prompt, who=people,
        approvals=check_approvals(approvals, people), reminders=reminders_of(remind, escalate),
        require_approval=bool(require_approval or approval_prompt or who or approvals > 1),
        traceback=check_traceback(traceback),
    )  # fmt: skip


def check_traceback(traceback: object) -> bool | None:
    """Whether tracebacks are kept, as it was given: True, False, or None for as it is further out."""
    if traceback is not None and type(traceback) is not bool:
        raise InvalidInputError(f"traceback must be True or False, not {short_repr(traceback)}")
    return traceback


def with_own(options: Options, function: Any) -> Options:
    """The options of a call of a function that has some of its own, such as a `Tool`; those of the call come first."""
    own = getattr(function, "options", None)
    if not isinstance(own, Options):
        return options
    if options is DEFAULTS:
        return own
    return msgspec.structs.replace(
        options, repeatable=options.repeatable or own.repeatable, shape=options.shape or own.shape,
        require_approval=options.require_approval or own.require_approval,
        approval_prompt=options.approval_prompt or own.approval_prompt, who=options.who or own.who,
        approvals=max(options.approvals, own.approvals),
        reminders=own.reminders if options.reminders == NONE else options.reminders,
    )  # fmt: skip


def _retry(retry: Retry | int | None) -> Retry:
    if isinstance(retry, Retry):
        return retry
    if retry is None:
        return Options().retry
    if type(retry) is not int or retry < 1:
        raise InvalidInputError(f"retry must be a Retry or how often to try (an int from 1 on), not {retry!r}")
    return Retry(attempts=retry)


def _seconds(timeout: float | timedelta | None) -> float | None:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):
        raise InvalidInputError(f"timeout must be a number of seconds or a timedelta, not {timeout!r}")
    return seconds


def returned(value: Any, returns: Any) -> Any:
    """The value as the type that was asked for."""
    if returns is None:
        return value
    if hasattr(returns, "model_validate"):  # a pydantic model
        return returns.model_validate(dict(value) if hasattr(value, "keys") else value)
    try:
        return msgspec.convert(dict(value) if hasattr(value, "keys") else value, returns, strict=False)
    except msgspec.ValidationError as exc:
        raise InvalidInputError(f"the result does not fit {returns!r}: {exc}") from exc
