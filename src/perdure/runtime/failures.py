"""Failures of steps that are told again: as what they were, so that the code that handled them does so again."""

from __future__ import annotations

from perdure.core.calls import Call, Failure, reason
from perdure.core.errors import StepFailedError


def failure_of(call: Call, error: Exception, attempt: int, *, again: bool, settled: int) -> Failure:
    """What is kept of an error that a call raised."""
    return Failure(call, type(error).__name__, reason(error), attempt, again, settled, _place(type(error)))


def told_again(failure: Failure) -> Exception:
    """The error, if this process knows its class: nothing is imported, nothing of the class is called for it."""
    kind = _known(failure.place)
    try:
        error = kind.__new__(kind) if kind else None
    except TypeError:
        error = None
    if error is None:
        return StepFailedError(failure.call.name, failure.error, failure.text)
    error.args = (failure.text,)
    return error


def _known(place: str) -> type[Exception] | None:
    waiting: list[type[Exception]] = [Exception]
    while waiting:
        each = waiting.pop()
        if _place(each) == place:
            return each
        waiting += each.__subclasses__()
    return None


def _place(kind: type[Exception]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
