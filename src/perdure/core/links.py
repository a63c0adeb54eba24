"""Signed links: a person decides about a pause from a phone, without an account.

A token is base64url of `fields ‖ tag`: the fields are msgpack, the tag HMAC-SHA256 over them, cut to 128 bits. Anybody
can read it and nobody change it. Nothing of it is stored: it works until it expires, and once, since a second decision
about a pause is refused. Programs that look for viruses follow links before people do, so following one must only show
the question; the decision is a request of its own.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import msgspec

from perdure.core.errors import InvalidInputError, LinkExpiredError, LinkInvalidError
from perdure.core.times import MAX_MICROS, to_datetime

LONGEST = 4096  # characters of a token
SHORTEST_KEY = 16  # bytes
_PURPOSE = b"perdure.link.1"  # a tag made for anything else is none of a link
_TAG = 16  # bytes


class Link(msgspec.Struct, array_like=True, frozen=True):
    """What a token says."""

    pause: str
    version: int  # of the question as it was sent
    expires_micros: int
    by: str | None = None  # whose link it is
    choices: tuple[str, ...] = ()  # what may be decided with it; empty: anything
    groups: tuple[str, ...] = ()  # that they were in when it was made

    def allows(self, choice: str) -> bool:
        """Whether this may be decided with the link."""
        return not self.choices or choice in self.choices


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Link).decode


def make(
    key: bytes | Sequence[bytes],
    pause: str,
    version: int,
    expires_micros: int,
    by: str | None = None,
    choices: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> str:
    """A token for a link. Of several keys the first signs. Raises `InvalidInputError` for what no token can hold."""
    if not 0 <= expires_micros <= MAX_MICROS:
        raise InvalidInputError(f"a link cannot expire at {expires_micros!r}; use microseconds since 1970")
    try:
        fields = _encode(Link(pause, version, expires_micros, by, tuple(choices), tuple(groups)))
        _decode(fields)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as exc:
        raise InvalidInputError(f"a link cannot hold these fields ({exc})") from exc
    token = urlsafe_b64encode(fields + _tag(_keys(key)[0], fields)).rstrip(b"=").decode()
    if len(token) > LONGEST:
        raise InvalidInputError(f"a link of {len(token):,} characters is too long; {LONGEST:,} are allowed")
    return token


def read(key: bytes | Sequence[bytes], token: str, now_micros: int) -> Link:
    """What a token says, if it was signed with the key, or with one of several.

    Raises `LinkInvalidError` for anything that was not made by `make`, `LinkExpiredError` when its time is over.
    """
    keys, packed = _keys(key), _unpacked(token)
    fields, tag = packed[:-_TAG], packed[-_TAG:]
    if not sum(hmac.compare_digest(_tag(each, fields), tag) for each in keys):
        raise LinkInvalidError("was changed on its way, or made with another key")
    link = _fields(fields)
    if now_micros >= link.expires_micros:
        raise LinkExpiredError(link.pause, to_datetime(link.expires_micros).astimezone(UTC).isoformat())
    return link


def _keys(key: bytes | Sequence[bytes]) -> Sequence[bytes]:
    keys: Sequence[Any] = [key] if isinstance(key, bytes) else key
    if not keys or not all(isinstance(each, bytes) and len(each) >= SHORTEST_KEY for each in keys):
        raise InvalidInputError(f"the key of links must be at least {SHORTEST_KEY} random bytes")
    return keys


def _tag(key: bytes, fields: bytes) -> bytes:
    return hmac.digest(hmac.digest(key, _PURPOSE, "sha256"), fields, "sha256")[:_TAG]


def _unpacked(token: Any) -> bytes:
    if not isinstance(token, str) or not token.isascii() or not 0 < len(token) <= LONGEST:
        raise LinkInvalidError("is cut off or has characters of something else")
    try:
        packed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        packed = b""
    # Several texts decode to the same bytes; only the one that was made is a link.
    if len(packed) <= _TAG or urlsafe_b64encode(packed).rstrip(b"=").decode() != token:
        raise LinkInvalidError("is cut off or has characters of something else")
    return packed


def _fields(fields: bytes) -> Link:
    try:
        return _decode(fields)
    except msgspec.MsgspecError as exc:  # signed, so by a release that writes more than this one reads
        raise LinkInvalidError(f"was made by another release ({exc})") from exc
