"""Pauses and decisions as people hold them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from perdure.core.answers import Expects
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
    by: str | None = None  # None when the deadline decided
    at: datetime | None = None
    expired: bool = False  # nobody decided until the deadline

    def __bool__(self) -> bool:
        return self.approved


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for somebody."""

    id: str
    name: str
    ask: str
    args: Any
    thread: str
    user: Any
    run: str
    version: int  # of its entry
    at: datetime
    expects: str = "approval"  # "approval", "choice", "text", "form" or "external"
    choices: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None  # of a form
    who: tuple[str, ...] = ()  # may answer; empty for anybody
    deadline: datetime | None = None
    status: str = "open"
    decision: Decision | None = None
    untold: tuple[str, ...] = ()  # why receivers could not be told of it, as they last answered
    quarantined: bool = False  # its thread was imported: it cannot be answered until somebody trusts the thread


def decision_of(opened: Opened, micros: int, decided: Decided) -> Decision:
    """The decision that stands in the log since a time."""
    args, answer = decode(bytes(decided.args_of(opened))), decode(bytes(decided.answer))
    return Decision(
        pause=opened.pause, approved=decided.approved, args=args, answer=answer, by=decided.by, at=to_datetime(micros),
        expired=decided.expired,
    )  # fmt: skip


def pause_of(
    thread: str, user: Any, entry: Entry, opened: Opened, *, id: str | None = None, untold: tuple[str, ...] = (),
    quarantined: bool = False,
) -> Pause:  # fmt: skip
    """A question that stands in the log."""
    expects: Expects = opened.expects
    return Pause(
        id=id or opened.pause, name=opened.name, ask=opened.ask, args=decode_known(bytes(opened.args)), thread=thread,
        user=user, run=opened.call.run, version=entry.version, at=to_datetime(entry.micros), expects=expects.kind,
        choices=expects.choices, schema=expects.form or None, who=opened.who,
        deadline=to_datetime(opened.deadline) if opened.deadline else None, untold=untold,
        quarantined=quarantined,
    )  # fmt: skip
