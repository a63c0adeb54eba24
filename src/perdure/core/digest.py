"""The chain of digests that makes a log tamper-evident.

    chain_n = SHA-256(chain_{n-1} ‖ version ‖ microseconds ‖ rest of the header ‖ payload digest)

Version and time are 8 bytes big-endian, so that a database can compute a link by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from perdure.core.entries import Entry, NewEntry
from perdure.core.envelope import EnvelopeError, unseal
from perdure.core.errors import EntryDamagedError

GENESIS = bytes(32)
_EMPTY = sha256()  # to copy: with cold caches, OpenSSL takes as long to look up a new one as to use it
_encode = msgspec.msgpack.Encoder().encode


def digest_of(body: bytes) -> bytes:
    """SHA-256 of plain bytes."""
    hashed = _EMPTY.copy()
    hashed.update(body)
    return hashed.digest()


def header_rest(entry: NewEntry | Entry, write_id: bytes, key: str | None, request: bytes | None) -> bytes:
    """The part of a header that the writer knows before the storage does."""
    return _encode((entry.kind, entry.schema, entry.actor, write_id, key, request))


def link(previous: bytes, version: int, micros: int, rest: bytes, payload_digest: bytes) -> bytes:
    """The chain digest of one entry."""
    hashed = _EMPTY.copy()
    hashed.update(
        previous + version.to_bytes(8, "big") + micros.to_bytes(8, "big", signed=True) + rest + payload_digest
    )
    return hashed.digest()


def snapshot_digest(chain: bytes, payload: bytes) -> bytes:
    """What ties a whole state to the entry it was made after, and so to its thread and version."""
    hashed = sha256(chain)
    hashed.update(payload)
    return hashed.digest()


def follows(chain: bytes, entry: Entry) -> bool:
    """Whether an entry comes right after the one with this chain digest."""
    return _relinked(chain, entry) == entry.chain


def _relinked(chain: bytes, entry: Entry) -> bytes | None:
    try:
        rest = header_rest(entry, entry.write_id, entry.key, entry.request)
        return link(chain, entry.version, entry.micros, rest, entry.digest)
    except (AttributeError, TypeError, OverflowError):
        return None  # a damaged row: a text where a number should be


def verify_links(thread_id: str, version: int, chain: bytes, entries: Sequence[Entry]) -> bytes:
    """Check that `entries` follow (`version`, `chain`) without a gap, and return the last chain digest."""
    for entry in entries:
        version += 1
        if entry.version != version:
            raise EntryDamagedError(thread_id, version, f"is missing: the log goes on with {entry.version}")
        if _relinked(chain, entry) != entry.chain:
            raise EntryDamagedError(thread_id, version, "does not follow from the one before: wrong chain digest")
        chain = entry.chain
    return chain


def body_of(thread_id: str, entry: Entry) -> bytes:
    """Return the checked body of an entry."""
    try:
        body = unseal(entry.payload or b"")
    except (EnvelopeError, TypeError) as exc:  # SQLite keeps a number in a column of bytes
        raise EntryDamagedError(thread_id, entry.version, str(exc)) from exc
    if digest_of(body) != entry.digest:
        raise EntryDamagedError(thread_id, entry.version, "fails its digest")
    return body
