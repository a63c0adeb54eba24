"""The transactions that read a log: its line, its entries through all forks, what stands for pruned ranges."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.digest import GENESIS, follows, verify_links
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import MISSING, EntryDamagedError, StorageDamagedError
from perdure.core.forks import needed
from perdure.core.identity import ThreadKey, same_owner
from perdure.core.pruning import Record, is_blank
from perdure.core.seams import Range, Rewind, Seams
from perdure.core.writes import Restored, Snapshot, base_record, written_together
from perdure.storage.lineage import Span, spans
from perdure.storage.sql.prefixes import after_all
from perdure.storage.sql.rows import (
    THREAD_WIDTH,
    VERSIONS,
    Row,
    StoredThread,
    check_identity,
    entry_of,
    record_of,
    rewind_of,
    seam_of,
    snapshot_of,
    thread_of,
)
from perdure.storage.sql.transactions import Transaction

PAGE = 200  # rows fetched at a time while a filter that only core knows thins them out
_NEAR = 8  # … at first: what is looked for by its kind is most often among the newest
_TOGETHER = 16  # most writes have fewer entries
LOST = "is gone, and the catalog still names the thread"  # of a row
EVERYTHING = (0, (1 << 63) - 1)

History = list[tuple[StoredThread, Span]]  # whose versions it is made of, the nearest first


async def thread(tx: Transaction, key: ThreadKey, *, lock: bool = False) -> StoredThread | None:
    """The thread that can be seen under this key; with `lock` nobody else changes it until the transaction ends."""
    name = bytes.fromhex(key.digest())
    rows = await tx.rows(tx.sql.THREAD_LOCKED if lock else tx.sql.THREAD, (name,))
    if rows:
        return await opened(tx, key, rows[0])
    await _check_absent(tx, key, name)
    return None


async def row(tx: Transaction, key: ThreadKey) -> StoredThread | None:
    """The row of the thread, of which the log is not read: the hot layer serves states while the log cannot be."""
    name = bytes.fromhex(key.digest())
    rows = await tx.rows(tx.sql.THREAD_ALONE, (name,))
    if rows:
        return row_of(key, rows[0])
    await _check_absent(tx, key, name)
    return None


def row_of(key: ThreadKey, row: Row) -> StoredThread:
    """The thread of a row that was found by this key."""
    return _of_key(thread_of(row), key)


async def opened(tx: Transaction, key: ThreadKey, row: Row) -> StoredThread:
    """The thread of a row that was found by this key, and that has the chain digest of its first entry at the end."""
    return _of_key(await _with_its_log(tx, row), key)


def _of_key(stored: StoredThread, key: ThreadKey) -> StoredThread:
    if stored.row.key != key:
        raise StorageDamagedError(f"the directory line of thread {key.id!r}", "it has another name")
    return stored


async def _with_its_log(tx: Transaction, row: Row) -> StoredThread:
    """A thread whose log is its own. A first entry that is damaged in itself is for those who read it."""
    *line, begins = row
    stored = thread_of(tuple(line))
    is_known = stored.row.parent_uid is None and stored.first_chain != GENESIS
    if is_known and begins not in (None, stored.first_chain):
        first = await tx.rows(tx.sql.LIGHT_ENTRIES, (stored.place(0), stored.place(1), 1))
        if first and follows(GENESIS, entry_of(first[0])):
            raise StorageDamagedError(f"the log of thread {stored.row.key.id!r}", "it belongs to another thread")
    return stored


async def _check_absent(tx: Transaction, key: ThreadKey, name: bytes) -> None:
    """Raise where a thread that was not found left a trace: it is damaged, not absent, and nobody must start it afresh.

    The catalog names threads whose row was lost. Of a file, one index may know the row and another may not.
    """
    if await tx.rows(tx.sql.LOST_THREAD, (name,)):
        raise lost(key.id)
    if not tx.sql.dialect.doubts_indexes:
        return
    known = await tx.rows(tx.sql.INDEXED_THREAD, (name,)) or await tx.rows(
        tx.sql.NAMED_THREAD, (key.namespace, key.user, key.id)
    )
    if known:
        raise StorageDamagedError(f"the directory line of thread {key.id!r}", "its indexes do not agree")


def lost(thread_id: str) -> StorageDamagedError:
    """What is said of a thread whose row is gone while the catalog has it."""
    return StorageDamagedError(f"the directory line of thread {thread_id!r}", f"it {LOST}")


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
        if parent and not rows and stored.row.parent_version:
            raise StorageDamagedError(f"the row of thread {stored.row.key.id!r}", f"its parent {parent} is gone")
        above = await _with_its_log(tx, rows[0]) if rows else None
        # A fork for another user is a copy: a row that says otherwise was changed, and would show another's history.
        if above is not None and not same_owner(above.row.key, stored.row.key):
            raise StorageDamagedError(
                f"the directory line of thread {stored.row.key.id!r}", "its parent is another user's"
            )
        stored = above
    return found


async def pieces(tx: Transaction, stored: StoredThread, at: int) -> History:
    """Whose versions make up the history up to `at`, the nearest first."""
    owners = await lineage(tx, stored)
    cut = spans([(each.row.parent_version, each.row.head) for each in owners], at)
    return list(zip(owners, cut, strict=True))


async def keyed(tx: Transaction, key: ThreadKey, idem_key: str) -> Entry | None:
    """The keyed of the contract."""
    rows = await tx.rows(tx.sql.KEYED, (bytes.fromhex(key.digest()), idem_key))
    if not rows and tx.sql.dialect.doubts_indexes:
        await thread(tx, key)  # a thread that is damaged is not one without the key
    for found in rows:
        *entry, uid, first_chain, identity = found
        check_identity(key, uid, first_chain, identity)
        return entry_of(tuple(entry))
    return None


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


async def since(tx: Transaction, key: ThreadKey, after: int) -> tuple[StoredThread, Restored] | None:
    """The row and the entries after a version of a thread that is known so far; None where `restore` has to look.

    Whose log it is, the chain tells: what is new follows from what is known.
    """
    rows = await tx.rows(tx.sql.SINCE, (bytes.fromhex(key.digest()), after))
    if not rows:
        return None
    stored = _of_key(thread_of(rows[0][:THREAD_WIDTH]), key)
    entries = [entry_of(each[THREAD_WIDTH:]) for each in rows if each[THREAD_WIDTH] is not None]
    if after < stored.row.parent_version or any(map(is_blank, entries)):
        return None
    return stored, Restored(row=stored.row, snapshot=None, entries=entries)


async def _newest_snapshot(tx: Transaction, history: History) -> Snapshot | None:
    newest: Snapshot | None = None
    for owner, span in history:
        low = newest.version + 1 if newest else 0
        for row in await tx.rows(tx.sql.SNAPSHOT, (owner.place(low), owner.place(span.high))):
            newest = snapshot_of(row)
    return newest


async def _composed(tx: Transaction, history: History, low: int = 0) -> list[Record]:
    """What stands for pruned ranges that end after `low`, in order."""
    rows: list[Row] = []
    for owner, span in reversed(history):
        if span.high > low:
            rows += await tx.rows(tx.sql.COMPOSED, (owner.place(max(span.low, low)), owner.place(span.high)))
    return [record_of(row) for row in rows]


async def records(tx: Transaction, key: ThreadKey) -> list[Record]:
    """The records of the contract."""
    stored = await thread(tx, key)
    return await records_of(tx, await pieces(tx, stored, stored.row.head)) if stored else []


async def records_of(tx: Transaction, history: History, after: int = 0) -> list[Record]:
    """What stands for pruned ranges of a history that end after a version, in order."""
    found = await _composed(tx, history, after)
    for owner, span in history:
        low = owner.row.parent_version
        for row in await tx.rows(tx.sql.BASES, (owner.place(max(span.low, after)), owner.place(span.high))):
            found.append(base_record(low, snapshot_of(row)))
    return sorted(found, key=lambda record: record.version)


async def seams(tx: Transaction, key: ThreadKey) -> Seams:
    """The seams of the contract."""
    stored = await thread(tx, key)
    return await seams_of(tx, await pieces(tx, stored, stored.row.head)) if stored else Seams()


async def seams_of(tx: Transaction, history: History) -> Seams:
    """The rewinds and the gone versions of a history."""
    rewinds: list[Rewind] = []
    gone: list[Range] = []
    for owner, span in history:
        bounds = (owner.place(span.low), owner.place(span.high))
        for sort, version, number in map(seam_of, await tx.rows(tx.sql.SEAMS, bounds * 3)):
            if sort == 0:
                rewinds.append(rewind_of((version, number)))
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


async def entries(
    tx: Transaction, key: ThreadKey, after: int, limit: int | None, kinds: Sequence[EntryKind] | None
) -> list[Entry]:
    """The entries of the contract."""
    stored = await thread(tx, key)
    if stored is None:
        return []
    history = await pieces(tx, stored, stored.row.head)
    return await entries_of(tx, history, after, limit, kinds, is_linked=kinds is not None)


async def entries_of(
    tx: Transaction,
    history: History,
    after: int,
    limit: int | None,
    kinds: Sequence[EntryKind] | None,
    *,
    is_linked: bool,
) -> list[Entry]:
    """The entries of a history after a version, to its end unless there is a limit.

    With `is_linked` each has to follow from the one before: one whose kind was changed would be left out unnoticed.
    The newest has to be the one that the row names: a damaged row would make a whole list shorter.
    """
    found: list[Entry] = []
    start = after - 1 if is_linked and after else after  # the first one has to follow from the one before it
    last, chain = start, None if start else GENESIS
    for owner, span in reversed(history):
        low = max(span.low, start)
        while low < span.high and (limit is None or len(found) < limit):
            # Not more at a time: of many rows PostgreSQL sorts all there are instead of following its index.
            page = PAGE if limit is None or kinds is not None else min(PAGE, limit - len(found))
            rows = await tx.rows(tx.sql.ENTRIES, (owner.place(low), owner.place(span.high), page))
            _check_whole(owner.row.key, rows, range(low + 1, min(low + page, span.high) + 1))
            read = list(map(entry_of, rows))
            if is_linked and chain is None:
                verify_links(owner.row.key.id, read[0].version, read[0].chain, read[1:])
            elif is_linked and chain is not None:
                verify_links(owner.row.key.id, low, chain, read)
            low += len(rows)
            last, chain = low, read[-1].chain
            found += [entry for entry in read if entry.version > after and (kinds is None or entry.kind in kinds)]
    if limit is None:
        _check_head(history, last, chain)
    return found[:limit]


def _check_head(history: History, last: int, chain: bytes | None) -> None:
    """Raise where the last entry that was read is the head, and another one than the row names."""
    row = history[0][0].row
    if last == row.head and chain not in (None, row.head_digest):
        raise EntryDamagedError(row.key.id, row.head, "is not the newest: the row has another head digest")


def _check_whole(key: ThreadKey, rows: list[Row], versions: range) -> None:
    """Raise unless these are the rows of these versions: a damaged index leaves some out and tells nobody."""
    for row, version in zip(rows, versions, strict=False):
        if row[0] != version:
            raise EntryDamagedError(key.id, version, MISSING)
    if len(rows) < len(versions):
        raise EntryDamagedError(key.id, versions[len(rows)], MISSING)


def onwards(key: ThreadKey, before: int, now: int) -> int:
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
    ends, page = EVERYTHING[1] if until is None else until, max(limit, _NEAR)
    for owner, span in await pieces(tx, stored, stored.row.head if at is None else at) if stored else []:
        high = span.high
        while high > span.low and len(found) < limit:
            most = limit if kinds is None else page
            rows = await tx.rows(tx.sql.HEADERS, (owner.place(span.low), owner.place(high), ends, most))
            if until is not None:  # later ones are passed over, and maybe all of them
                high = rows[0][0] if rows else span.low
            _check_whole(owner.row.key, rows, range(high, max(high - most, span.low), -1))
            page = max(limit, min(page * 4, PAGE))
            high -= len(rows)
            read = map(entry_of, rows)  # also those of other kinds: one whose kind was changed must not be passed over
            found += [entry for entry in read if kinds is None or entry.kind in kinds]
    return found[:limit]


async def written_at(tx: Transaction, stored: StoredThread, first: int) -> list[Entry]:
    """The headers of the entries that were written together, from the first one on."""
    found: list[Entry] = []
    low, high = stored.place(first - 1), stored.place(stored.row.head)
    while len(written_together(found)) == len(found) if found else True:
        rows = await tx.rows(tx.sql.LIGHT_ENTRIES, (low, high, _TOGETHER))
        if not rows:
            break
        found += [entry_of(row) for row in rows]
        low = onwards(stored.row.key, low, stored.place(found[-1].version))
    return [*written_together(found)]  # type: ignore[list-item]
