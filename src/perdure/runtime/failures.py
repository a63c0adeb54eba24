"""Failures: what the log keeps of an error, and a step's told again as what it was.

Code that handled the error of a step does so again when it is resumed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress

from perdure.core.calls import Call, Failure, reason
from perdure.core.errors import StepFailedError
from perdure.core.tracebacks import traceback_of


def failure_of(
    call: Call, error: Exception, attempt: int, *, again: bool, settled: int, traceback: str, took: int
) -> Failure:  # fmt: skip
    """What is kept of an error that a call raised."""
    kind = type(error)
    return Failure(call, kind.__name__, reason(error), attempt, again, settled, _place(kind), traceback, took)


def kept_traceback(error: BaseException) -> str:
    """The traceback of an error without folders of this machine."""
    return traceback_of(error, _local_folders())


def _local_folders() -> list[str]:
    """Folders that a message may name, and that say something of this machine and its user."""
    found = [os.path.expanduser("~"), tempfile.gettempdir(), sys.prefix, sys.base_prefix, *sys.path]
    with suppress(OSError):  # the folder is gone
        found.append(os.getcwd())
    return [*found, *(os.path.realpath(each) for each in found if each)]


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
