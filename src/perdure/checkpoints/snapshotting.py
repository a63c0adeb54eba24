"""Writing whole states beside the log."""

from __future__ import annotations

import msgspec

from perdure.checkpoints.heads import Head
from perdure.core import blobs, snapshots
from perdure.core.digest import snapshot_digest
from perdure.core.envelope import seal_packed
from perdure.core.errors import PerdureError
from perdure.core.identity import ThreadKey
from perdure.core.payload import WholeState, encode_into
from perdure.core.ports import Telemetry
from perdure.core.writes import Blob, Snapshot
from perdure.storage.contract import Storage

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
        return snapshots.is_due(head.since, head.document.size, head.count, reuses_room=reuses)

    async def write(self, key: ThreadKey, head: Head) -> None:
        """Write one of the newest version, and drop those that it replaces."""
        apart = head.apart + head.since
        stays = snapshots.is_landmark(apart, head.document.size)
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
