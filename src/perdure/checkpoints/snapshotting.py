"""Snapshots: when a whole state is written beside the log, writing it, and which of the older ones stay.

The newest snapshot rolls: it is replaced once the changes after it weigh a seventh of the state, so that restoring the
newest state folds little. Where packing leaves less than half of it, the one before it stays until the next: who lists
the newest checkpoints begins there.

Every now and then one stays as a landmark: when the changes since the landmark before it weigh twice the state. Where
dropped snapshots stay on the disk for a while, they roll more rarely: once the changes weigh clearly more than the
state, which those of a conversation that only grows never do, or once there are so many of them that folding them one
by one takes longer than reading the state. So restoring any old version reads no more than about three times the state,
and all landmarks together weigh less than half the log. Changes weigh what they have unpacked: that is what folding
them takes.
"""

from __future__ import annotations

import msgspec

from perdure.checkpoints.restoring import Head
from perdure.core import blobs
from perdure.core.digest import snapshot_digest
from perdure.core.envelope import seal_packed
from perdure.core.errors import PerdureError
from perdure.core.identity import ThreadKey
from perdure.core.payload import WholeState, encode_into
from perdure.core.ports import Telemetry
from perdure.core.writes import Blob, Snapshot
from perdure.storage.contract import Storage

SMALLEST = 16 * 1024  # below this, folding the changes is as quick as reading a whole state
_ROLLS_AT = 0.15  # the share of the state that the changes after the newest snapshot may weigh
_RARELY = 1.25  # … where a snapshot that was dropped takes room until somebody cleans up
_MANY, _OF_MANY = 600, 0.4  # so many changes may weigh less there


def is_snapshot_due(since: int, size: int, count: int = 0, *, reuses_room: bool = True) -> bool:
    """Whether the `count` changes since the newest snapshot weigh enough for a new one of a state of this size."""
    share = _ROLLS_AT if reuses_room else _OF_MANY if count >= _MANY else _RARELY
    return since > SMALLEST and since > size * share


def is_landmark(apart: int, size: int) -> bool:
    """Whether a new snapshot stays: `apart` is the weight of the changes since the landmark before it."""
    return apart > 2 * size


_LARGE_BUFFER = 64 * 1024 * 1024  # a buffer larger than this is given back
_SMALL = 0.5  # a snapshot that takes less than this of its state may have another one beside it


class Buffer:
    """Memory that all saves share: fresh memory for a large state costs more than encoding it."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def taken(self) -> bytearray:
        """The buffer; what somebody else wrote there is overwritten."""
        if len(self._bytes) > _LARGE_BUFFER:
            self._bytes = bytearray()
        return self._bytes


class Snapshotter:
    """Writes the whole state of a head where one is due. It is derived: failing to write it harms nothing."""

    def __init__(self, storage: Storage, telemetry: Telemetry, buffer: Buffer) -> None:
        self._storage = storage
        self._telemetry = telemetry
        self._buffer = buffer

    def is_due(self, head: Head) -> bool:
        """Whether the changes after the newest snapshot weigh enough for another."""
        reuses = self._storage.reuses_room
        return is_snapshot_due(head.since, head.document.size, head.count, reuses_room=reuses)

    async def write(self, key: ThreadKey, head: Head) -> None:
        """Write one of the newest version, and drop those that it replaces."""
        apart = head.apart + head.since
        stays = is_landmark(apart, head.document.size)
        payload = self._sealed_whole(head, 0 if stays else apart, stays)
        digest = snapshot_digest(head.chain, payload)
        snapshot = Snapshot(version=head.last, chain=head.chain, digest=digest, payload=payload)
        old = self._roll(head, len(payload), stays)
        head.since, head.count, head.apart = 0, 0, 0 if stays else apart
        try:
            for version in old:  # first, so that the new one can have their room
                await self._storage.drop_snapshot(key, version)
            await self._storage.put_snapshot(key, head.uid or "", snapshot)
            self._telemetry.count("perdure.snapshots", 1)
        except PerdureError as exc:
            self._telemetry.log("warning", "a snapshot could not be written", thread=key.id, error=str(exc))

    def _roll(self, head: Head, size: int, stays: bool) -> list[int]:
        """Note a new snapshot of this size in the head, and return the versions of those that it replaces."""
        spares = self._storage.reuses_room and size < head.document.size * _SMALL
        old = [head.spare, 0 if spares else head.rolling]
        head.rolling, head.spare = 0 if stays else head.last, head.rolling if spares else 0
        return [version for version in old if version]

    def _sealed_whole(self, head: Head, apart: int, stays: bool) -> bytes:
        """A whole state as it is stored."""
        document, buffer = head.document, self._buffer.taken()
        state, large = document.parts(), list[Blob]()
        if blobs.may_have_large(document.root):
            encoded, large = blobs.extract(document.encoded())
            state = msgspec.Raw(encoded)
        digests = [blob.digest for blob in large]
        encode_into(WholeState(state, digests, apart, stays, spare=head.rolling), buffer)
        return seal_packed(buffer)
