"""Sealed payloads as readable JSON, and back."""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec
from msgspec import Raw

from perdure.core.envelope import EnvelopeError, seal, seal_packed, unseal
from perdure.core.pruning import BLANK
from perdure.core.render import CannotRead, from_json, to_json

NOTHING = Raw(b"null")  # where a payload was pruned
_SEALED = b'{"$sealed":'


def shown(payload: bytes) -> Raw:
    """The body of a payload as JSON; what this release cannot open is kept as it is."""
    if payload == BLANK:
        return NOTHING
    try:
        return Raw(to_json(unseal(payload)))
    except EnvelopeError:
        return Raw(msgspec.json.encode({"$sealed": b64encode(payload).decode()}))


def is_packed(payload: bytes) -> bool:
    """Whether the writer compressed it, so that a reader gets it as it was."""
    return payload[1:2] == b"\x01" and len(payload) > 3


def payload_of(text: Raw, packed: bool = False) -> bytes:
    """The sealed payload again; raise `CannotRead` when this is not a body."""
    data = bytes(text)
    if data.startswith(_SEALED):
        return _unopened(data)
    body = from_json(data)
    return seal_packed(body) if packed else seal(body)


def _unopened(data: bytes) -> bytes:
    try:
        return b64decode(msgspec.json.decode(data, type=dict[str, str])["$sealed"], validate=True)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise CannotRead(f"is not a sealed payload ({exc})") from exc
