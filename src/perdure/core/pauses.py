"""Pauses as the log tells them: a question that was asked, and the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.answers import APPROVAL, Expects
from perdure.core.approval_terms import Terms
from perdure.core.approvers import same_person
from perdure.core.calls import Call
from perdure.core.errors import InvalidAnswerError, NotAllowedError
from perdure.core.reminders import NONE, Reminders

NIL = Raw(b"\xc0")


class Opened(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `pause.opened`."""

    pause: str
    call: Call
    name: str
    ask: str
    args: Raw = NIL
    expects: Expects = APPROVAL  # of the answer
    who: tuple[str, ...] = ()  # may answer; empty for anybody
    deadline: int = 0  # microseconds; 0 for none
    shape: str = ""  # the JSON schema of the arguments, where it is known
    schema: str = ""  # what an approval is bound to where `shape` is not known
    digest: bytes = b""  # of what is asked about, see `core.approval_terms`
    changed: tuple[str, ...] = ()  # since somebody approved it; it is asked again then
    approvals: int = 1  # how many people have to approve
    reminders: Reminders = NONE

    def people(self, age: int) -> tuple[str, ...]:
        """Who may answer, so many microseconds after it was asked."""
        return self.reminders.people(self.who, age)

    @property
    def is_by_code(self) -> bool:
        """Whether the code of the run asks, and not the runtime about an effect."""
        return self.call.name == f"pause {self.name}"

    def stands_at(self, call: Call, name: str) -> bool:
        """Whether it was asked by code in the place of a call, where calls follow each other."""
        here = (self.call.parent, self.call.at, self.call.in_sequence) == (call.parent, call.at, True)
        return here and call.in_sequence and self.is_by_code and self.name == name

    def terms(self, args: Raw | None = None) -> Terms:
        """What an approval of it is bound to, with the arguments as they were edited."""
        schema = self.shape or self.schema
        return Terms(tool=self.name, args=self.args if args is None else args, schema=schema, who=self.who)

    @property
    def form(self) -> dict[str, Any]:
        """What edited arguments have to be like."""
        return json.loads(self.shape) if self.shape else {}

    def is_expired(self, now: int) -> bool:
        """Whether it is too late to answer: from then on it counts as denied."""
        return bool(self.deadline) and now >= self.deadline


class Decided(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `pause.decided`."""

    pause: str
    approved: bool
    by: str | None = None
    edited: bool = False  # `args` take the place of those that were asked about
    args: Raw = NIL
    answer: Raw = NIL
    expired: bool = False  # nobody did, until the deadline
    digest: bytes = b""  # of what was approved, see `core.approval_terms`
    approvers: tuple[str, ...] = ()  # all who approved, where there had to be several
    allowance: str = ""  # by which it was approved in advance, without a question

    def args_of(self, opened: Opened) -> Raw:
        """The arguments that were approved."""
        return self.args if self.edited else opened.args


def check_another(opened: Opened, before: Sequence[Decided], decided: Decided) -> None:
    """Raise where an approval does not go with those that stand: it needs another person, and the same arguments."""
    if not decided.approved:
        return
    for each in before:
        if same_person(each.by or "") == same_person(decided.by or ""):
            reason = f"they approved it already, and it needs {opened.approvals} people"
            raise NotAllowedError(opened.pause, decided.by or "", opened.who, reason)
        if each.digest != decided.digest or bytes(each.answer) != bytes(decided.answer):
            raise InvalidAnswerError(
                opened.pause, f"{each.by} approved other arguments or gave another answer; give the same, which "
                "store.pauses() shows, or deny it",
            )  # fmt: skip


class Notified(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `pause.notified`: an attempt to tell somebody of a question."""

    pause: str
    hook: str  # which one, by its digest
    attempt: int
    delivered: bool
    over: bool  # it is not tried again
    text: str = ""  # what the other side said, or why it could not be reached
    asked: float = 0.0  # seconds that it asked to be left alone


decode_opened = msgspec.msgpack.Decoder(Opened).decode
decode_decided = msgspec.msgpack.Decoder(Decided).decode
decode_notified = msgspec.msgpack.Decoder(Notified).decode


def pause_id(uid: str, call: str) -> str:
    """The id of a pause: it leads to its place in the run, and to its thread.

    The call comes first: it differs from the first character on, so that a beginning of the id tells pauses apart.
    """
    return f"pau_{call}.{uid}"


def parts_of(pause: str) -> tuple[str, str] | None:
    """The uid of the thread and the call of a pause; None when this is not the id of one."""
    call, dot, uid = pause.removeprefix("pau_").partition(".")
    return (uid, call) if pause.startswith("pau_") and dot and uid and call else None


def opened_key(call: str) -> str:
    """The key that a question stands under: it is asked once."""
    return f"p.{call}"


def decided_key(call: str) -> str:
    """The key that a decision stands under: there is one."""
    return f"d.{call}"


def approved_key(call: str, nth: int) -> str:
    """The key of the nth of several approvals: each is given in its turn, so that two at once see each other."""
    return f"a.{call}.{nth}"


def notified_key(call: str, hook: str, attempt: int) -> str:
    """The key of one attempt to tell somebody of a question: two who try at once record one."""
    return f"h.{call}.{hook}.{attempt}"


def place_of(key: str | None) -> str:
    """The call that the key of a question or of its decision is about."""
    return (key or "").partition(".")[2]
