"""Keys that sign exports: an HMAC over the digest of the whole file, with a secret of the store.

A signature says that a store which has the key wrote the file, and that nothing in it was changed since: threads, rows,
owners and the first line. Whoever has the key can write such files, so that sharing it shares that authority.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from perdure.core.errors import InvalidInputError

KEY_BYTES = 32
MAC_BYTES = 32
_PREFIX = "pdk_"  # before a key as people copy it: it is recognised, by them and by scanners for secrets
_PURPOSE = b"perdure export signature 1\0"
_ID = re.compile(r"[0-9a-f]{16}")


def key_id(key: bytes) -> str:
    """The name of a key, which tells nothing about it."""
    return hashlib.sha256(b"perdure export key\0" + key).hexdigest()[:16]


def is_key_id(text: str) -> bool:
    """Whether a text can be the name of a key."""
    return _ID.fullmatch(text) is not None


def signature(key: bytes, digest: bytes) -> bytes:
    """The signature of a file with this digest."""
    return hmac.digest(key, _PURPOSE + digest, "sha256")


def is_signed(keys: Mapping[str, bytes], name: str, digest: bytes, given: bytes) -> bool | None:
    """Whether a signature is right; None when the key that it names is not among these."""
    key = keys.get(name)
    return None if key is None else hmac.compare_digest(signature(key, digest), given)


def shown_key(key: bytes) -> str:
    """A key as people copy it."""
    return _PREFIX + key.hex()


def parse_key(text: str) -> bytes:
    """The key again; raise `InvalidInputError`, which does not repeat what was given: it may be a secret."""
    given = text.strip()
    try:
        key = bytes.fromhex(given.removeprefix(_PREFIX)) if given.startswith(_PREFIX) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(
            f"this is no key of a store: it begins with {_PREFIX!r} and has {2 * KEY_BYTES} hexadecimal digits after "
            "that, as `perdure key show URL` prints it"
        )
    return key
