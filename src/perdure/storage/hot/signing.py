"""Values as they lie in Redis: an envelope, and at its end the proof that we made it for this very thread.

Whoever can write to that Redis can drop values, swap them or put old ones back, but not make new ones: the key of the
HMAC lives in the storage.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import TypeVar

import msgspec

from perdure.core.entries import Entry
from perdure.core.envelope import EnvelopeError, seal, seal_packed, unseal
from perdure.core.writes import Snapshot

T = TypeVar("T")

_PROOF = 32
_TAIL, _BASE = "tail", "base"
_encode = msgspec.msgpack.Encoder().encode
_entries = msgspec.msgpack.Decoder(list[Entry]).decode


class Base(msgspec.Struct, frozen=True):
    """Where folding starts: a snapshot, or the very beginning."""

    snapshot: Snapshot | None


_base = msgspec.msgpack.Decoder(Base).decode


class Refused(Exception):
    """Bytes that we did not make for this thread."""


class Signer:
    """Signs and checks the values of one storage."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def entries(self, member: bytes, uid: str, entries: list[Entry]) -> bytes:
        """Entries of one thread, as one element of its tail."""
        return self._signed(_TAIL, member, uid, _encode(entries), quick=len(entries) > 1)

    def base(self, member: bytes, uid: str, snapshot: Snapshot | None) -> bytes:
        """The newest snapshot of a thread."""
        return self._signed(_BASE, member, uid, _encode(Base(snapshot)), quick=False)  # its payload is packed already

    def entries_in(self, member: bytes, uid: str, value: object) -> list[Entry]:
        """The entries of an element; raise `Refused` unless every byte is ours."""
        return _read(_entries, self._body(_TAIL, member, uid, value))

    def base_in(self, member: bytes, uid: str, value: object) -> Base:
        """The snapshot of a value; raise `Refused` unless every byte is ours."""
        return _read(_base, self._body(_BASE, member, uid, value))

    def _signed(self, what: str, member: bytes, uid: str, body: bytes, *, quick: bool) -> bytes:
        sealed = seal_packed(body) if quick else seal(body)
        return sealed + self._proof(what, member, uid, sealed)

    def _proof(self, what: str, member: bytes, uid: str, sealed: bytes) -> bytes:
        return hmac.digest(self._secret, _encode((what, member, uid)) + sealed, "sha256")

    def _body(self, what: str, member: bytes, uid: str, value: object) -> bytes:
        if type(value) is not bytes or len(value) <= _PROOF:
            raise Refused
        sealed, proof = value[:-_PROOF], value[-_PROOF:]
        # Before anything of it is unpacked or decoded: only then do we know whose bytes they are.
        if not hmac.compare_digest(proof, self._proof(what, member, uid, sealed)):
            raise Refused
        try:
            return unseal(sealed)
        except EnvelopeError as exc:
            raise Refused from exc


def _read(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Refused from exc  # ours, but of a release that writes otherwise
