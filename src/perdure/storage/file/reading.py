"""The transactions that only read. Listings read indexes and lease files, never a body."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from posixpath import join

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow, each_once, matches, without_left
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import DamagedError, EntryDamagedError, StorageIOError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Record, WholeLog
from perdure.core.seams import NO_SEAMS, Seams
from perdure.core.threads import ThreadQuery, ThreadRow, Which, is_among, is_due, is_wanted, listed
from perdure.core.verification import Damage
from perdure.core.writes import Restored, Sizes, Snapshot, base_of
from perdure.storage.file import files, forks, leases
from perdure.storage.file.blobs import Blobs
from perdure.storage.file.directory import Unreadable
from perdure.storage.file.history import History, history
from perdure.storage.file.lines import checkpoint_of, entry_of
from perdure.storage.file.log import Log
from perdure.storage.file.logs import HIDDEN, THREADS, Logs
from perdure.storage.file.snapshots import Snapshots

_COMPARED = 100  # rows of a page that are compared with their files


def keyed(logs: Logs, key: ThreadKey, idem_key: str) -> Entry | None:
    """The keyed of the contract."""
    with logs.reading(logs.folder(key)) as log:
        version = log.index.keys.get(idem_key) if log else None
        return log.contents.entries([log.index.header(version)])[0] if log and version else None


def under(logs: Logs, key: ThreadKey, prefix: str) -> list[Entry]:
    """The under of the contract."""
    with history(logs, key) as found:
        pieces = found.pieces(0, found.row.head) if found else []
        return [entry for log, span in pieces for entry in log.contents.entries(log.index.under(prefix, span))]


def restore(logs: Logs, key: ThreadKey, at: int | None, after: int | None) -> Restored | None:
    """The restore of the contract."""
    with history(logs, key, at) as found:
        if found is None:
            return None
        top = found.row.head if at is None else min(at, found.row.head)
        snapshot = _newest_snapshot(logs, found, top) if after is None else None
        low = after if after is not None else snapshot.version if snapshot else 0
        pieces = found.headers(low, top)
        entries = [entry for log, headers in pieces for entry in log.contents.entries(headers, bodies=False)]
        kept = [(log, kept) for log, kept in found.records(top) if kept.head.version > low and not kept.head.whole]
        records = [log.contents.record(one) for log, one in kept]
        return Restored(row=found.row, snapshot=snapshot, entries=entries, records=records)


def _newest_snapshot(logs: Logs, found: History, at: int) -> Snapshot | None:
    """The newest intact one of the lineage; among equals the thread's own."""
    known = [
        (version, log)
        for log, span in found.pieces(0, at)
        for version in _snapshot_versions(logs, log)
        if version <= span.high
    ]
    newest_first = sorted(enumerate(known), key=lambda each: (each[1][0], each[0]), reverse=True)
    intact = (_snapshot(logs, log, version) for _, (version, log) in newest_first)
    return next((snapshot for snapshot in intact if snapshot), None)


def _snapshot_versions(logs: Logs, log: Log) -> set[int]:
    bases = {kept.head.version for kept in log.index.records if kept.head.whole}
    return bases.union(Snapshots(logs.disk, log.folder).versions())


def _snapshot(logs: Logs, log: Log, version: int) -> Snapshot | None:
    base = log.index.base_at(version)
    return base_of(log.contents.record(base)) if base else Snapshots(logs.disk, log.folder).get(version)


def seams(logs: Logs, key: ThreadKey) -> Seams:
    """The seams of the contract; reads no payload."""
    with history(logs, key) as found:
        return Seams(found.rewinds(), found.gone()) if found else NO_SEAMS


def records(logs: Logs, key: ThreadKey) -> list[Record]:
    """The records of the contract."""
    with history(logs, key) as found:
        return _records(found, 0) if found else []


def _records(found: History, after: int) -> list[Record]:
    kept = found.records(found.row.head)
    return [log.contents.record(one) for log, one in kept if one.head.version > after]


def needed_by_forks(logs: Logs, key: ThreadKey) -> list[int]:
    """The forks of the contract."""
    with logs.reading(logs.folder(key)) as log:
        return forks.needed(logs, log) if log else []


def entries(
    logs: Logs, key: ThreadKey, after: int, limit: int | None, kinds: Sequence[EntryKind] | None
) -> list[Entry]:
    """The entries of the contract."""
    with history(logs, key) as found:
        return _entries(found, after, limit, kinds) if found else []


def _entries(found: History, after: int, limit: int | None, kinds: Sequence[EntryKind] | None) -> list[Entry]:
    pieces = found.headers(after, found.row.head)
    wanted = [(log, header) for log, headers in pieces for header in headers if kinds is None or header.kind in kinds]
    wanted = wanted[:limit]
    return [entry for log, _ in pieces for entry in log.contents.entries(one for its, one in wanted if its is log)]


