"""Pauses as the log tells them: a question that was asked, and the answer."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from perdure.core.calls import Call

NIL = Raw(b"\xc0")


class Opened(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `pause.opened`."""

    pause: str
    call: Call
    name: str
    ask: str
    args: Raw = NIL


class Decided(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `pause.decided`."""

    pause: str
    approved: bool
    by: str | None = None
    edited: bool = False  # `args` take the place of those that were asked about
    args: Raw = NIL
    answer: Raw = NIL

    def args_of(self, opened: Opened) -> Raw:
        """The arguments that were approved."""
        return self.args if self.edited else opened.args


decode_opened = msgspec.msgpack.Decoder(Opened).decode
decode_decided = msgspec.msgpack.Decoder(Decided).decode


def pause_id(uid: str, call: str) -> str:
    """The id of a pause: it leads to its thread, and to its place in the run."""
    return f"pau_{uid}.{call}"


def parts_of(pause: str) -> tuple[str, str] | None:
    """The uid of the thread and the call of a pause; None when this is not the id of one."""
    uid, dot, call = pause.removeprefix("pau_").partition(".")
    return (uid, call) if pause.startswith("pau_") and dot and uid and call else None


def opened_key(call: str) -> str:
    """The key that a question stands under: it is asked once."""
    return f"p.{call}"


def decided_key(call: str) -> str:
    """The key that a decision stands under: there is one."""
    return f"d.{call}"
