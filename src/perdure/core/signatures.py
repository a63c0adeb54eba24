"""Signatures of deliveries: who receives one can tell that it is ours, unchanged and new.

The headers are those of the Standard Webhooks convention, so that its libraries verify them too:

    webhook-id: ntf_…      webhook-timestamp: 1790000000      webhook-signature: v1,<base64> v1,<base64>

Each signature is HMAC-SHA256 over `id.timestamp.body`, one for each secret.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from perdure.core.errors import InvalidInputError, WebhookSignatureError
from perdure.core.times import moment

Secret = str | bytes | tuple[str | bytes, ...]


class Headers(Protocol):
    """The headers of a request, as any framework has them."""

    def items(self) -> Iterable[tuple[str, Any]]: ...


_PREFIX = "whsec_"
_MOST = 16  # signatures of one delivery that are looked at
_LONGEST = 4096  # characters of a header
_SECONDS = re.compile(r"[0-9]{1,12}")


def keys_of(secret: Secret | None) -> tuple[bytes, ...]:
    """The keys that secrets are: `whsec_…` is base64, any other text its UTF-8; raise `InvalidInputError`."""
    if secret is None:
        return ()
    secrets = secret if isinstance(secret, tuple) else (secret,)
    if not secrets:
        raise InvalidInputError("secret must not be an empty tuple; leave it out, or name one")
    return tuple(map(_key, secrets))


def signed(keys: tuple[bytes, ...], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery; the signature is missing where there is no key."""
    headers = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    if keys:
        headers["webhook-signature"] = " ".join(_signature(key, id, str(timestamp), body) for key in keys)
    return headers


def verify(secret: Secret, headers: Headers, body: bytes, now: float | datetime, tolerance: float = 300) -> str:
    """The id of a delivery, which is the same when it comes again; raise `WebhookSignatureError` if it is not ours.

    `secret` may be a tuple while one replaces another: any of them will do. `body` are the bytes as they came. `now`
    is `time.time()`, or a datetime: a delivery signed more than `tolerance` seconds before or after it is refused.
    """
    keys = keys_of(secret)
    id, timestamp, given = (_header(headers, name) for name in ("webhook-id", "webhook-timestamp", "webhook-signature"))
    if not _SECONDS.fullmatch(timestamp):
        raise WebhookSignatureError("its webhook-timestamp is no number of seconds")
    expected = [_signature(key, id, timestamp, body).encode() for key in keys]
    found = [each.encode("utf-8", "replace") for each in given.split(" ")[:_MOST]]
    # All are compared, in constant time: how long it takes tells nothing.
    if not sum(hmac.compare_digest(one, other) for one in expected for other in found):
        raise WebhookSignatureError("its signature is not that of this secret and body")
    if not abs(_seconds(now) - int(timestamp)) <= tolerance:
        raise WebhookSignatureError(f"it was signed more than {tolerance:g} s before or after now")
    return id


def _key(secret: Any) -> bytes:
    if not isinstance(secret, str | bytes):
        raise InvalidInputError(f"secret must be a text, bytes or a tuple of them, not {type(secret).__name__}")
    try:
        key = _decoded(secret) if isinstance(secret, str) else secret
    except ValueError:  # its text would name what is wrong by showing it
        raise InvalidInputError("secret cannot be read: after whsec_ comes base64") from None
    if not key:
        raise InvalidInputError("secret must not be empty; use 24 random bytes or more")
    return key


def _decoded(secret: str) -> bytes:
    return b64decode(secret[len(_PREFIX) :], validate=True) if secret.startswith(_PREFIX) else secret.encode()


def _signature(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    head = f"{id}.{timestamp}.".encode("utf-8", "replace")
    return "v1," + b64encode(hmac.digest(key, head + body, "sha256")).decode()


def _header(headers: Headers, name: str) -> str:
    """A header, however the framework spells its name."""
    value: Any = next((value for each, value in headers.items() if each.lower() == name), None)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise WebhookSignatureError(f"it has no {name} that can be used")
    return value


def _seconds(now: float | datetime) -> float:
    return moment(now, "now", InvalidInputError) / 1e6 if isinstance(now, datetime) else now