def log(
    logs: Logs, key: ThreadKey, after: int, kinds: Sequence[EntryKind] | None, with_checkpoints: bool
) -> WholeLog | None:
    """The log of the contract."""
    with history(logs, key) as found:
        if found is None:
            return None
        rewinds, marks = found.rewinds(), [*found.checkpoints()] if with_checkpoints else []
        return WholeLog(
            row=found.row,
            entries=_entries(found, after, None, None if rewinds else kinds),
            records=_records(found, after),
            rewinds=rewinds,
            checkpoints=[mark for mark in reversed(marks) if mark.entry > after],
        )


def headers(
    logs: Logs, key: ThreadKey, at: int | None, until: int | None, kinds: Sequence[EntryKind] | None, limit: int
) -> list[Entry]:
    """The headers of the contract."""
    with history(logs, key, at) as found:
        top = found.row.head if found and at is None else at or 0
        newest_first = (
            header for _, each in reversed(found.headers(0, top) if found else []) for header in reversed(each)
        )
        wanted = (header for header in newest_first if kinds is None or header.kind in kinds)
        return [entry_of(one, None) for one in islice((w for w in wanted if until is None or w.micros <= until), limit)]


def drop_snapshot(logs: Logs, key: ThreadKey, version: int) -> None:
    """The drop_snapshot of the contract."""
    with history(logs, key) as found:
        for log, span in found.pieces(0, found.row.head) if found else ():
            if version <= span.high:
                Snapshots(logs.disk, log.folder).drop(version)


