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
from perdure.core.envelope import EnvelopeError, seal, seal_packed, unsealed
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.core.writes import Snapshot

T = TypeVar("T")

_PROOF = 32
_LARGE = 1 << 16  # bytes
_TAIL, _BASE, _HEAD, _GONE = "tail", "base", "head", "gone"
_encode = msgspec.msgpack.Encoder().encode
_entries = msgspec.msgpack.Decoder(list[Entry]).decode


class Base(msgspec.Struct, frozen=True):
    """Where folding starts: a snapshot, or the very beginning."""

    snapshot: Snapshot | None


class HeadMark(msgspec.Struct, frozen=True, array_like=True):
    """Where the log of a thread stood at a moment, as the storage said."""

    uid: str
    head: int
    state_version: int
    head_digest: bytes
    last_checkpoint: str | None
    parent_uid: str | None
    parent_version: int
    at: int  # when the storage was asked, in microseconds
    under: bytes  # the tombstone that was known then; empty for none

    def row(self, key: ThreadKey) -> ThreadRow:
        """The row of the thread, as far as reading its state and messages needs it."""
        return ThreadRow(
            key=key, uid=self.uid, head=self.head, state_version=self.state_version, head_digest=self.head_digest,
            last_checkpoint=self.last_checkpoint, parent_uid=self.parent_uid, parent_version=self.parent_version,
        )  # fmt: skip


class Tombstone(msgspec.Struct, frozen=True, array_like=True):
    """Something of a thread is deleted or left behind: head marks that were not made under it do not count."""

    nonce: bytes
    at: int  # when it was written, in microseconds
    pending: bool  # the storage has not confirmed it yet: no mark counts


_base = msgspec.msgpack.Decoder(Base).decode
_head = msgspec.msgpack.Decoder(HeadMark).decode
_gone = msgspec.msgpack.Decoder(Tombstone).decode


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

    def head(self, member: bytes, mark: HeadMark) -> bytes:
        """A head mark of one thread."""
        return self._signed(_HEAD, member, "", _encode(mark), quick=False)

    def gone(self, member: bytes, tombstone: Tombstone) -> bytes:
        """A tombstone of one thread."""
        return self._signed(_GONE, member, "", _encode(tombstone), quick=False)

    def head_in(self, member: bytes, value: object) -> HeadMark:
        """The mark in a value; raise `Refused` unless every byte is ours."""
        return _read(_head, self._body(_HEAD, member, "", value))

    def gone_in(self, member: bytes, value: object) -> Tombstone:
        """The tombstone in a value; raise `Refused` unless every byte is ours."""
        return _read(_gone, self._body(_GONE, member, "", value))

    def entries_in(self, member: bytes, uid: str, value: object) -> list[Entry]:
        """The entries of an element; raise `Refused` unless every byte is ours."""
        return _read(_entries, self._body(_TAIL, member, uid, value))

    def base_in(self, member: bytes, uid: str, value: object) -> Base:
        """The snapshot of a value; raise `Refused` unless every byte is ours."""
        return _read(_base, self._body(_BASE, member, uid, value))

    def _signed(self, what: str, member: bytes, uid: str, body: bytes, *, quick: bool) -> bytes:
        sealed = seal_packed(body) if quick else seal(body)
        return sealed + self._proof(what, member, uid, sealed)

    def _proof(self, what: str, member: bytes, uid: str, sealed: bytes | memoryview) -> bytes:
        head = _encode((what, member, uid))
        if len(sealed) < _LARGE:
            return hmac.digest(self._secret, head + sealed, "sha256")
        proof = hmac.new(self._secret, head, "sha256")  # without a copy of what is large
        proof.update(sealed)
        return proof.digest()

    def _body(self, what: str, member: bytes, uid: str, value: object) -> bytes | memoryview:
        if type(value) is not bytes or len(value) <= _PROOF:
            raise Refused
        sealed, proof = memoryview(value)[:-_PROOF], value[-_PROOF:]
        # Before anything of it is unpacked or decoded: only then do we know whose bytes they are.
        if not hmac.compare_digest(proof, self._proof(what, member, uid, sealed)):
            raise Refused
        try:
            return unsealed(sealed)
        except EnvelopeError as exc:
            raise Refused from exc


def _read(decode: Callable[[bytes | memoryview], T], body: bytes | memoryview) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Refused from exc  # ours, but of a release that writes otherwise
