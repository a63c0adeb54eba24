"""Calls that a run makes: how they are told apart, and what the log keeps of them.

A call is found again by where it was made (its parent), its name, its key or else its arguments, and its place among
equals. Nothing is said about order: code that asks for the same calls in another order gets the same answers.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Raw

from perdure.core.codec import encode, encode_result
from perdure.core.digest import body_of
from perdure.core.entries import Entry
from perdure.core.errors import EntryDamagedError, UnsupportedValueError
from perdure.core.payload import encode_body
from perdure.core.plain import LEAVES

T = TypeVar("T")
Identity = tuple[str, bytes, str, bytes, int]

TOP = b""  # the parent of calls that a run makes itself
_ID, _ARGS = 15, 12  # bytes
_REASON = 10_000  # characters


class Call(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One call of a run."""

    run: str
    parent: bytes  # id of the call it was made in
    name: str
    args: bytes  # digest of its key, or of its arguments
    nth: int  # among equals
    at: int  # how many calls its parent had made before it
    settled: int  # how many of those were over: all of them where calls follow each other
    given: str = ""  # its arguments, in short, for people

    def __str__(self) -> str:
        return f"{self.name}({self.given})"

    @property
    def id(self) -> bytes:
        """What it is found again by."""
        return sha256(encode_body([self.run, self.parent, self.name, self.args, self.nth])).digest()[:_ID]

    @property
    def identity(self) -> Identity:
        """The same in a process: a digest takes three times as long."""
        return self.run, self.parent, self.name, self.args, self.nth

    @property
    def in_sequence(self) -> bool:
        """Whether nothing else was under way when it was made."""
        return self.at == self.settled


class Tokens(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The tokens of one answer, as the provider counted them."""

    input: int = 0
    output: int = 0
    cached: int = 0  # of the input, what the provider had cached


class Answered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What an answer took, where it came."""

    model: str  # its name; empty where nobody said
    tokens: Tokens | None  # None where the provider gave no numbers
    took: int  # microseconds


class Outcome(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `step.finished` and `tool.finished`."""

    call: Call
    value: Raw
    attempt: int = 1
    by: str | None = None  # the person who said what came of a tool that may have run
    took: int = 0  # microseconds that the call lasted
    answered: Answered | None = None  # of a model whose request was written before its answer


class Failure(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `step.failed` and `tool.failed`."""

    call: Call
    error: str  # the name of its class
    text: str
    attempt: int = 1
    again: bool = False  # it was tried once more
    settled: int = 0  # how many calls of its parent were over with it
    place: str = ""  # of its class: module and name
    traceback: str = ""
    took: int = 0  # microseconds that the call lasted

    def is_before(self, call: Call) -> bool:
        """Whether a call of the same parent was made after this failure, not beside it."""
        return call.parent == self.call.parent and call.settled >= self.settled


class Intent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `tool.started`."""

    call: Call
    arguments: Raw
    attempt: int = 1


class Called(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the body of every entry of a call begins with."""

    call: Call


decode_called = msgspec.msgpack.Decoder(Called).decode
decode_outcome = msgspec.msgpack.Decoder(Outcome).decode
decode_failure = msgspec.msgpack.Decoder(Failure).decode
decode_intent = msgspec.msgpack.Decoder(Intent).decode


LOAD = "load"  # the step that records which version a run loaded


def told(thread_id: str, entry: Entry, decode: Callable[[bytes], T]) -> T:
    """What an entry says, checked; raise `EntryDamagedError`."""
    body = body_of(thread_id, entry)
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise EntryDamagedError(thread_id, entry.version, f"cannot be decoded ({exc})") from exc


def result_key(call_id: bytes) -> str:
    """The key that the result of a call stands under: it is recorded once, whoever writes."""
    return f"s.{shown(call_id)}"


def intent_key(call_id: bytes, attempt: int) -> str:
    """The key of an attempt to run a tool."""
    return f"t.{shown(call_id)}.{attempt}"


def failure_key(call_id: bytes, attempt: int) -> str:
    """The key of an attempt that failed."""
    return f"f.{shown(call_id)}.{attempt}"


def request_key(call_id: bytes, request: bytes) -> str:
    """The key of what a model is asked, where that is written before it is: it stands once, whoever asks the same."""
    return f"q.{shown(call_id)}.{shown(key_digest(request))[:8]}"


def shown(call_id: bytes) -> str:
    """An id as text; a tool hands it on as its idempotency key."""
    return urlsafe_b64encode(call_id).decode()


def args_digest(args: tuple[object, ...], named: dict[str, object]) -> bytes:
    """What tells arguments apart. Where they cannot be kept, their types have to do."""
    try:
        encoded = _of_leaves(args, named) or encode_result([list(args), named])
    except (UnsupportedValueError, TypeError):
        kinds = [type(each).__qualname__ for each in (*args, *named.values())]
        encoded = encode_body([kinds, list(named)])
    return sha256(encoded).digest()[:_ARGS]


def _of_leaves(args: tuple[object, ...], named: dict[str, object]) -> bytes | None:
    """The same bytes in one go for numbers and texts, which most arguments are; None for others."""
    if not (LEAVES.issuperset(map(type, args)) and LEAVES.issuperset(map(type, named.values()))):
        return None
    try:
        return encode_body([args, named])
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate or a large int
        return None


def key_digest(key: object) -> bytes:
    """The same for a key that the caller chose."""
    return sha256(b"key" + encode(key, root="key")).digest()[:_ARGS]


def printable(text: str) -> str:
    """Text that can be kept anywhere: what no storage takes is replaced."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def reason(error: BaseException) -> str:
    """Why something failed, in its own words."""
    try:
        return printable(str(error))[:_REASON]
    except Exception:
        return "(its text cannot be shown)"
