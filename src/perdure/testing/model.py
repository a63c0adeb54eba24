"""A storage in plain words: what the contract says, with lists and dicts, slow and obvious.

It knows nothing of `core.writes`. A fork copies its parent's history, a search walks through everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.codec import decode
from perdure.core.entries import STATE_KINDS, EntryKind
from perdure.core.errors import (
    KeyReusedError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    ThreadExistsError,
    VersionConflictError,
)
from perdure.core.identity import ThreadKey
from perdure.core.threads import ANY_STATUS, Lease, ThreadQuery, ThreadRow, Which
from perdure.core.writes import Snapshot, Write
from perdure.storage.contract import BLOB_GRACE

BlobKey = tuple[str, str, bytes]


@dataclass(frozen=True)
class Line:
    """An entry, without what is computed from the others."""

    version: int
    kind: EntryKind
    micros: int
    actor: str | None
    write_id: bytes
    key: str | None
    payload: bytes


@dataclass(frozen=True)
class Outcome:
    """What a caller is told of a write."""

    version: int
    state_version: int
    before: int
    again: bool
    checkpoint: CheckpointRow | None


@dataclass
class Thread:
    """A thread with its whole history, its parents' part included."""

    row: ThreadRow
    lines: list[Line] = field(default_factory=lambda: [])
    marks: list[CheckpointRow] = field(default_factory=lambda: [])
    done: dict[str, tuple[bytes | None, Outcome]] = field(default_factory=lambda: {})  # by idempotency key
    written: list[tuple[bytes, int, Outcome]] = field(default_factory=lambda: [])  # write id, its first version
    lineage: list[tuple[str, int | None]] = field(default_factory=lambda: [])  # whose versions, up to which

    @property
    def state_version(self) -> int:
        return max((line.version for line in self.lines if line.kind in STATE_KINDS), default=0)

    @property
    def own(self) -> list[Line]:
        """What came after its parents' part."""
        return [line for line in self.lines if line.version > self.row.parent_version]

    @property
    def run(self) -> int:
        return max((line.version for line in self.own if line.kind is EntryKind.RUN_STARTED), default=0)