def checkpoints(logs: Logs, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
    """The checkpoints of the contract."""
    with history(logs, key) as found:
        if found is None:
            return []
        return _page(found.checkpoints(), without_left(query, found.rewinds(), found.row.head))


def user_checkpoints(logs: Logs, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
    """The user_checkpoints of the contract."""
    rows = _marks(logs, namespace, user)
    before = [row for row in rows if query.before is None or row.mark.id < query.before]
    return [row for row in before if matches(row, query)][: query.limit]


def checkpoint(logs: Logs, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
    """The checkpoint of the contract."""
    found = [
        (log.row.is_quarantined, checkpoint_of(mark, log.row.key))
        for log in logs.all()
        if _belongs(log.row.key, namespace, user)
        for mark in log.index.marks
        if mark.id == checkpoint_id
    ]
    return min(found, key=lambda each: each[0])[1] if found else None


def _marks(logs: Logs, namespace: str, user: str | None) -> list[CheckpointRow]:
    rows = [
        checkpoint_of(mark, log.row.key)
        for log in logs.all()
        if _belongs(log.row.key, namespace, user)
        for mark in log.index.marks
    ]
    return sorted(each_once(rows), key=lambda row: row.mark.id, reverse=True)


def _belongs(key: ThreadKey, namespace: str, user: str | None) -> bool:
    return key.namespace == namespace and (user is None or key.user == user)


def _page(rows: Sequence[CheckpointRow], query: CheckpointQuery) -> list[CheckpointRow]:
    start = 0
    if query.before is not None:
        start = next((at + 1 for at, row in enumerate(rows) if row.mark.id == query.before), len(rows))
    return [row for row in rows[start:] if matches(row, query)][: query.limit]


def thread(logs: Logs, key: ThreadKey) -> ThreadRow | None:
    """The thread of the contract."""
    with logs.reading(logs.folder(key)) as log:
        return log.row if log else None


def line(logs: Logs, uid: str) -> ThreadRow | None:
    """The line of the contract."""
    directory = logs.follow()
    name = directory.by_uid(uid)
    if name is None:
        lost = [each for each in directory.unreadable.values() if each.row is not None and each.row.uid == uid]
        if lost:
            raise lost[0].error  # it is not gone
        return None
    row = _row(logs, join(logs.root, THREADS, name))
    return row if row is not None and row.uid == uid else None


def find(logs: Logs, namespace: str, thread_id: str) -> list[ThreadRow]:
    """The find of the contract; a damaged one is found by the row that it had, and says so when it is opened."""
    directory = logs.follow()
    logs.look_again(directory.by_id(namespace, thread_id))
    rows = [directory.row(name) for name in directory.by_id(namespace, thread_id)]
    lost = (each.row for each in directory.unreadable.values() if each.row)
    rows += [row for row in lost if (row.key.namespace, row.key.id) == (namespace, thread_id)]
    return [row for row in rows if row is not None]


def threads(logs: Logs, query: ThreadQuery) -> list[ThreadRow]:
    """The threads of the contract."""
    directory = logs.follow()
    while True:
        page = list(islice((each for each in directory.newest_first() if listed(each[1], query)), query.limit))
        # Each look brings the row up to its files, or leaves the thread out: a page that changed is put together anew.
        # Who asks for a large page opens what it needs of it.
        if not logs.look_again(name for name, _ in page[:_COMPARED]):
            return [row for _, row in page]


def namespaces(logs: Logs) -> list[str]:
    """The namespaces of the contract."""
    return sorted({key.namespace for key in logs.follow().thread_keys()})


def damaged(logs: Logs) -> list[Damage]:
    """The damaged of the contract: every thread's files are compared with its row."""
    unreadable = logs.look_at_all().unreadable
    return [_damage(name, unreadable[name]) for name in sorted(unreadable)]


def _damage(name: str, found: Unreadable) -> Damage:
    error, key = found.error, found.row.key if found.row else ThreadKey("", "", "")
    entry = isinstance(error, EntryDamagedError)
    return Damage(
        thread_id=key.id,
        user=key.user,
        namespace=key.namespace,
        place=f"{THREADS}/{name}",
        reason=str(error) + ("" if found.row else "; whose thread it is cannot be told"),
        version=error.version if entry else None,
    )


def due(
    logs: Logs, namespace: str, now: int, limit: int, agents: Sequence[str] | None, which: Which
) -> list[ThreadRow]:
    """The due of the contract: what runs out until now, by the directory, each compared with its files."""
    directory = logs.follow()
    logs.look_again(directory.due(now))
    found = (directory.row(name) for name in directory.due(now))
    rows = [
        row
        for row in found
        if row
        and row.key.namespace == namespace
        and is_due(row, now)
        and is_among(row, agents)
        and is_wanted(row, which)
    ]
    return sorted(rows, key=lambda row: leases.due_at(row) or 0)[:limit]


def _row(logs: Logs, folder: str) -> ThreadRow | None:
    with logs.reading(folder) as log:
        return log.row if log else None


def used_blobs(logs: Logs, blobs: Blobs) -> dict[str, set[str]]:
    """The digests that logs and their records refer to, by user; raise when a log cannot be read: it may need any."""
    used: dict[str, set[str]] = {}
    for place in (THREADS, HIDDEN):
        for log in logs.all_or_error(place):
            held = (digest for kept in log.index.records for digest in kept.head.blobs)
            digests = used.setdefault(blobs.scope(log.row.key), set())
            digests.update(digest.hex() for digest in (*log.index.blobs, *held))
    return used


def used_blobs_of(logs: Logs, namespace: str, user: str) -> set[str]:
    """The digests that the threads of a user refer to, as far as these can be read."""
    query = ThreadQuery(namespace=namespace, user=user, limit=1 << 62)
    folders = [logs.folder(row.key) for row in threads(logs, query)]
    used: set[str] = set()
    for folder in (*folders, *logs.folders(HIDDEN)):
        with suppress(DamagedError), logs.reading(folder) as log:
            if log is not None and (log.row.key.namespace, log.row.key.user) == (namespace, user):
                held = (digest for kept in log.index.records for digest in kept.head.blobs)
                used.update(digest.hex() for digest in (*log.index.blobs, *held))
    return used


def sizes(logs: Logs, blobs: Blobs, key: ThreadKey | None) -> Sizes:
    """The sizes of the contract."""
    folders = [logs.folder(key)] if key else [*logs.folders(), *logs.folders(HIDDEN)]
    parts = [part for folder in folders if (part := _sizes(logs, folder, skip=key is None))]
    large = [] if key else blobs.sizes()
    return Sizes(
        threads=len(parts),
        entries=sum(part[0] for part in parts),
        entry_bytes=sum(part[1] for part in parts),
        snapshots=sum(len(part[2]) for part in parts),
        snapshot_bytes=sum(sum(part[2]) for part in parts),
        checkpoints=sum(part[3] for part in parts),
        blobs=len(large),
        blob_bytes=sum(large),
        disk_bytes=sum(files.tree_sizes(logs.disk, logs.folder(key) if key else logs.root)),
    )


def _sizes(logs: Logs, folder: str, *, skip: bool) -> tuple[int, int, list[int], int] | None:
    with suppress(*(DamagedError, StorageIOError) if skip else ()), logs.reading(folder) as log:
        if log is None:
            return None
        payloads = [header.size for header in log.index.headers]
        bases = [kept.head.size for kept in log.index.records if kept.head.whole]
        snapshots = [*bases, *Snapshots(logs.disk, folder).sizes()]
        return len(payloads), sum(payloads), snapshots, len(log.index.marks)
    return None
