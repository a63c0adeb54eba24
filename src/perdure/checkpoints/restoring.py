"""Reading a state back: the newest intact whole state, and the changes after it, all checked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

import msgspec

from perdure.core import blobs, fold
from perdure.core.digest import GENESIS
from perdure.core.document import Document
from perdure.core.envelope import claimed, weight
from perdure.core.errors import CheckpointDamagedError, DamagedError, EntryDamagedError, NotFoundError
from perdure.core.fold import SnapshotDamaged
from perdure.core.frozen import Known
from perdure.core.identity import ThreadKey
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ops import weight as op_weight
from perdure.core.payload import StateChange, WholeState
from perdure.core.ports import Telemetry
from perdure.core.threads import ThreadRow
from perdure.core.unchanged import Unchanged
from perdure.core.writes import Restored
from perdure.storage.contract import Storage


class Head(msgspec.Struct, kw_only=True):
    """The newest state of a thread as this process knows it: valid for exactly one version.

    It is shared and advanced in place, never across a wait: whoever waited checks `last` before touching it.
    """

    uid: str | None = None  # None: the thread did not exist
    version: int = 0  # the last version that changed the state
    last: int = 0  # the newest entry that was looked at
    chain: bytes = GENESIS  # its chain digest
    document: Document = msgspec.field(default_factory=Document)
    nodes: int = 0  # of the document, at most; 0 where they were not counted: each takes a byte
    room: int = 0  # about how many bytes the document takes; counting exactly would cost as much as folding
    checkpoint: str | None = None  # the newest one, as far as this process read or wrote it
    since: int = 0  # bytes of changes since the newest snapshot
    count: int = 0  # … and how many they are
    apart: int = 0  # bytes of changes between the newest landmark and the newest snapshot
    rolling: int = 0  # version of the newest snapshot if the next one replaces it, 0 if it stays
    spare: int = 0  # version of the rolling one before the newest, if that is there still
    unchanged: Unchanged = msgspec.field(default_factory=Unchanged)  # what the caller's lists held at the last save
    frozen: Known = {}  # items of the newest state that can never change, as they are encoded


class Heads:
    """Heads by thread, the least recently used dropped when they take more than the budget."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._heads: OrderedDict[ThreadKey, Head] = OrderedDict()
        self._sizes: dict[ThreadKey, int] = {}
        self._total = 0

    def get(self, key: ThreadKey) -> Head | None:
        """The head of a thread, if it is known."""
        head = self._heads.get(key)
        if head is not None:
            self._heads.move_to_end(key)
        return head

    def put(self, key: ThreadKey, head: Head) -> None:
        """Keep a head."""
        self._heads[key] = head
        self._heads.move_to_end(key)
        if self._sizes.get(key) != head.room:
            self._weigh(key, head.room)
        while self._total > self._budget and len(self._heads) > 1:
            self.drop(next(iter(self._heads)))

    def drop(self, key: ThreadKey) -> None:
        """Forget a head."""
        self._heads.pop(key, None)
        self._weigh(key, 0)

    def _weigh(self, key: ThreadKey, size: int) -> None:
        self._total += size - self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size


Changes = tuple[list[StateChange], dict[bytes, bytes], list[int]]  # with their large values and weights