class Model:
    """The contract, played on dicts."""

    def __init__(self) -> None:
        self.threads: dict[ThreadKey, Thread] = {}
        self.snapshots: dict[tuple[str, int], Snapshot] = {}
        self.blobs: dict[BlobKey, int] = {}  # when each was touched last
        self.uses: set[tuple[str, int, BlobKey]] = set()  # (thread, version, large value)
        self.kept: dict[str, bytes] = {}

    def append(self, write: Write) -> Outcome:
        thread = self.threads.get(write.key)
        earlier = self._earlier(thread, write) if thread else None
        if earlier is not None:
            return earlier
        self._refuse(thread, write)
        if thread is None:
            thread = self.threads[write.key] = self._new(write)
        return self._add(thread, write)

    def _earlier(self, thread: Thread, write: Write) -> Outcome | None:
        found = None
        if write.idem_key in thread.done:
            request, found = thread.done[write.idem_key]
            if request != write.request:
                raise KeyReusedError(write.key.id, write.idem_key, found.version)
        else:
            found = self._retried(thread, write)
        if found is None:
            return None
        return Outcome(found.version, found.state_version, thread.state_version, True, found.checkpoint)

    def _retried(self, thread: Thread, write: Write) -> Outcome | None:
        after = write.since
        if after is None and write.expected not in (None, thread.state_version):
            after = write.expected
        if after is None:
            return None
        tries = [made for name, first, made in thread.written if name == write.write_id and first > after]
        return tries[0] if tries else None

    def _refuse(self, thread: Thread | None, write: Write) -> None:
        if thread is None:
            if write.uid is not None or write.epoch is not None:
                raise NotFoundError("thread")
            if write.expected not in (None, 0) or write.after_run not in (None, 0):
                raise VersionConflictError(write.key.id, write.expected or 0, 0)
            return
        row = thread.row
        if write.uid not in (None, row.uid):
            raise VersionConflictError(write.key.id, 0, 0)
        if write.epoch is not None and (row.lease_owner is None or write.epoch != row.epoch):
            raise LeaseLostError(write.key.id, write.epoch, row.epoch)
        free = any((write.epoch is not None, row.lease_owner is None, row.lease_until <= write.micros, write.commutes))
        if not free and any(entry.kind in STATE_KINDS for entry in write.entries):
            raise LeaseHeldError(write.key.id, str(row.lease_owner))
        if write.expected not in (None, thread.state_version):
            raise VersionConflictError(write.key.id, write.expected or 0, thread.state_version)
        if write.after_run not in (None, thread.run):
            raise VersionConflictError(write.key.id, write.after_run or 0, thread.run)

    def _new(self, write: Write) -> Thread:
        row = ThreadRow(key=write.key, uid=write.new_uid, created=write.micros, updated=write.micros)
        return Thread(row, lineage=[(row.uid, None)])

    def _add(self, thread: Thread, write: Write) -> Outcome:
        before, row = thread.state_version, thread.row
        now = max([write.micros] + [line.micros for line in thread.lines] + [row.updated])
        for at, entry in enumerate(write.entries):
            key = write.idem_key if at == 0 else None
            version = len(thread.lines) + 1
            thread.lines.append(Line(version, entry.kind, now, entry.actor, write.write_id, key, entry.payload))
        mark = self._mark(thread, write, now)
        changed = thread.state_version if thread.state_version > before else 0
        outcome = Outcome(len(thread.lines), changed, before, False, mark)
        thread.written.append((write.write_id, outcome.version - len(write.entries) + 1, outcome))
        if write.idem_key is not None:
            thread.done[write.idem_key] = (write.request, outcome)
        self._touch(thread, write)
        thread.row = _patched(thread, write, now)
        return outcome

    def _mark(self, thread: Thread, write: Write, now: int) -> CheckpointRow | None:
        mark, last = write.checkpoint, len(thread.lines)
        if mark is None:
            return None
        row = CheckpointRow(
            mark=msgspec.structs.replace(mark, parent=None, version=None),
            thread_id=write.key.id,
            user=write.key.user,
            version=mark.version or last,
            entry=last,
            parent=mark.parent or (thread.marks[-1].mark.id if thread.marks else None),
            micros=now,
        )
        thread.marks.append(row)
        return row

    def _touch(self, thread: Thread, write: Write) -> None:
        for blob in write.blobs:
            key = (write.key.namespace, write.key.user, blob.digest)
            self.blobs[key] = max(self.blobs.get(key, 0), write.micros)
            self.uses.add((thread.row.uid, len(thread.lines), key))

    def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        parent = self.threads.get(source)
        if parent is None or not 0 <= version <= len(parent.lines):
            raise NotFoundError("version")
        if target.key in self.threads:
            return self._forked_before(self.threads[target.key].row, parent.row.uid, version, target)
        shared = [(uid, version if bound is None else min(bound, version)) for uid, bound in parent.lineage]
        child = Thread(target, parent.lines[:version], lineage=[(target.uid, None), *shared])
        child.marks = [_as_of(mark, target.key) for mark in parent.marks if mark.entry <= version]
        child.row = msgspec.structs.replace(
            target,
            head=version,
            state_version=child.state_version,
            last_checkpoint=child.marks[-1].mark.id if child.marks else None,
            parent_uid=parent.row.uid,
            parent_version=version,
            updated=max([target.created] + [line.micros for line in child.lines]),
        )
        self.threads[target.key] = child
        return child.row

    def _forked_before(self, row: ThreadRow, parent: str, version: int, target: ThreadRow) -> ThreadRow:
        if row.uid == target.uid and row.parent_uid == parent and row.parent_version == version:
            return row
        raise ThreadExistsError(target.key.id)

    def delete(self, key: ThreadKey) -> bool:
        return self.threads.pop(key, None) is not None

    def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        thread = self.threads.get(key)
        if thread is None or thread.row.uid != uid:
            return False
        self.snapshots[uid, snapshot.version] = snapshot
        return True

    def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        for uid, found in list(self.visible_snapshots(key)):
            if found.version == version and not found.base:
                del self.snapshots[uid, version]

    def visible_snapshots(self, key: ThreadKey) -> Iterator[tuple[str, Snapshot]]:
        thread = self.threads.get(key)
        for uid, bound in thread.lineage if thread else []:
            for (owner, version), snapshot in list(self.snapshots.items()):
                if owner == uid and (bound is None or version <= bound):
                    yield uid, snapshot

    def claim(self, key: ThreadKey, owner: str, until: int, now: int, take_from: str | None) -> Lease:
        row = self._thread(key).row
        if row.lease_owner not in (None, take_from) and row.lease_until > now:
            raise LeaseHeldError(key.id, str(row.lease_owner))
        self._change(key, epoch=row.epoch + 1, lease_owner=owner, lease_until=until, wake_at=None)
        return Lease(owner=owner, epoch=row.epoch + 1, until=until)

    def renew(self, key: ThreadKey, epoch: int, until: int) -> Lease:
        row = self._leased(key, epoch)
        self._change(key, lease_until=max(row.lease_until, until))
        return Lease(owner=str(row.lease_owner), epoch=epoch, until=max(row.lease_until, until))

    def release(self, key: ThreadKey, epoch: int, wake_at: int | None) -> None:
        row = self._leased(key, epoch)
        if wake_at is None or (row.wake_at is not None and row.wake_at < wake_at):
            wake_at = row.wake_at
        self._change(key, lease_owner=None, lease_until=0, wake_at=wake_at)

    def _leased(self, key: ThreadKey, epoch: int) -> ThreadRow:
        row = self._thread(key).row
        if row.lease_owner is None or row.epoch != epoch:
            raise LeaseLostError(key.id, epoch, row.epoch)
        return row

    def _thread(self, key: ThreadKey) -> Thread:
        if key not in self.threads:
            raise NotFoundError("thread")
        return self.threads[key]

    def _change(self, key: ThreadKey, **fields: object) -> None:
        thread = self.threads[key]
        thread.row = msgspec.structs.replace(thread.row, **fields)

    def due(
        self, namespace: str, now: int, agents: list[str] | None, which: Which = ANY_STATUS
    ) -> list[tuple[int, ThreadKey]]:
        """When each due thread became due, oldest first."""
        found: list[tuple[int, ThreadKey]] = []
        for key, thread in self.threads.items():
            row = thread.row
            at = row.lease_until if row.lease_owner is not None else row.wake_at
            asked = agents is None or (row.agent or "") in agents
            asked = asked and (not which.statuses or row.status in which.statuses)
            asked = asked and (bool(which.statuses) or row.status not in which.never)
            left = row.status in which.left and at is not None and at < which.since
            left = row.status in which.cut_off if row.lease_owner is not None else left
            if key.namespace == namespace and at is not None and at <= now and asked and not left:
                found.append((at, key))
        return sorted(found, key=lambda each: each[0])

    def keyed(self, key: ThreadKey, idem_key: str) -> Line | None:
        lines = self.threads[key].own if key in self.threads else []
        return next((line for line in lines if line.key == idem_key), None)

    def under(self, key: ThreadKey, prefix: str) -> list[Line]:
        lines = self.threads[key].lines if key in self.threads else []
        return [line for line in lines if line.key is not None and line.key[: len(prefix)] == prefix]

    def line(self, uid: str) -> ThreadRow | None:
        return next((thread.row for thread in self.threads.values() if thread.row.uid == uid), None)

    def list_threads(self, query: ThreadQuery) -> list[ThreadRow]:
        rows = [thread.row for thread in self.threads.values() if _is_listed(thread.row, query)]
        rows.sort(key=lambda row: (row.updated, row.uid), reverse=True)
        return rows[: query.limit]

    def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        thread = self.threads.get(key)
        rows = list(reversed(thread.marks)) if thread else []
        if query.before is not None:
            names = [row.mark.id for row in rows]
            rows = rows[names.index(query.before) + 1 :] if query.before in names else []
        return [row for row in rows if _is_wanted(row, query)][: query.limit]

    def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        rows = [
            mark
            for key, thread in self.threads.items()
            if key.namespace == namespace and user in (None, key.user)
            for mark in thread.marks
            if mark.entry > thread.row.parent_version
        ]
        rows.sort(key=lambda row: row.mark.id, reverse=True)
        older = [row for row in rows if query.before is None or row.mark.id < query.before]
        return [row for row in older if _is_wanted(row, query)][: query.limit]

    def keep(self, name: str, value: bytes) -> bytes:
        if name not in self.kept:
            self.kept[name] = value
        return self.kept[name]

    def must_stay(self, blob: BlobKey, now: int) -> bool:
        """Whether a large value may not be swept: it is young, or some thread's history refers to it."""
        return self.blobs[blob] > now - BLOB_GRACE or any(
            (bound is None or version <= bound) and uid == user and key == blob
            for thread in self.threads.values()
            for uid, bound in thread.lineage
            for user, version, key in self.uses
        )

    def must_go(self, blob: BlobKey, now: int) -> bool:
        """Whether a sweep has to remove a large value: it is old, and no thread's ancestor ever referred to it."""
        alive = {uid for thread in self.threads.values() for uid, _ in thread.lineage}
        used = any(uid in alive and key == blob for uid, _, key in self.uses)
        return self.blobs[blob] <= now - BLOB_GRACE and not used


