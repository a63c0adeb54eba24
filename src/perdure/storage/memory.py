"""The storage that lives as long as its process: for tests and small tools, and the plainest form of the contract."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from perdure.core import transfer
from perdure.core.checkpoint import MAX_LIMIT, CheckpointQuery, CheckpointRow, each_once, matches, without_left
from perdure.core.derived import Derived, mended, same_line
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import NotFoundError, StorageClosedError
from perdure.core.forks import needed, same_fork
from perdure.core.identity import ThreadKey, same_owner
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies
from perdure.core.ports import Silence, Telemetry
from perdure.core.pruning import BLANK, Pruning, Record, WholeLog, check_current
from perdure.core.quarantine import shares_past, with_standing_of
from perdure.core.seams import Rewind, Seams, check_there, within
from perdure.core.threads import ANY_STATUS, Lease, ThreadQuery, ThreadRow, Which, is_among, is_due, is_wanted, listed
from perdure.core.transfer import ThreadCopy
from perdure.core.verification import Damage
from perdure.core.writes import (
    Appended,
    Restored,
    RowChange,
    Sizes,
    Snapshot,
    Write,
    accepted,
    admit,
    base_of,
    base_record,
    checkpoint_row,
    claimed,
    deleted,
    found_again,
    lease_of,
    released,
    renewed,
    same_request,
    stamped,
)
from perdure.storage.contract import BLOB_GRACE, NEVER, SCHEMA, Leftovers, Migrate, Schema, Watch
from perdure.storage.lineage import Span, spans
from perdure.storage.ports import PollingWatch, pause_anywhere
from perdure.storage.shelf import Shelved


class _Log:
    """Everything kept for one thread.

    A write is made by one step, that moves the head or puts a log into the place of another: a Ctrl-C may come between
    any two. What an interrupted one left behind the head is dropped when somebody looks at the log.
    """

    def __init__(self, row: ThreadRow) -> None:
        self.row = row
        self.is_half_written = False
        self.entries: list[Entry] = []
        self.snapshots: dict[int, Snapshot] = {}
        self.checkpoints: list[CheckpointRow] = []
        self.keys: dict[str, int] = {}
        self.blobs: dict[bytes, int] = {}  # by digest: the first version that refers to it
        self.rewinds: list[Rewind] = []
        self.records: list[Record] = []  # of pruned ranges, bases left to the snapshots

    def copy(self) -> _Log:
        """The same in lists and dicts of its own, for changes that become visible together."""
        log = _Log(self.row)
        log.entries, log.checkpoints = list(self.entries), list(self.checkpoints)
        log.rewinds, log.records = list(self.rewinds), list(self.records)
        log.snapshots, log.keys, log.blobs = dict(self.snapshots), dict(self.keys), dict(self.blobs)
        return log

    def settled(self) -> _Log:
        """The log without what an interrupted write left behind its head."""
        head = self.row.head
        if self.is_half_written:
            del self.entries[head - self.row.parent_version :]
            self.checkpoints = [mark for mark in self.checkpoints if mark.entry <= head]
            self.rewinds = [rewind for rewind in self.rewinds if rewind.entry <= head]
            self.keys = {key: version for key, version in self.keys.items() if version <= head}
            self.blobs = {digest: version for digest, version in self.blobs.items() if version <= head}
            self.is_half_written = False
        return self

    def within(self, span: Span) -> list[Entry]:
        start = self.row.parent_version
        return self.entries[max(span.low - start, 0) : max(span.high - start, 0)]

    def under(self, prefix: str, span: Span) -> list[Entry]:
        versions = sorted(version for key, version in self.keys.items() if key.startswith(prefix))
        return [self.at(version) for version in versions if span.low < version <= span.high]

    def at(self, version: int) -> Entry:
        return self.entries[version - self.row.parent_version - 1]


class _Blob:
    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.touched = 0


class MemoryStorage:
    """Keeps the whole contract in dicts, under one lock."""

    reuses_room = True
    packs_from = packs_records_from = NEVER

    def __init__(self, *, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry or Silence()
        self._lock = threading.RLock()
        self._by_key: dict[ThreadKey, str] = {}
        self._logs: dict[str, _Log] = {}
        self._blobs: dict[tuple[str, str, bytes], _Blob] = {}
        self._kept: dict[str, bytes] = {}
        self._lines = Shelved(self)
        self._closed = False

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        self._check_open()
        return Schema(schema=SCHEMA, min_reader=SCHEMA, min_writer=SCHEMA)

    def migration(self) -> Sequence[str]:
        return ()

    async def append(self, write: Write) -> Appended:
        with self._open():
            log = self._log(write.key)
            again = log and self._again(log, write)
            if again:
                return again
            if log is None and write.new_uid in self._logs:
                raise deleted(write)
            before = admit(log.row if log else None, write)
            if log is not None and write.pruning is not None:
                self._check_current(log, write.pruning)
            if log is not None and write.goal is not None:
                check_there(write.key.id, write.goal, [record.gone for record in self._all_records(log)])
            after, entries = stamped(before, write)
            if log is not None:
                return self._commit(log, write, before, after, entries)
            log = _Log(before)
            made = self._commit(log, write, before, after, entries)
            self._show(log)
            return made

    def _again(self, log: _Log, write: Write) -> Appended | None:
        first = log.keys.get(write.idem_key) if write.idem_key is not None else None
        if first is not None:
            same_request(write, log.at(first).request, first)
        else:
            first = self._retried(log, write)
        if first is None:
            return None
        return found_again(log.row, log.within(Span(first - 1, log.row.head)), lambda last: _mark_at(log, last))

    def _retried(self, log: _Log, write: Write) -> int | None:
        since = write.since if write.since is not None else write.expected
        stale = write.since is not None or write.expected not in (None, log.row.state_version)
        newer = log.within(Span(since or 0, log.row.head)) if stale else ()
        return next((entry.version for entry in newer if entry.write_id == write.write_id), None)

    def _commit(self, log: _Log, write: Write, before: ThreadRow, after: ThreadRow, entries: list[Entry]) -> Appended:
        log = log if write.pruning is None else log.copy()
        log.is_half_written = True
        log.entries.extend(entries)
        if write.idem_key is not None:
            log.keys[write.idem_key] = entries[0].version
        for blob in write.blobs:
            kept = self._blobs.setdefault((write.key.namespace, write.key.user, blob.digest), _Blob(blob.payload))
            kept.touched = max(kept.touched, write.micros)
            log.blobs.setdefault(blob.digest, after.head)
        mark = checkpoint_row(before, after, write.checkpoint) if write.checkpoint else None
        log.checkpoints.extend((mark,) if mark else ())
        if write.back_to is not None:
            log.rewinds.append(Rewind(after.head, write.back_to))
        if write.pruning is not None:
            _prune(log, before.head, write.pruning)
        log.row = after
        log.is_half_written = False
        if write.pruning is not None:
            self._logs[after.uid] = log
        return accepted(before, after, mark)

    def _check_current(self, log: _Log, pruning: Pruning) -> None:
        newer = [entry.kind for entry in log.within(Span(pruning.seen, log.row.head))]
        check_current(log.row, pruning, self._needed(log), newer)

    def _needed(self, log: _Log) -> list[int]:
        targets = {uid: [rewind.to for rewind in each.rewinds] for uid, each in self._logs.items()}
        return needed(log.row.uid, [each.row for each in self._logs.values()], targets)

    def _show(self, log: _Log) -> None:
        self._logs[log.row.uid] = log
        self._by_key[log.row.key] = log.row.uid

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        with self._open():
            log = self._log(key)
            version = log.keys.get(idem_key) if log else None
            return log.at(version) if log and version else None

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        with self._open():
            log = self._log(key)
            pieces = self._spans(log, log.row.head) if log else []
            return [entry for each, span in reversed(pieces) for entry in each.under(prefix, span)]

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        with self._open():
            log = self._log(key)
            if log is None:
                return None
            top = log.row.head if at is None else at
            snapshot = self._newest_snapshot(log, top) if after is None else None
            low = after if after is not None else snapshot.version if snapshot else 0
            entries = [_lean(entry) for entry in self._range(log, low, top)]
            records = [record for record in self._records(log, top) if record.version > low]
            return Restored(row=log.row, snapshot=snapshot, entries=entries, records=records)

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        with self._open():
            log = self._log(key)
            found = self._range(log, after, log.row.head) if log else []
            return [entry for entry in found if kinds is None or entry.kind in kinds][:limit]

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        with self._open():  # which may be taken again inside
            log = self._log(key)
            if log is None:
                return None
            rewinds = self._rewinds(log)
            marks = await self.checkpoints(key, CheckpointQuery(limit=MAX_LIMIT)) if checkpoints else []
            return WholeLog(
                row=log.row,
                entries=await self.entries(key, after=after, kinds=None if rewinds else kinds),
                records=[each for each in await self.records(key) if each.version > after],
                rewinds=rewinds,
                checkpoints=[mark for mark in reversed(marks) if mark.entry > after],
            )

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        with self._open():
            log = self._log(key)
            newest = self._newest_first(log, log.row.head if at is None else at) if log else iter(())
            wanted = (
                msgspec.structs.replace(entry, payload=None)
                for entry in newest
                if (until is None or entry.micros <= until) and (kinds is None or entry.kind in kinds)
            )
            return list(islice(wanted, limit))

    async def seams(self, key: ThreadKey) -> Seams:
        with self._open():
            log = self._log(key)
            gone = [record.gone for record in self._all_records(log)] if log else []
            return Seams(self._rewinds(log) if log else [], sorted(gone))

    async def records(self, key: ThreadKey) -> list[Record]:
        with self._open():
            log = self._log(key)
            return sorted(self._all_records(log), key=lambda each: each.version) if log else []

    async def forks(self, key: ThreadKey) -> list[int]:
        with self._open():
            log = self._log(key)
            return self._needed(log) if log else []

    async def derived(self, key: ThreadKey) -> Derived | None:
        with self._open():
            log = self._log(key)
            if log is None:
                return None
            return Derived(
                row=log.row,
                checkpoints=list(log.checkpoints),
                rewinds=list(log.rewinds),
                uses=dict(log.blobs),
                snapshots=sorted(at for at, snapshot in log.snapshots.items() if not snapshot.base),
                beyond=[entry for entry in log.entries if entry.version > log.row.head],
                records=[record for record in _records_of(log) if record.version > log.row.head],
            )

    async def reindex(self, seen: ThreadRow, made: Derived) -> bool:
        with self._open():
            log = self._log(seen.key)
            if log is None or not same_line(log.row, seen):
                return False
            self._lines.drop(log.row)
            log = log.copy()
            log.row = mended(log.row, made.row)
            log.checkpoints, log.rewinds, log.blobs = list(made.checkpoints), list(made.rewinds), dict(made.uses)
            log.snapshots = {at: each for at, each in log.snapshots.items() if each.base or at <= made.row.head}
            self._logs[log.row.uid] = log
            return True

    async def strays(self) -> dict[str, int]:
        return {}  # a log and its line are one object

    async def integrity(self) -> list[str]:
        return []

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        with self._open():
            log = self._log(key)
            if log is None or log.row.uid != uid:
                return False
            known = log.snapshots.get(snapshot.version)
            if known is None or snapshot.base or not known.base:
                log.snapshots[snapshot.version] = snapshot
            for digest in snapshot.blobs:
                log.blobs.setdefault(digest, snapshot.version)
            return True

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        with self._open():
            log = self._log(key)
            for each, span in self._spans(log, log.row.head) if log else ():
                known = each.snapshots.get(version)
                if known and not known.base and version <= span.high:
                    del each.snapshots[version]

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        with self._open():
            log = self._log(key)
            return _page(self._marks(log), without_left(query, self._rewinds(log), log.row.head)) if log else []

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        with self._open():
            marks = (mark for log in self._visible(namespace, user) for mark in log.checkpoints)
            rows = [mark for mark in marks if query.before is None or mark.mark.id < query.before]
            newest = sorted(each_once(rows), key=lambda row: row.mark.id, reverse=True)
            return [row for row in newest if matches(row, query)][: query.limit]

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        with self._open():
            logs = sorted(self._visible(namespace, user), key=lambda log: log.row.is_quarantined)
            rows = (mark for log in logs for mark in log.checkpoints)
            return next((mark for mark in rows if mark.mark.id == checkpoint_id), None)

    async def projection(self, key: ThreadKey) -> Projection | None:
        return await self._lines.projection(key)

    async def project(self, made: Projected) -> bool:
        return await self._lines.project(made)

    async def unprojected(self, owner: Owner, limit: int = 100) -> list[ThreadRow]:
        return await self._lines.unprojected(owner, limit)

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        return await self._lines.messages(of, query)

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        return await self._lines.current(of, query)

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        return await self._lines.tally(of, query)

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        with self._open():
            log = self._log(key)
            return log.row if log else None

    async def line(self, uid: str) -> ThreadRow | None:
        with self._open():
            log = self._logs.get(uid)
            return log.row if log and self._by_key.get(log.row.key) == uid else None

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        with self._open():
            return [log.row for log in self._visible(namespace, None) if log.row.key.id == thread_id]

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        with self._open():
            rows = [log.row for log in self._visible(query.namespace, query.user) if listed(log.row, query)]
            return sorted(rows, key=lambda row: (row.updated, row.uid), reverse=True)[: query.limit]

    async def namespaces(self) -> list[str]:
        with self._open():
            return sorted({key.namespace for key in self._by_key})

    async def damaged(self) -> list[Damage]:
        return []

    async def mend(self, key: ThreadKey) -> list[str]:
        return []

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        with self._open():
            log = self._log(source)
            if log is None or not 0 <= version <= log.row.head:
                raise NotFoundError(f"version {version} of thread {source.id!r}")
            check_there(source.id, version, [each.gone for each in self._all_records(log)])
            standing = self._log(target.key)
            if standing is not None:
                return same_fork(standing.row, log.row.uid, version, target)
            made = _Log(self._forked(log, version, target))
            self._show(made)
            return made.row

    def _forked(self, log: _Log, version: int, target: ThreadRow) -> ThreadRow:
        last = next(self._newest_first(log, version), None)
        state = next((entry for entry in self._newest_first(log, version) if entry.changes_state), None)
        mark = next((mark for mark in self._marks(log) if mark.entry <= version), None)
        return msgspec.structs.replace(
            with_standing_of(target, log.row),
            head=version,
            state_version=state.version if state else 0,
            head_digest=last.chain if last else target.head_digest,
            last_checkpoint=mark.mark.id if mark else None,
            parent_uid=log.row.uid,
            parent_version=version,
            updated=max(target.created, last.micros if last else 0),
        )

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        transfer.check(copy)
        with self._open():
            log = self._log(copy.row.key)
            until = transfer.standing_until(log.row if log else None, copy)
            if log is not None and until >= copy.row.head:
                return log.row
            if log is None:
                log = self._copied(copy)
            else:
                log = log.copy()
                log.row = transfer.grown(log.row, copy)
            self._fill(log, copy, max(until, log.row.parent_version))
            self._show(log)
            return log.row

    def _copied(self, copy: ThreadCopy) -> _Log:
        """The thread of a copy, without its own entries, hung on the parent that is here or on its past."""
        free = [uid for uid in copy.uids if uid not in self._logs]
        row = transfer.born(copy, free)
        if copy.inherited and not self._has_past(copy):
            for line in transfer.past(copy, row.uid, parent_is_free=row.parent_uid not in self._logs):
                log = _Log(line)
                self._fill(log, copy, line.parent_version)
                self._logs[line.uid] = log
                row = msgspec.structs.replace(row, parent_uid=line.uid)
        return _Log(row)

    def _has_past(self, copy: ThreadCopy) -> bool:
        log = self._logs.get(copy.row.parent_uid or "")
        if log is None or not same_owner(log.row.key, copy.row.key) or not shares_past(log.row, copy.row):
            return False
        if within([record.gone for record in self._all_records(log)], copy.inherited):
            return False
        last = self._range(log, copy.inherited - 1, copy.inherited)
        return [entry.chain for entry in last] == [copy.chain_at(copy.inherited)]

    def _fill(self, log: _Log, copy: ThreadCopy, low: int) -> None:
        """Add the entries after `low` up to the head of the log, and what belongs to them."""
        head, key = log.row.head, log.row.key
        added = copy.between(low, head)
        log.entries.extend(added)
        log.keys.update((entry.key, entry.version) for entry in added if entry.key is not None)
        marks = [mark for mark in copy.checkpoints if low < mark.entry <= head]
        log.checkpoints.extend(msgspec.structs.replace(mark, thread_id=key.id, user=key.user) for mark in marks)
        records = [each for each in copy.records if low < each.version <= head]
        log.records += [record for record in records if not record.whole]
        log.snapshots |= {record.version: base_of(record) for record in records if record.whole}
        log.rewinds += [each for each in copy.rewinds if low < each.entry <= head]
        for blob in copy.blobs:
            if low < blob.version <= head:
                kept = self._blobs.setdefault((key.namespace, key.user, blob.digest), _Blob(blob.payload))
                kept.touched = max(kept.touched, copy.row.updated)
                log.blobs.setdefault(blob.digest, blob.version)

    async def delete(self, key: ThreadKey) -> bool:
        with self._open():
            log = self._log(key)
            self._lines.drop(log.row if log else None)
            uid = self._by_key.pop(key, None)
            self._free(uid)
            return uid is not None

    def _free(self, uid: str | None) -> None:
        """Drop a thread that nobody can see and no fork needs, and then its parent if that was waiting for it."""
        log = self._logs.get(uid) if uid else None
        if log is None or self._by_key.get(log.row.key) == uid:
            return
        children = [each.row.parent_version for each in self._logs.values() if each.row.parent_uid == uid]
        if children:
            log = log.copy()
            _trim(log, max(children))
            self._logs[log.row.uid] = log
        else:
            del self._logs[log.row.uid]
            self._free(log.row.parent_uid)

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        return lease_of(self._change(key, lambda row: claimed(row, owner, until, now, take_from)))

    async def renew(self, key: ThreadKey, epoch: int, *, until: int, now: int) -> Lease:
        return lease_of(self._change(key, lambda row: renewed(row, epoch, until)))

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        self._change(key, lambda row: released(row, epoch, wake_at))

    def _change(self, key: ThreadKey, change: RowChange) -> ThreadRow:
        with self._open():
            log = self._log(key)
            if log is None:
                raise NotFoundError(f"thread {key.id!r}")
            log.row = change(log.row)
            return log.row

    async def due(
        self, namespace: str, now: int, limit: int = 100, agents: Sequence[str] | None = None, *, ahead: int = 0,
        which: Which = ANY_STATUS,
    ) -> list[ThreadRow]:  # fmt: skip
        with self._open():
            rows = [log.row for log in self._visible(namespace, None) if is_due(log.row, now + ahead)]
            return sorted((row for row in rows if is_among(row, agents) and is_wanted(row, which)), key=_due_at)[:limit]

    def watch(self, namespace: str) -> Watch:
        self._check_open()
        return PollingWatch(pause_anywhere)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._open():
            found = {digest: self._blobs.get((key.namespace, key.user, digest)) for digest in digests}
            return {digest: blob.payload for digest, blob in found.items() if blob}

    async def sweep_blobs(self, now: int) -> int:
        with self._open():
            keys = ((log.row.key, log.blobs) for log in self._logs.values())
            used = {(key.namespace, key.user, digest) for key, digests in keys for digest in digests}
            old = [key for key, blob in self._blobs.items() if key not in used and blob.touched <= now - BLOB_GRACE]
            for key in old:
                del self._blobs[key]
            return len(old)

    async def sweep_user(self, namespace: str, user: str) -> Leftovers:
        with self._open():
            mine = [
                log for log in self._logs.values() if (log.row.key.namespace, log.row.key.user) == (namespace, user)
            ]
            used = {digest for log in mine for digest in log.blobs}
            gone = [key for key in self._blobs if key[:2] == (namespace, user) and key[2] not in used]
            for key in gone:
                del self._blobs[key]
            hidden = sum(self._by_key.get(log.row.key) != log.row.uid for log in mine)
            return Leftovers(blobs=len(gone), hidden=hidden)

    async def keep(self, name: str, value: bytes) -> bytes:
        with self._open():
            return self._kept.setdefault(name, value)

    async def kept(self, prefix: str) -> dict[str, bytes]:
        with self._open():
            return {name: value for name, value in sorted(self._kept.items()) if name.startswith(prefix)}

    async def discard(self, name: str) -> bool:
        with self._open():
            return self._kept.pop(name, None) is not None

    async def compact(self) -> int:
        self._check_open()
        return 0

    def compacting(self) -> str:
        return "nobody waits: memory is given back by itself"

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        with self._open():
            log = self._log(key) if key else None
            logs = list(self._logs.values()) if key is None else [log] if log else []
            return _sizes(logs, [] if key else list(self._blobs.values()))

    async def close(self) -> None:
        self._closed = True

    def _open(self) -> threading.RLock:
        self._check_open()
        return self._lock  # type: ignore[return-value]

    def _check_open(self) -> None:
        if self._closed:
            raise StorageClosedError("memory://", "the storage is closed")

    def _log(self, key: ThreadKey) -> _Log | None:
        uid = self._by_key.get(key)
        return self._logs[uid].settled() if uid else None

    def _visible(self, namespace: str, user: str | None) -> Iterator[_Log]:
        for key, uid in self._by_key.items():
            if key.namespace == namespace and (user is None or key.user == user):
                yield self._logs[uid].settled()

    def _lineage(self, log: _Log) -> list[_Log]:
        found = [log]
        while found[-1].row.parent_uid:
            found.append(self._logs[found[-1].row.parent_uid])
        return found

    def _spans(self, log: _Log, at: int) -> list[tuple[_Log, Span]]:
        logs = self._lineage(log)
        return list(zip(logs, spans([(each.row.parent_version, each.row.head) for each in logs], at), strict=True))

    def _range(self, log: _Log, low: int, high: int) -> list[Entry]:
        pieces = [(each, Span(max(span.low, low), span.high)) for each, span in self._spans(log, high)]
        return [entry for each, span in reversed(pieces) for entry in each.within(span)]

    def _newest_first(self, log: _Log, at: int) -> Iterator[Entry]:
        for each, span in self._spans(log, at):
            yield from map(each.at, range(span.high, span.low, -1))

    def _newest_snapshot(self, log: _Log, at: int) -> Snapshot | None:
        pieces = self._spans(log, at)
        found = [snap for each, span in pieces for snap in each.snapshots.values() if snap.version <= span.high]
        return max(found, key=lambda snapshot: snapshot.version, default=None)

    def _rewinds(self, log: _Log) -> list[Rewind]:
        pieces = self._spans(log, log.row.head)
        found = [each for owner, span in pieces for each in owner.rewinds if each.entry <= span.high]
        return sorted(found, key=lambda each: each.entry)

    def _records(self, log: _Log, at: int) -> list[Record]:
        found = [each for owner, span in self._spans(log, at) for each in owner.records if each.version <= span.high]
        return sorted(found, key=lambda record: record.version)

    def _all_records(self, log: _Log) -> list[Record]:
        pieces = self._spans(log, log.row.head)
        return [each for owner, span in pieces for each in _records_of(owner) if each.version <= span.high]

    def _marks(self, log: _Log) -> list[CheckpointRow]:
        pieces = self._spans(log, log.row.head)
        rows = [mark for each, span in pieces for mark in reversed(each.checkpoints) if mark.entry <= span.high]
        return [msgspec.structs.replace(row, thread_id=log.row.key.id, user=log.row.key.user) for row in rows]


def _records_of(log: _Log) -> list[Record]:
    """The records that a thread has itself, bases among them, in order."""
    bases = [base_record(log.row.parent_version, each) for each in log.snapshots.values() if each.base]
    return sorted([*bases, *log.records], key=lambda record: record.version)


def _mark_at(log: _Log, entry: int) -> CheckpointRow | None:
    return next((mark for mark in log.checkpoints if mark.entry == entry), None)


def _page(rows: Sequence[CheckpointRow], query: CheckpointQuery) -> list[CheckpointRow]:
    start = 0
    if query.before is not None:
        start = next((at + 1 for at, row in enumerate(rows) if row.mark.id == query.before), len(rows))
    return [row for row in rows[start:] if matches(row, query)][: query.limit]


def _prune(log: _Log, head: int, pruning: Pruning) -> None:
    """Put the records, and empty what they stand for."""
    blanked = [msgspec.structs.replace(each, payload=BLANK) if pruning.blanks(each) else each for each in log.entries]
    log.entries[:] = blanked
    log.checkpoints = [mark for mark in log.checkpoints if mark.entry not in pruning.unmarked]
    log.snapshots = {at: each for at, each in log.snapshots.items() if not pruning.covers(at)}
    put = {record.version for record in pruning.records}
    log.records = [each for each in log.records if not pruning.covers(each.version) and each.version not in put]
    log.records += [record for record in pruning.records if not record.whole]
    log.snapshots |= {record.version: base_of(record) for record in pruning.records if record.whole}
    if pruning.uses is not None and head == pruning.seen:
        log.blobs = dict(pruning.uses)
    for record in pruning.records:
        for digest in record.blobs:
            log.blobs[digest] = min(log.blobs.get(digest, record.version), record.version)


def _trim(log: _Log, version: int) -> None:
    """Keep of a deleted thread only what its forks need."""
    log.rewinds = [each for each in log.rewinds if each.entry <= version]
    log.records = [each for each in log.records if each.version <= version]
    del log.entries[max(version - log.row.parent_version, 0) :]
    log.snapshots = {at: snapshot for at, snapshot in log.snapshots.items() if at <= version}
    log.checkpoints = [mark for mark in log.checkpoints if mark.entry <= version]
    log.blobs = {digest: first for digest, first in log.blobs.items() if first <= version}


def _lean(entry: Entry) -> Entry:
    return entry if entry.changes_state else msgspec.structs.replace(entry, payload=None)


def _due_at(row: ThreadRow) -> int:
    return row.lease_until if row.lease_owner is not None else row.wake_at or 0


def _sizes(logs: Sequence[_Log], blobs: Sequence[_Blob]) -> Sizes:
    entries = [entry for log in logs for entry in log.entries]
    snapshots = [snapshot for log in logs for snapshot in log.snapshots.values()]
    return Sizes(
        threads=len(logs),
        entries=len(entries),
        entry_bytes=sum(len(entry.payload or b"") for entry in entries),
        snapshots=len(snapshots),
        snapshot_bytes=sum(len(snapshot.payload) for snapshot in snapshots),
        checkpoints=sum(len(log.checkpoints) for log in logs),
        blobs=len(blobs),
        blob_bytes=sum(len(blob.payload) for blob in blobs),
        disk_bytes=0,
    )