class Restorer:
    """Folds the log of a thread into a document."""

    def __init__(self, storage: Storage, telemetry: Telemetry, limits: DecodeLimits = DEFAULT_LIMITS) -> None:
        self._storage = storage
        self.limits = limits
        self._telemetry = telemetry

    async def restore(
        self, key: ThreadKey, at: int | None = None, dropped: frozenset[int] = frozenset(), uid: str | None = None
    ) -> Head:
        """The head of a thread, or its state at version `at`; an empty head when there is no thread.

        Who found that version in a thread says in which: one that was made again has other states under its numbers.
        """
        restored = await self._storage.restore(key, at=at)
        if restored is None:
            return Head()
        if uid not in (None, restored.row.uid):
            raise NotFoundError(f"thread {key.id!r}", "it was deleted, and made again")
        try:
            whole = fold.whole_of(restored.snapshot) if restored.snapshot else None
            fold.verify(restored, at)
            await self._check_place(key, restored)
        except SnapshotDamaged:
            version = await self._drop_damaged(key, restored, dropped)
            return await self.restore(key, at, dropped | {version}, uid)
        try:
            return await self._folded(key, restored, whole)
        except fold.Pruned as exc:
            raise await self._gone(restored.row, at, exc.version) from exc

    async def _folded(self, key: ThreadKey, restored: Restored, whole: WholeState | None) -> Head:
        head = await self._start(key, restored, whole)
        changes = await self._changes(key, restored, head)
        return await self._advanced(key, head, restored, changes)

    async def fold(self, key: ThreadKey, restored: Restored, *, is_linked: bool) -> Head | None:
        """The head of what was restored already; None where it is damaged, and the storage has to be asked.

        `is_linked`: whoever restored it has checked that it leads, link by link, to the head that its row names.
        """
        try:
            whole = fold.whole_of(restored.snapshot) if restored.snapshot else None
            if not is_linked:
                fold.verify(restored, None)
                await self._check_place(key, restored)
            return await self._folded(key, restored, whole)
        except (SnapshotDamaged, DamagedError, fold.Pruned):
            return None

    async def _gone(self, row: ThreadRow, at: int | None, empty: int) -> Exception:
        """Why a payload is missing: it was pruned, or somebody took it away."""
        seams = await self._storage.seams(row.key)
        version = row.head if at is None else at
        if not seams.is_gone(version):
            return EntryDamagedError(row.key.id, empty, "is empty, and nothing stands for it")
        near = " and ".join(f"@{each}" for each in seams.nearest(version, row.head))
        return NotFoundError(f"version {version} of thread {row.key.id!r}", f"it was pruned; next to it are {near}")

    async def _check_place(self, key: ThreadKey, restored: Restored) -> None:
        """A snapshot with nothing after it, below the head: only the entry it was made after can vouch for it."""
        snapshot = restored.snapshot
        if fold.straddled(snapshot, restored.records):
            raise SnapshotDamaged
        if snapshot is None or restored.entries or snapshot.version == restored.row.head or snapshot.base:
            return
        vouching = await self._storage.headers(key, at=snapshot.version)
        if not vouching or vouching[0].chain != snapshot.chain:
            raise SnapshotDamaged

    async def catch_up(self, key: ThreadKey, head: Head) -> Head:
        """Bring a known head to the newest version in place, reading only what is new."""
        start, chain = head.last, head.chain
        restored = await self._storage.restore(key, after=start)
        if restored is not None and not restored.entries and head.uid == restored.row.uid and head.last == start:
            row = restored.row
            if row.head == start and row.head_digest == chain:
                head.checkpoint = row.last_checkpoint
                return head  # most often nobody wrote meanwhile
        if restored is None or restored.row.uid != head.uid or restored.row.head < start:
            return await self.restore(key)
        if not restored.entries and restored.row.head_digest != chain:
            return await self.restore(key)
        try:
            fold.verify(restored, None, start, chain)
        except EntryDamagedError:
            # A server may show a commit that a crash then undoes: what was read is not this log's past. From its
            # beginning the log vouches for itself, or is damaged indeed.
            return await self.restore(key)
        if any(record.low < start for record in restored.records):
            # The known state lies inside a range that was made one since: its change would be applied twice.
            return await self.restore(key)
        try:
            changes = await self._changes(key, restored, head)
        except fold.Pruned:
            return await self.restore(key)
        if changes is None:
            return await self.restore(key)  # change by change, in a document that nobody else has
        if head.last != start:
            # Somebody else of this process advanced it while we read: applying a change twice would be wrong.
            return await self.catch_up(key, head)
        return await self._advanced(key, head, restored, changes)

    async def _drop_damaged(self, key: ThreadKey, restored: Restored, dropped: frozenset[int]) -> int:
        """A derived whole state that is damaged is dropped and done without; nothing can replace a base."""
        snapshot = restored.snapshot
        if snapshot is None or snapshot.base or snapshot.version in dropped:
            version = snapshot.version if snapshot else 0
            raise CheckpointDamagedError(f"(base at version {version})", key.id)
        self._telemetry.log("warning", "a damaged snapshot was dropped", thread=key.id, version=snapshot.version)
        self._telemetry.count("perdure.snapshots.damaged")
        await self._storage.drop_snapshot(key, snapshot.version)
        return snapshot.version

    async def _start(self, key: ThreadKey, restored: Restored, whole: WholeState | None) -> Head:
        snapshot = restored.snapshot
        if whole is None or snapshot is None:
            return Head(uid=restored.row.uid)
        document = fold.document_of(whole, await self.bodies(key, whole.blobs), self.limits)
        own = snapshot.version > restored.row.parent_version and not snapshot.base
        return Head(
            uid=restored.row.uid,
            version=min(restored.row.state_version, snapshot.version),
            last=snapshot.version,
            chain=snapshot.chain,
            document=document,
            room=document.size,
            apart=whole.apart,
            rolling=snapshot.version if own and not whole.landmark else 0,
            spare=whole.spare if own else 0,
        )

    async def bodies(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Large values by their digests, as far as they are there, checked."""
        if not digests:
            return {}
        found = await self._storage.blobs(key, digests)
        self.limits.check_size(
            sum(map(claimed, found.values())), f"a change of thread {key.id!r} with its large values"
        )
        return {digest: blobs.checked(digest, payload) for digest, payload in found.items()}

    async def _changes(self, key: ThreadKey, restored: Restored, head: Head) -> Changes | None:
        """All changes with their large values, where they are small together: then no state can be too large by them.

        None for others: they are read one by one, so that a long log takes no more memory than its state.
        """
        weights = [weight(each.payload or b"") for each in restored.entries if each.changes_state]
        added = sum(weights) + sum(weight(each.payload) for each in restored.records)
        if head.document.size + added > self.limits.nodes:
            return None
        changes = fold.changes_in(key.id, restored)
        digests = [digest for change in changes for digest in change.blobs]
        if not digests:
            return changes, {}, weights
        found = await self._storage.blobs(key, digests)
        added += sum(claimed(found.get(digest, b"")) for digest in digests)
        if head.document.size + added > self.limits.nodes:
            return None
        return changes, {digest: blobs.checked(digest, payload) for digest, payload in found.items()}, weights

    async def _advanced(self, key: ThreadKey, head: Head, restored: Restored, known: Changes | None) -> Head:
        """Fold the changes into a head."""
        entries = [entry for entry in restored.entries if entry.changes_state]
        if known is None:
            head.nodes = await self._fold_each(key, head.document, restored)
            weights = [weight(each.payload or b"") for each in entries]
        else:
            changes, bodies, weights = known
            if entries:
                fold.apply(key.id, head.document, entries, changes, bodies, self.limits)
        if entries:
            # A fork's own changes count: the weight of its parents' is no reason to write their state anew beside them.
            own = sum(1 for each in entries if each.version > restored.row.parent_version)
            head.since += sum(weights[len(entries) - own :])
            head.count += own
            head.room += sum(weights) + sum(weight(each.payload) for each in restored.records)
            head.version = entries[-1].version
            head.unchanged = Unchanged()
        head.checkpoint = restored.row.last_checkpoint
        if restored.entries:
            head.last, head.chain = restored.entries[-1].version, restored.entries[-1].chain
        return head

    async def _fold_each(self, key: ThreadKey, document: Document, restored: Restored) -> int:
        """Fold change by change; return the nodes of the state, which may never be too large on the way."""
        what, unchecked = f"the state of thread {key.id!r}", 0
        self.limits.check_document(document, what)
        for entry, change in fold.each_change(key.id, restored):
            bodies = await self.bodies(key, change.blobs)
            fold.apply(key.id, document, [entry], [change], bodies, self.limits)
            unchecked += sum(map(op_weight, change.ops)) + sum(map(len, bodies.values()))
            if unchecked > self.limits.nodes:
                self.limits.check_document(document, what)
                unchecked = 0
        return self.limits.check_document(document, what)


_NEAR = 500  # versions: what is further apart is nearer to a whole state of its own


async def walk(
    storage: Storage, restorer: Restorer, key: ThreadKey, versions: Sequence[int]
) -> AsyncIterator[tuple[int, Document]]:
    """The states at these versions, which rise. Those that were pruned meanwhile are left out.

    The document is the same one from version to version: it is to be read before the next one is asked for.
    """
    for near in _stretches(versions):
        done = 0
        try:
            async for version, document in _folded(storage, restorer, key, near):
                done += 1
                yield version, document
        except (fold.Pruned, DamagedError, NotFoundError):
            # Something, or one of them cannot be read: each by itself tells which.
            async for found in _one_by_one(restorer, key, near[done:]):
                yield found


def _stretches(versions: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for version in versions:
        if found and version - found[-1][-1] <= _NEAR:
            found[-1].append(version)
        else:
            found.append([version])
    return found


async def _one_by_one(
    restorer: Restorer, key: ThreadKey, versions: Sequence[int]
) -> AsyncIterator[tuple[int, Document]]:
    for version in versions:
        try:
            head = await restorer.restore(key, version)
        except NotFoundError:
            continue  # dropped a moment ago
        if head.uid is not None:
            yield version, head.document


async def _folded(
    storage: Storage, restorer: Restorer, key: ThreadKey, versions: Sequence[int]
) -> AsyncIterator[tuple[int, Document]]:
    head = await restorer.restore(key, versions[0])
    if head.uid is None:
        return  # the whole thread was deleted
    yield versions[0], head.document
    rest = await storage.restore(key, at=versions[-1], after=head.last) if len(versions) > 1 else None
    if rest is None:
        return
    changes = _changes(key, head, rest, versions)
    wanted, added = set(versions), head.document.size
    for entry in rest.entries:
        if entry.version in changes:
            change = changes[entry.version]
            bodies = await restorer.bodies(key, change.blobs)
            fold.apply(key.id, head.document, [entry], [change], bodies, restorer.limits)
            added += sum(map(op_weight, change.ops)) + sum(map(len, bodies.values()))
            if added > restorer.limits.nodes:
                restorer.limits.check_document(head.document, f"the state of thread {key.id!r}")
                added = 0
        if entry.version in wanted:
            yield entry.version, head.document


def _changes(key: ThreadKey, head: Head, rest: Restored, versions: Sequence[int]) -> dict[int, StateChange]:
    """The checked changes after a head, by version. Raises `Pruned` where they do not lead through all versions."""
    if rest.row.uid != head.uid:
        raise fold.Pruned(versions[0])
    fold.verify(rest, versions[-1], head.last, head.chain)
    for record in rest.records:
        inside = next((version for version in versions if record.low < version < record.version), None)
        if inside is not None:
            raise fold.Pruned(inside)  # it was made a part of a range since it was listed
    changes: dict[int, StateChange] = {}
    for entry, step in fold.walk(key.id, rest.entries, rest.records):
        if isinstance(step, WholeState):
            raise fold.Pruned(entry.version)
        if step is not None:
            changes[entry.version] = (
                step if isinstance(step, StateChange) else StateChange(step.ops, step.mark, step.to, step.blobs)
            )
    return changes