def _patched(thread: Thread, write: Write, now: int) -> ThreadRow:
    changes = {name: getattr(write.patch, name) for name in write.patch.__struct_fields__}
    changes = {name: value for name, value in changes.items() if value is not None}
    if changes.pop("trusted"):
        changes["quarantined_at"] = None
    if changes.pop("if_status", thread.row.status) != thread.row.status:
        changes.pop("wake_at", None)
    if changes.get("wake_at") == 0:
        changes["wake_at"] = None
    if write.epoch is not None:
        changes["lease_until"] = max(thread.row.lease_until, write.renew_until)
    last = thread.marks[-1].mark.id if thread.marks else None
    return msgspec.structs.replace(
        thread.row,
        head=len(thread.lines),
        state_version=thread.state_version,
        run=thread.run,
        last_checkpoint=last,
        updated=now,
        **changes,
    )


def _as_of(mark: CheckpointRow, key: ThreadKey) -> CheckpointRow:
    return msgspec.structs.replace(mark, thread_id=key.id, user=key.user)


def _is_listed(row: ThreadRow, query: ThreadQuery) -> bool:
    if query.before is not None and (row.updated, row.uid) >= query.before:
        return False
    if query.tag is not None and query.tag not in row.tags:
        return False
    wanted = {"agent": query.agent, "status": query.status}
    named = all(value in (None, getattr(row, name)) for name, value in wanted.items())
    return named and row.key.namespace == query.namespace and query.user in (None, row.key.user)


def _is_wanted(row: CheckpointRow, query: CheckpointQuery) -> bool:
    have = decode(row.mark.metadata)
    for name, value in (query.metadata or {}).items():
        if name not in have or type(have[name]) is not type(value) or have[name] != value:
            return False
    wanted = {"id": query.id, "kind": query.kind, "status": query.status, "agent": query.agent}
    named = all(value in (None, getattr(row.mark, name)) for name, value in wanted.items())
    early = query.since is not None and row.micros < query.since
    late = query.until is not None and row.micros >= query.until
    return named and not early and not late
