"""Runs as the log tells them: when they began, what they were given, how they ended."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, get_args

import msgspec
from msgspec import Raw

from perdure.core.entries import EntryKind

RunStatus = Literal[
    "queued",
    "running",
    "input_required",
    "decided",
    "waiting",
    "failed",
    "interrupted",
    "dead",
    "cancelled",
    "finished",
]
RUN_STATUSES: tuple[str, ...] = get_args(RunStatus)
QUEUED, RUNNING, PAUSED, DECIDED, WAITING = "queued", "running", "input_required", "decided", "waiting"
FAILED, INTERRUPTED, DEAD, CANCELLED, FINISHED = "failed", "interrupted", "dead", "cancelled", "finished"
WAKING = frozenset({RUNNING, PAUSED, DECIDED, WAITING})  # a value from outside may let it go on
SETTLED = frozenset({DEAD, CANCELLED, FINISHED})  # nothing goes on by itself


class Started(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `run.started`."""

    run: str
    name: str | None  # of the handler; a block of code has none
    key: str | None
    input: Raw
    rerun: str | None = None  # the run that this one does again
    effects: str = ""  # … and what becomes of tools then


class Resumed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `run.resumed`."""

    run: str
    attempt: int
    owner: str
    anew: bool = False  # `input` takes the place of the old one
    input: Raw = Raw(b"\xc0")


class Ended(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `run.finished`, `run.failed` and `run.cancelled`."""

    run: str
    value: Raw = Raw(b"\xc0")
    error: str = ""  # the name of its class
    text: str = ""  # why it failed or was cancelled
    attempt: int = 1
    final: bool = True  # it is not tried again by itself
    traceback: str = ""
    took: int = 0  # microseconds since the run was started; 0 where nobody counted

    def is_by(self, error: str, text: str) -> bool:
        """Whether a failure of a step may have ended it: it was the error, or one of a group."""
        return (error, text) == (self.error, self.text) or self.error.endswith("ExceptionGroup")


decode_started = msgspec.msgpack.Decoder(Started).decode
decode_resumed = msgspec.msgpack.Decoder(Resumed).decode
decode_ended = msgspec.msgpack.Decoder(Ended).decode


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """The newest run of a thread, or one that a key names."""

    version: int  # of its `run.started`
    started: Started
    micros: int
    actor: str | None = None  # who started it, where that was said
    end: Ended | None = None
    end_kind: EntryKind | None = None

    @property
    def is_over(self) -> bool:
        """Whether it finished or was cancelled. One that failed for good is not: somebody may go on with it."""
        return self.end is not None


def run_key(key: str) -> str:
    """The key that a run stands under in its thread."""
    return f"r.{sha256(key.encode()).hexdigest()[:32]}"


def next_key(run: int) -> str:
    """The key of a run without one that follows the run at this version: one does."""
    return f"n.{run}"


def input_key(run: str, nth: int) -> str:
    """The key of the nth input that a run was given anew: looking for it does not read the log."""
    return f"i.{run}.{nth}"


def end_key(run: str) -> str:
    """The key of a run's end: there is one."""
    return f"e.{run}"
