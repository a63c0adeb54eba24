"""Allowances: tools that somebody approved in advance, for arguments, a time and a number of calls.

An allowance is a thread of the library's own: its log has who made it, each use and who revoked it. A use counts by its
place in that log, so that two processes that use the last one at the same moment see the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import translate
from re import fullmatch
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.approval_terms import Terms, schema_of
from perdure.core.approvers import Approver
from perdure.core.codec import decode_known, encode
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id
from perdure.core.json_schema import mismatch

ALLOWANCES = "allowances"  # what their reserved namespace is for
MOST = 1000  # that one namespace and user may have at a time
_KEYWORDS = frozenset({
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
})  # fmt: skip


class Allowed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `allowance.made`."""

    id: str
    tool: str
    by: str
    groups: tuple[str, ...]
    arguments: Raw  # by name: a value, a text with *, or a schema
    schema: str = ""  # of the tool; "" for any
    expires: int = 0  # microseconds; 0 for never
    count: int = 0  # of calls; 0 for any number
    user: str | None = None  # whose threads it holds for; None for everybody's
    run: str | None = None  # the only run it holds for

    @property
    def owner(self) -> Approver:
        """Who made it."""
        return Approver(self.by, self.groups)

    def is_expired(self, now: int) -> bool:
        """Whether its time is over."""
        return bool(self.expires) and now >= self.expires

    def matches(self, terms: Terms, user: str, run: str, now: int) -> bool:
        """Whether a call is one that it allows, as far as the allowance itself tells."""
        if self.is_expired(now) or self.user not in (None, user) or self.run not in (None, run):
            return False
        if not is_name(self.tool, terms.tool) or not self.owner.may(terms.who):
            return False
        if self.schema and not terms.has_schema(self.schema):
            return False
        args, allowed = decode_known(bytes(terms.args)), decode_known(bytes(self.arguments))
        return isinstance(args, Mapping) and all(
            name in args and _fits(pattern, args[name]) for name, pattern in allowed.items()
        )


class Used(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `allowance.used`: a call took one of the counted uses."""

    thread: str  # uid
    call: str


class Revoked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `allowance.revoked`."""

    by: str


decode_allowed = msgspec.msgpack.Decoder(Allowed).decode
decode_used = msgspec.msgpack.Decoder(Used).decode
decode_revoked = msgspec.msgpack.Decoder(Revoked).decode


def is_name(pattern: str, name: str) -> bool:
    """Whether a name is meant; `*` stands for any characters, and nothing else has a meaning."""
    return pattern == name or ("*" in pattern and fullmatch(_regex(pattern), name) is not None)


def check_tool(tool: object) -> tuple[str, str]:
    """The name of a tool and its schema, which is "" where only its name is known."""
    if isinstance(tool, str):
        return check_id(tool, "the name of a tool"), ""
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    if not callable(tool) or not isinstance(name, str):
        raise InvalidInputError(f"a tool is a name, or a function that is one, not {tool!r}")
    shape = getattr(getattr(tool, "options", None), "shape", "")
    return name, shape or schema_of(tool)


def check_arguments(arguments: object) -> bytes:
    """What calls an allowance is for, encoded; raise `InvalidInputError` for what would allow more than it says."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) and name for name in arguments):
        raise InvalidInputError(f"arguments must be a mapping of names to values, not {arguments!r}")
    for name, pattern in arguments.items():
        unknown = sorted(set(map(str, pattern)) - _KEYWORDS) if isinstance(pattern, Mapping) else []
        if unknown:
            raise InvalidInputError(
                f"arguments: {name!r} is a schema with {unknown[0]!r}; it takes {', '.join(sorted(_KEYWORDS))}, and "
                '{"const": …} for a mapping itself'
            )
    return encode(dict(arguments), root="arguments")


def is_granted(place: int, uses: Iterable[int], count: int) -> bool:
    """Whether the use at a version of the log is among the first `count`: whoever comes later has none left."""
    return sorted(uses).index(place) < count


def _fits(pattern: Any, value: Any) -> bool:
    if isinstance(pattern, Mapping):
        return mismatch(pattern, value, "") is None
    if isinstance(pattern, str) and "*" in pattern:
        return isinstance(value, str) and fullmatch(_regex(pattern), value) is not None
    # Encoded: to Python, True is 1 and 1 is 1.0.
    return encode(pattern, root="arguments") == encode(value, root="arguments")


def _regex(pattern: str) -> str:
    escaped = "".join(each if each == "*" else f"[{each}]" if each in "?[" else each for each in pattern)
    return translate(escaped)
