"""Pauses and decisions as people hold them."""

from __future__ import annotations

from collections.abc import Sequence
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
    approvers: tuple[str, ...] = ()  # all who approved, where there had to be several
    missing: int = 0  # how many others have to approve it yet

    def __bool__(self) -> bool:
        return self.approved and not self.missing


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
    approvals: int = 1  # how many different people have to approve
    approved_by: tuple[str, ...] = ()  # who did so far
    changed: tuple[str, ...] = ()  # what is another since somebody approved: it is asked again


def decision_of(opened: Opened, micros: int, decided: Decided) -> Decision:
    """The decision that stands in the log since a time."""
    args, answer = decode(bytes(decided.args_of(opened))), decode(bytes(decided.answer))
    alone = (decided.by,) if decided.approved and decided.by else ()
    return Decision(
        pause=opened.pause, approved=decided.approved, args=args, answer=answer, by=decided.by, at=to_datetime(micros),
        expired=decided.expired, approvers=decided.approvers or alone,
    )  # fmt: skip


def pause_of(
    thread: str, user: Any, entry: Entry, opened: Opened, *, id: str | None = None, untold: tuple[str, ...] = (),
    quarantined: bool = False, approved: Sequence[Decided] = (), now: int = 0,
) -> Pause:  # fmt: skip
    """A question that stands in the log."""
    expects: Expects = opened.expects
    args = approved[0].args_of(opened) if approved else opened.args  # as the first approver edited them
    return Pause(
        id=id or opened.pause, name=opened.name, ask=opened.ask, args=decode_known(bytes(args)), thread=thread,
        user=user, run=opened.call.run, version=entry.version, at=to_datetime(entry.micros), expects=expects.kind,
        choices=expects.choices, schema=expects.form or None, who=opened.people(now - entry.micros),
        deadline=to_datetime(opened.deadline) if opened.deadline else None, untold=untold,
        quarantined=quarantined, approvals=opened.approvals, approved_by=tuple(each.by or "" for each in approved),
        changed=opened.changed,
    )  # fmt: skip
