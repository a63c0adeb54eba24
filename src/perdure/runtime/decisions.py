"""Pauses and decisions as people hold them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from perdure.core.codec import decode, decode_known
from perdure.core.entries import Entry
from perdure.core.pauses import Decided, Opened
from perdure.core.times import to_datetime


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a pause; true when it was approved."""

    pause: str
    approved: bool
    args: Any = None  # those that were asked about, or as the approver edited them
    answer: Any = None
    by: str | None = None
    at: datetime | None = None

    def __bool__(self) -> bool:
        return self.approved


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for somebody, or was answered."""

    id: str
    name: str
    ask: str
    args: Any
    thread: str
    user: Any
    run: str
    version: int  # of its entry
    at: datetime
    status: str = "open"
    decision: Decision | None = None


def decision_of(opened: Opened, micros: int, decided: Decided) -> Decision:
    """The decision that stands in the log since a time."""
    args, answer = decode(bytes(decided.args_of(opened))), decode(bytes(decided.answer))
    return Decision(
        pause=opened.pause, approved=decided.approved, args=args, answer=answer, by=decided.by, at=to_datetime(micros)
    )  # fmt: skip


def pause_of(thread: str, user: Any, entry: Entry, opened: Opened) -> Pause:
    """A question that stands in the log."""
    args = decode_known(bytes(opened.args))
    return Pause(
        id=opened.pause, name=opened.name, ask=opened.ask, args=args, thread=thread, user=user, run=opened.call.run,
        version=entry.version, at=to_datetime(entry.micros),
    )  # fmt: skip
