"""What becomes of a run that is asked for: started, gone on with, or answered from the log."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.core.errors import UnfinishedRunError
from perdure.core.runs import DECIDED, FAILED, PAUSED, QUEUED, RUNNING, WAITING, Current

Unfinished = Literal["resume", "fail", "abandon"]
_BUSY = (QUEUED, PAUSED, DECIDED, WAITING)  # it was not cut off: somebody will go on with it


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about a run that is asked for."""

    resume: Current | None = None  # go on with it, or read it off the log when it is over
    abandon: Current | None = None  # it is left behind
    again: bool = False  # it is over


def next_step(
    newest: Current | None, named: Current | None, status: str, unfinished: Unfinished, *, key: str | None,
    input: bytes | None, thread_id: str, untouched: bool = False,
) -> Next:  # fmt: skip
    """Decide. `newest` is the thread's newest run, `named` the one that the key stands for.

    A run that is not over is gone on with only when it is the same turn: the key is its own or none was given, and so
    with the input. Another turn never gets its answers. One that is `untouched` was made at this moment by somebody
    who waits for the thread: it is not left behind.
    """
    if named is not None and named.is_over:
        return Next(resume=named, again=True)
    if newest is None or newest.is_over:
        return Next(resume=named)
    if named is not None and named.started.run != newest.started.run and status not in _BUSY:
        return Next(resume=named)
    same = (key is None or key == newest.started.key) and (input is None or input == bytes(newest.started.input))
    if same and unfinished == "resume":
        return Next(resume=newest)
    if unfinished == "fail" or (unfinished == "resume" and status in _BUSY):
        raise UnfinishedRunError(thread_id, newest.started.run, status)
    return Next() if untouched else Next(abandon=newest)


def attempt_after(attempts: int, status: str, *, progressed: bool, died: bool) -> int:
    """How many times a run was tried in vain, this one included.

    Getting on in between makes it the first again, and so does a person who goes on with one that was given up. To be
    stopped politely is no failure; to have `died` with its process is one.
    """
    if progressed or status not in (RUNNING, FAILED):
        return 1
    return attempts + 1 if died or status == FAILED else max(attempts, 1)


def wait_before(attempt: int, first: float, longest: float, backoff: float = 2.0) -> float:
    """How many seconds to wait after an attempt failed: each wait is `backoff` times as long as the one before."""
    return min(first * backoff ** min(attempt - 1, 30), longest)
