"""The transactions that only look: restore, entries, lists, sizes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow, each_once, matches, without_left
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import EntryDamagedError, StorageDamagedError
from perdure.core.forks import needed
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Record, is_blank
from perdure.core.seams import Range, Rewind, Seams
from perdure.core.threads import ThreadQuery, ThreadRow, Which, listed
from perdure.core.writes import Restored, Sizes, Snapshot, base_record, written_together
from perdure.storage.lineage import Span, spans
from perdure.storage.sql.dialect import EVERYBODY, NOBODY, ONE
from perdure.storage.sql.prefixes import after_all
from perdure.storage.sql.rows import (
    VERSIONS,
    Row,
    StoredThread,
    checkpoint_of,
    entry_of,
    record_of,
    snapshot_of,
    thread_of,
)
from perdure.storage.sql.statements import filters_of
from perdure.storage.sql.transactions import Transaction

_LINES = 10_000  # of threads, in a page
_PAGE = 200  # rows fetched at a time while a filter that only core knows thins them out
_NEAR = 8  # … at first: what is looked for by its kind is most often among the newest
_TOGETHER = 16  # most writes have fewer entries
_EVERYTHING = (0, (1 << 63) - 1)
_LAST = (1 << 62, "\U0010ffff")


async def thread(tx: Transaction, key: ThreadKey, *, lock: bool = False) -> StoredThread | None:
    """The thread that can be seen under this key; with `lock` nobody else changes it until the transaction ends."""
    name = bytes.fromhex(key.digest())
    rows = await tx.rows(tx.sql.THREAD_LOCKED if lock else tx.sql.THREAD, (name,))
    if rows:
        return _checked(key, thread_of(rows[0]))
    if tx.sql.dialect.doubts_indexes:
        await _check_absent(tx, key, name)
    return None


def _checked(key: ThreadKey, stored: StoredThread) -> StoredThread:
    if stored.row.key != key:
        raise StorageDamagedError(f"the directory line of thread {key.id!r}", "it has another name")
    return stored


async def _check_absent(tx: Transaction, key: ThreadKey, name: bytes) -> None:
    """A thread that one index knows and another does not is damaged, not absent: nobody must start it afresh."""
    known = await tx.rows(tx.sql.INDEXED_THREAD, (name,)) or await tx.rows(
        tx.sql.NAMED_THREAD, (key.namespace, key.user, key.id)
    )
    if known:
        raise StorageDamagedError(f"the directory line of thread {key.id!r}", "its indexes do not agree")


async def lineage(tx: Transaction, stored: StoredThread | None, *, lock: bool = False) -> list[StoredThread]:
    """A thread and the threads it was forked from, the nearest first."""
    by_uid = tx.sql.THREAD_BY_UID_LOCKED if lock else tx.sql.THREAD_BY_UID
    found: list[StoredThread] = []
    while stored is not None:
        if any(stored.number == each.number for each in found):
            raise StorageDamagedError(f"the directory line of thread {stored.row.key.id!r}", "it is its own ancestor")
        found.append(stored)
        parent = stored.row.parent_uid
        rows = await tx.rows(by_uid, (parent,)) if parent else []
        stored = thread_of(rows[0]) if rows else None
    return found


async def pieces(tx: Transaction, stored: StoredThread, at: int) -> list[tuple[StoredThread, Span]]:
    """Whose versions make up the history up to `at`, the nearest first."""
    owners = await lineage(tx, stored)
    cut = spans([(each.row.parent_version, each.row.head) for each in owners], at)
    return list(zip(owners, cut, strict=True))


async def keyed(tx: Transaction, key: ThreadKey, idem_key: str) -> Entry | None:
    """The keyed of the contract."""
    rows = await tx.rows(tx.sql.KEYED, (bytes.fromhex(key.digest()), idem_key))
    if not rows and tx.sql.dialect.doubts_indexes:
        await thread(tx, key)  # a thread that is damaged is not one without the key
    return entry_of(rows[0]) if rows else None


async def under(tx: Transaction, key: ThreadKey, prefix: str) -> list[Entry]:
    """The under of the contract."""
    stored, end = await thread(tx, key), after_all(prefix)
    keys = (prefix,) if end is None else (prefix, end)
    rows: list[Row] = []
    for owner, span in await pieces(tx, stored, stored.row.head) if stored else []:
        if span.high > span.low:
            values = (owner.number, *keys, owner.place(span.low), owner.place(span.high))
            rows += await tx.rows(tx.sql.under(ends=end is not None), values)
    return sorted(map(entry_of, rows), key=lambda entry: entry.version)


async def restore(
    tx: Transaction, key: ThreadKey, at: int | None, after: int | None
) -> tuple[StoredThread, Restored] | None:
    """The restore of the contract, and the line it went by."""
    stored = await thread(tx, key)
    if stored is None:
        return None
    history = await pieces(tx, stored, stored.row.head if at is None else at)
    snapshot = await _newest_snapshot(tx, history) if after is None else None
    low = after if after is not None else snapshot.version if snapshot else 0
    rows: list[Row] = []
    for owner, span in reversed(history):
        if span.high > low:
            rows += await tx.rows(tx.sql.FOLD, (owner.place(max(span.low, low)), owner.place(span.high)))
    entries = [entry_of(row) for row in rows]
    records = await _composed(tx, history, low) if any(map(is_blank, entries)) else []
    return stored, Restored(row=stored.row, snapshot=snapshot, entries=entries, records=records)


async def _composed(tx: Transaction, history: list[tuple[StoredThread, Span]], low: int = 0) -> list[Record]:
    """What stands for pruned ranges that end after `low`, in order."""
    rows: list[Row] = []
    for owner, span in reversed(history):
        if span.high > low:
            rows += await tx.rows(tx.sql.COMPOSED, (owner.place(max(span.low, low)), owner.place(span.high)))
    return [record_of(row) for row in rows]


async def records(tx: Transaction, key: ThreadKey) -> list[Record]:
    """The records of the contract."""
    stored = await thread(tx, key)
    history = await pieces(tx, stored, stored.row.head) if stored else []
    found = await _composed(tx, history)
    for owner, span in history:
        low = owner.row.parent_version
        for row in await tx.rows(tx.sql.BASES, (owner.place(span.low), owner.place(span.high))):
            found.append(base_record(low, snapshot_of(row)))
    return sorted(found, key=lambda record: record.version)


async def seams(tx: Transaction, key: ThreadKey) -> Seams:
    """The seams of the contract."""
    stored = await thread(tx, key)
    return await seams_of(tx, await pieces(tx, stored, stored.row.head)) if stored else Seams()


async def seams_of(tx: Transaction, history: list[tuple[StoredThread, Span]]) -> Seams:
    """The rewinds and the gone versions of a history."""
    rewinds: list[Rewind] = []
    gone: list[Range] = []
    for owner, span in history:
        bounds = (owner.place(span.low), owner.place(span.high))
        for sort, version, number in await tx.rows(tx.sql.SEAMS, bounds * 3):
            if sort == 0:
                rewinds.append(Rewind(version, number))
            else:
                gone.append(Range(number if sort == 1 else owner.row.parent_version, version - 1))
    return Seams(sorted(rewinds, key=lambda each: each.entry), sorted(gone))


async def forks(tx: Transaction, key: ThreadKey) -> list[int]:
    """The forks of the contract."""
    stored = await thread(tx, key)
    return await needed_by_forks(tx, stored.row.uid) if stored else []


async def needed_by_forks(tx: Transaction, uid: str) -> list[int]:
    """The versions of a thread that whatever descends from it needs."""
    lines: dict[str, StoredThread] = {}
    parents = [uid]
    while parents:
        children = [thread_of(row) for row in await tx.rows(tx.sql.CHILDREN, (parents.pop(),))]
        parents += [each.row.uid for each in children if each.row.uid not in lines]
        lines |= {each.row.uid: each for each in children}
    targets = {name: await _targets(tx, each) for name, each in lines.items()}
    return needed(uid, [each.row for each in lines.values()], targets)


async def _targets(tx: Transaction, stored: StoredThread) -> list[int]:
    """The versions that rewinds of a thread went back to."""
    rows = await tx.rows(tx.sql.REWOUND_TO, (stored.place(0), stored.place(VERSIONS)))
    return [version for (version,) in rows]


async def _newest_snapshot(tx: Transaction, history: list[tuple[StoredThread, Span]]) -> Snapshot | None:
    newest: Snapshot | None = None
    for owner, span in history:
        low = newest.version + 1 if newest else 0
        for row in await tx.rows(tx.sql.SNAPSHOT, (owner.place(low), owner.place(span.high))):
            newest = snapshot_of(row)
    return newest


async def entries(
    tx: Transaction, key: ThreadKey, after: int, limit: int | None, kinds: Sequence[EntryKind] | None
) -> list[Entry]:
    """The entries of the contract."""
    stored = await thread(tx, key)
    found: list[Entry] = []
    for owner, span in reversed(await pieces(tx, stored, stored.row.head) if stored else []):
        low = max(span.low, after)
        while low < span.high and (limit is None or len(found) < limit):
            # Not more at a time: of many rows PostgreSQL sorts all there are instead of following its index.
            page = _PAGE if limit is None or kinds is not None else min(_PAGE, limit - len(found))
            rows = await tx.rows(tx.sql.ENTRIES, (owner.place(low), owner.place(span.high), page))
            if not rows:
                break
            low = _onwards(key, low, rows[-1][0])
            found += [entry_of(row) for row in rows if kinds is None or row[1] in kinds]
    return found[:limit]


def _onwards(key: ThreadKey, before: int, now: int) -> int:
    """The next place to read from. In a damaged index a page may end before it began: going on would never end."""
    if now <= before:
        raise EntryDamagedError(key.id, abs(now) % VERSIONS, "is out of order")
    return now


async def headers(
    tx: Transaction, key: ThreadKey, at: int | None, until: int | None, kinds: Sequence[EntryKind] | None, limit: int
) -> list[Entry]:
    """The headers of the contract."""
    stored = await thread(tx, key)
    found: list[Entry] = []
    ends, page = _EVERYTHING[1] if until is None else until, max(limit, _NEAR)
    for owner, span in await pieces(tx, stored, stored.row.head if at is None else at) if stored else []:
        high = span.high
        while high > span.low and len(found) < limit:
            most = limit if kinds is None else page
            rows = await tx.rows(tx.sql.HEADERS, (owner.place(span.low), owner.place(high), ends, most))
            if not rows:
                break
            page = max(limit, min(page * 4, _PAGE))
            high = -_onwards(key, -high, 1 - rows[-1][0])
            found += [entry_of(row) for row in rows if kinds is None or row[1] in kinds]
    return found[:limit]


async def checkpoints(tx: Transaction, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
    """The checkpoints of the contract."""
    stored = await thread(tx, key)
    found: list[CheckpointRow] = []
    if stored is None:
        return found
    history = await pieces(tx, stored, stored.row.head)
    if query.present:
        query = without_left(query, await _rewinds(tx, history), stored.row.head)
    places = await _cursors(tx, query)
    names, values = _filters(query)
    for owner, low, high in _below(history, places, query):
        while len(found) < query.limit:
            rows = await tx.rows(tx.sql.checkpoints(names), (low, high, *values, _page(query)))
            marks = [checkpoint_of(row) for row in rows]
            found += [_seen_from(stored, mark) for mark in marks if matches(mark, query)]
            if len(rows) < _page(query):
                break
            high = -_onwards(key, -high, -owner.place(marks[-1].entry))
    return found[: query.limit]


async def _rewinds(tx: Transaction, history: list[tuple[StoredThread, Span]]) -> list[Rewind]:
    rows: list[Row] = []
    for owner, span in history:
        rows += await tx.rows(tx.sql.REWINDS, (owner.place(span.low), owner.place(span.high)))
    return [Rewind(entry, to) for entry, to in rows]


async def _cursors(tx: Transaction, query: CheckpointQuery) -> list[int]:
    """Where the checkpoint stands that a page goes on after: in this history, and perhaps in copies of it."""
    rows = [] if query.before is None else await tx.rows(tx.sql.CHECKPOINT_PLACES, (query.before,))
    return [place for (place,) in rows]


def _below(
    history: list[tuple[StoredThread, Span]], places: list[int], query: CheckpointQuery
) -> list[tuple[StoredThread, int, int]]:
    """The row ranges to read, newest first; those newer than the cursor are left out."""
    ranges = [(owner, owner.place(0), owner.place(span.high) + 1) for owner, span in history]
    if query.before is None:
        return ranges
    for at, (owner, low, high) in enumerate(ranges):
        for place in places:
            if low <= place < high:
                return [(owner, low, place), *ranges[at + 1 :]]
    return []


def _page(query: CheckpointQuery) -> int:
    return max(_PAGE, query.limit) if query.metadata or query.left else query.limit


def _filters(query: CheckpointQuery) -> tuple[tuple[str, ...], Row]:
    return filters_of(query.id, query.kind, query.status, query.agent, query.since, query.until)


def whose_rows(user: str | None) -> tuple[str, Row]:
    """Which rows belong to a user: None is everybody, "" nobody."""
    return (EVERYBODY, ()) if user is None else (ONE, (user,)) if user else (NOBODY, ())


def _seen_from(stored: StoredThread, mark: CheckpointRow) -> CheckpointRow:
    key = stored.row.key
    if mark.thread_id == key.id and mark.user == key.user:
        return mark
    return msgspec.structs.replace(mark, thread_id=key.id, user=key.user)


async def user_checkpoints(
    tx: Transaction, namespace: str, user: str | None, query: CheckpointQuery
) -> list[CheckpointRow]:
    """The user_checkpoints of the contract."""
    found: list[CheckpointRow] = []
    before = query.before if query.before is not None else _LAST[1]
    (whose, owner), (names, asked) = whose_rows(user), _filters(query)
    while len(found) < query.limit:
        values = (before, namespace, *owner, *asked, _page(query))
        marks = [checkpoint_of(row) for row in await tx.rows(tx.sql.user_checkpoints(whose, names), values)]
        found = each_once([*found, *(mark for mark in marks if matches(mark, query))])
        if len(marks) < _page(query) or marks[-1].mark.id >= before:
            break
        before = marks[-1].mark.id
    return found[: query.limit]


async def checkpoint(tx: Transaction, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
    """The checkpoint of the contract."""
    whose, owner = whose_rows(user)
    rows = await tx.rows(tx.sql.checkpoint(whose), (checkpoint_id, namespace, *owner))
    return checkpoint_of(rows[0]) if rows else None


async def checkpoint_at(tx: Transaction, place: int) -> CheckpointRow | None:
    """The checkpoint that rides on the entry at this row."""
    rows = await tx.rows(tx.sql.CHECKPOINT_AT, (place,))
    return checkpoint_of(rows[0]) if rows else None


async def written_at(tx: Transaction, stored: StoredThread, first: int) -> list[Entry]:
    """The headers of the entries that were written together, from the first one on."""
    found: list[Entry] = []
    low, high = stored.place(first - 1), stored.place(stored.row.head)
    while len(written_together(found)) == len(found) if found else True:
        rows = await tx.rows(tx.sql.LIGHT_ENTRIES, (low, high, _TOGETHER))
        if not rows:
            break
        found += [entry_of(row) for row in rows]
        low = _onwards(stored.row.key, low, stored.place(found[-1].version))
    return [*written_together(found)]  # type: ignore[list-item]


async def line(tx: Transaction, uid: str) -> ThreadRow | None:
    """The line of the contract."""
    rows = await tx.rows(tx.sql.LINE, (uid,))
    return thread_of(rows[0]).row if rows else None


async def find(tx: Transaction, namespace: str, thread_id: str) -> list[ThreadRow]:
    """The find of the contract."""
    found = [thread_of(row).row for row in await tx.rows(tx.sql.THREADS_BY_ID, (namespace, thread_id))]
    return sorted(found, key=lambda row: row.key.user)


async def namespaces(tx: Transaction) -> list[str]:
    """The namespaces of the contract."""
    return sorted(namespace for (namespace,) in await tx.rows(tx.sql.NAMESPACES))


async def strays(tx: Transaction) -> dict[str, int]:
    """The strays of the contract."""
    return {f"row {number}": count for number, count in await tx.rows(tx.sql.STRAYS)}


async def threads(tx: Transaction, query: ThreadQuery) -> list[ThreadRow]:
    """The threads of the contract."""
    found: list[ThreadRow] = []
    before = query.before or _LAST
    page = max(_PAGE, query.limit)
    whose, owner = whose_rows(query.user)
    while len(found) < query.limit:
        values = (query.namespace, *owner, *tx.sql.dialect.newest_before(*before), page)
        lines = [thread_of(row).row for row in await tx.rows(tx.sql.threads(whose), values)]
        found += [line for line in lines if listed(line, query)]
        if len(lines) < page or (lines[-1].updated, lines[-1].uid) >= before:
            break
        before = (lines[-1].updated, lines[-1].uid)
        page = max(page, min(page * 4, _LINES))  # each page of a minute sorts all that changed in it
    return found[: query.limit]


async def due(
    tx: Transaction, namespace: str, now: int, limit: int, agents: Sequence[str] | None, ahead: int, which: Which
) -> list[ThreadRow]:
    """The due of the contract."""
    if agents is not None and not agents:
        return []
    now = await tx.moment(now) + ahead
    condition, named = tx.sql.dialect.among(" AND coalesce(agent, '')", agents) if agents else ("", ())
    wanted, statuses = _of(tx, which)
    (cut_off, gone), (left, old) = _cut_off(tx, which), _left(tx, which)
    part, text = (namespace, now, *named, *statuses), condition + wanted
    found = await tx.rows(tx.sql.due(text + cut_off, text + left), (*part, *gone, *part, *old, limit))
    return [thread_of(row).row for row in found]


def _of(tx: Transaction, which: Which) -> tuple[str, Row]:
    word, statuses = (" AND status", which.statuses) if which.statuses else (" AND NOT status", which.never)
    return tx.sql.dialect.among(word, statuses) if statuses else ("", ())


def _cut_off(tx: Transaction, which: Which) -> tuple[str, Row]:
    return tx.sql.dialect.among(" AND NOT status", which.cut_off) if which.cut_off else ("", ())


def _left(tx: Transaction, which: Which) -> tuple[str, Row]:
    if not which.left:
        return "", ()
    text, values = tx.sql.dialect.among("status", which.left)
    return f" AND NOT ({text} AND wake_at < ?)", (*values, which.since)


async def blobs(tx: Transaction, scope: bytes, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    """The blobs of the contract."""
    found: dict[bytes, bytes] = {}
    for digest in digests:
        for (payload,) in await tx.rows(tx.sql.BLOB, (scope, digest)):
            found[digest] = payload
    return found


async def sizes(tx: Transaction, key: ThreadKey | None, disk_bytes: int) -> Sizes:
    """The sizes of the contract."""
    stored = await thread(tx, key) if key else None
    if key is not None and stored is None:
        bounds = (0, 0)
    else:
        bounds = (stored.place(0), stored.place(VERSIONS)) if stored else _EVERYTHING
    lines = (stored.number, stored.number + 1) if stored else bounds
    entry_count, entry_bytes = (await tx.rows(tx.sql.ENTRY_SIZES, bounds))[0]
    snapshot_count, snapshot_bytes = (await tx.rows(tx.sql.SNAPSHOT_SIZES, bounds))[0]
    composed_count, composed_bytes = (await tx.rows(tx.sql.COMPOSED_SIZES, bounds))[0]
    blob_count, blob_bytes = (0, 0) if key else (await tx.rows(tx.sql.BLOB_SIZES))[0]
    return Sizes(
        threads=(await tx.rows(tx.sql.THREAD_COUNT, lines))[0][0],
        entries=entry_count,
        entry_bytes=entry_bytes,
        snapshots=snapshot_count + composed_count,
        snapshot_bytes=snapshot_bytes + composed_bytes,
        checkpoints=(await tx.rows(tx.sql.CHECKPOINT_COUNT, bounds))[0][0],
        blobs=blob_count,
        blob_bytes=blob_bytes,
        disk_bytes=disk_bytes,
    )
