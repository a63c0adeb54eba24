"""Replaying a whole log once, and comparing it on the way with every whole state and every point that is restored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from perdure.checkpoints.restoring import Restorer
from perdure.core import blobs
from perdure.core.checkpoint import CheckpointRow
from perdure.core.delta import delta
from perdure.core.document import Document, DoesNotFit
from perdure.core.entries import Entry
from perdure.core.errors import (
    BlobDamagedError,
    DamagedError,
    NotFoundError,
    ValueDamagedError,
    ValueTooLargeError,
)
from perdure.core.fold import SnapshotDamaged, Step, document_of, straddled, whole_of, with_bodies
from perdure.core.indexing import Standing
from perdure.core.limits import DecodeLimits
from perdure.core.ops import weight
from perdure.core.payload import WholeState
from perdure.core.pruning import is_blank
from perdure.core.said import needed
from perdure.core.verification import Finder
from perdure.core.writes import Snapshot
from perdure.storage.contract import Storage


class Replay:
    """The state at one version after the other. After a damaged entry it is unknown, up to the next whole state."""

    def __init__(self, storage: Storage, finder: Finder, thread: Standing, limits: DecodeLimits) -> None:
        self._storage = storage
        self._finder = finder
        self._thread = thread
        self._limits = limits
        self._unchecked = 0  # bytes that were added since the state was last looked at
        self._document: Document | None = Document()
        self._damaged: set[bytes] = set()  # large values
        self.bad: set[int] = set()  # versions of snapshots that are damaged

    async def compare(
        self, snapshots: Sequence[Snapshot], points: Iterable[CheckpointRow], restorer: Restorer | None
    ) -> int:
        """Replay the log; return how many points were restored and are what was saved."""
        wholes = {snapshot.version: snapshot for snapshot in snapshots}
        asked: dict[int, list[CheckpointRow]] = {}
        for point in points if restorer else ():
            if not self._is_out_of_sight(point.version):
                asked.setdefault(point.version, []).append(point)
        restored, version = 0, 0
        await self._check_large()
        for entry in self._thread.entries:
            self._pass_gap(version, entry)
            version = entry.version
            await self._take(entry)
            if version in wholes and version not in self._thread.broken:
                await self._whole(wholes.pop(version), entry)
            for point in asked.pop(version, ()):
                restored += await self._point(point, restorer) if restorer else 0
        self._document = None  # what is left has no entry of its own
        for version in wholes:
            self._judge_alone(version)
        for point in chain.from_iterable(asked.values()):
            restored += await self._point(point, restorer) if restorer else 0
        return restored

    def _is_out_of_sight(self, version: int) -> bool:
        """Whether only the line hides a version: that is told of the line, and repairing it mends both."""
        return self._thread.intact and version > self._thread.row.head

    def _pass_gap(self, version: int, entry: Entry) -> None:
        if entry.version != version + 1:
            self._document = None

    async def _take(self, entry: Entry) -> None:
        """Bring the state up to an entry."""
        version = entry.version
        step = self._thread.said.steps.get(version)
        if version in self._thread.said.unread or (step is None and entry.changes_state and not is_blank(entry)):
            self._document = None
        elif step is not None:
            await self._apply(version, step)

    async def _apply(self, version: int, step: Step) -> None:
        if self._damaged.intersection(step.blobs):
            self._document = None
            return
        try:
            whole = with_bodies(step, await self._bodies(step.blobs), self._limits)
            if isinstance(whole, WholeState):
                self._document = document_of(whole, {}, self._limits)
                self._unchecked = self._document.size
            elif self._document is not None:
                self._document.fold(whole.ops)
                self._unchecked += sum(map(weight, whole.ops))
            if self._document is not None and self._unchecked > self._limits.nodes:
                self._limits.check_document(self._document, "the state")
                self._unchecked = 0
        except (DoesNotFit, msgspec.DecodeError, TypeError, RecursionError, ValueDamagedError) as exc:
            self._finder.add(f"entry {version}", f"does not fit the state before it ({exc})", version)
            self._document = None
        except ValueTooLargeError as exc:
            self._finder.add(f"entry {version}", f"cannot be looked at: {exc}", version)
            self._document = None

    async def _bodies(self, digests: list[bytes]) -> dict[bytes, bytes]:
        found = await self._storage.blobs(self._thread.row.key, digests) if digests else {}
        return {digest: blobs.checked(digest, payload) for digest, payload in found.items()}

    async def _check_large(self) -> None:
        """Every large value that a state is made of is there, and is what it was. One at a time: they are large."""
        for digest, version in needed(self._thread.said).items():
            try:
                if not await self._bodies([digest]):
                    raise BlobDamagedError(digest.hex(), "is missing")
            except (BlobDamagedError, ValueTooLargeError) as exc:
                reason = exc.reason if isinstance(exc, BlobDamagedError) else str(exc)
                self._damaged.add(digest)
                self._finder.add(f"large value {digest.hex()[:16]}…", reason, version)

    async def _whole(self, snapshot: Snapshot, entry: Entry) -> None:
        """Compare a derived whole state; where the replay was lost, go on from it."""
        version, place = snapshot.version, f"snapshot at version {snapshot.version}"
        try:
            whole = whole_of(snapshot)
            if snapshot.chain != entry.chain or straddled(snapshot, self._thread.said.records):
                raise SnapshotDamaged
            document = document_of(whole, await self._bodies(whole.blobs), self._limits)
        except (SnapshotDamaged, BlobDamagedError, ValueDamagedError, ValueTooLargeError, msgspec.DecodeError):
            self.bad.add(version)
            self._finder.add(place, "fails its digest, or is of another thread or version", version, derived=True)
            return
        if self._document is None:
            self._document = document
        elif not _same(self._document, document.encoded()):
            self.bad.add(version)
            self._finder.add(place, "is not the state that the log leads to", version, derived=True)

    async def _point(self, point: CheckpointRow, restorer: Restorer) -> int:
        place = f"checkpoint {point.mark.id}"
        try:
            found = await restorer.restore(self._thread.row.key, point.version)
        except (DamagedError, ValueTooLargeError, NotFoundError) as exc:
            self._finder.add(place, f"cannot be restored: {exc}", point.version)
            return 0
        if self._document is not None and not _same(self._document, found.document.encoded()):
            self._finder.add(place, "restores to another state than the log leads to", point.version)
            return 0
        return 1

    def _judge_alone(self, version: int) -> None:
        """A whole state that no entry vouches for; where there was one, it may be all that is left of it."""
        if not self._thread.is_unknown(version):
            self.bad.add(version)
            self._finder.add(f"snapshot at version {version}", "has no entry", version, derived=True)


def _same(document: Document, encoded: bytes) -> bool:
    """Whether a state is this one; the order of keys is no difference."""
    mine = document.encoded()
    return mine == encoded or not delta(Document.of(mine), encoded)[0]
