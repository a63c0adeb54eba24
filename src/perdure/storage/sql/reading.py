"""The transactions that list, and those that read a whole log: checkpoints, threads, sizes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.core.checkpoint import MAX_LIMIT, CheckpointQuery, CheckpointRow, each_once, matches, without_left
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import WholeLog
from perdure.core.seams import Rewind, Seams
from perdure.core.threads import ThreadQuery, ThreadRow, Which, listed
from perdure.core.verification import Damage
from perdure.core.writes import Sizes
from perdure.storage.sql.dialect import EVERYBODY, NOBODY, ONE
from perdure.storage.sql.history import (
    EVERYTHING,
    LOST,
    PAGE,
    History,
    entries_of,
    lost,
    onwards,
    pieces,
    records_of,
    seams_of,
    thread,
)
from perdure.storage.sql.rows import (
    UNREADABLE,
    VERSIONS,
    Row,
    StoredThread,
    blob_of,
    checkpoint_of,
    rewind_of,
    sound_threads,
    thread_of,
)
from perdure.storage.sql.statements import filters_of
from perdure.storage.sql.transactions import Transaction

_encode = msgspec.json.Encoder().encode
_LINES = 10_000  # of threads, in a page
_LAST = (1 << 62, "\U0010ffff")


async def log(
    tx: Transaction, key: ThreadKey, after: int, kinds: Sequence[EntryKind] | None, with_checkpoints: bool
) -> WholeLog | None:
    """The log of the contract."""
    stored = await thread(tx, key)
    if stored is None:
        return None
    history = await pieces(tx, stored, stored.row.head)
    seams = await seams_of(tx, history)
    marks = await checkpoints(tx, key, CheckpointQuery(limit=MAX_LIMIT)) if with_checkpoints else []
    entries = await entries_of(tx, history, after, None, None if seams.rewinds else kinds, is_linked=True)
    _check_rewinds(key, entries, seams)
    return WholeLog(
        row=stored.row,
        entries=entries,
        records=await records_of(tx, history, after) if seams.gone else [],
        rewinds=seams.rewinds,
        checkpoints=[mark for mark in reversed(marks) if mark.entry > after],
    )


def _check_rewinds(key: ThreadKey, entries: Sequence[Entry], seams: Seams) -> None:
    """Raise where the log goes back and the index does not say so: what was left behind would look present."""
    known = {rewind.entry for rewind in seams.rewinds}
    for entry in entries:
        if entry.kind is EntryKind.THREAD_REWOUND and entry.version not in known:
            raise EntryDamagedError(key.id, entry.version, "goes back, and its rewind is not in the index")


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
            high = -onwards(key, -high, -owner.place(marks[-1].entry))
    return found[: query.limit]


async def _rewinds(tx: Transaction, history: History) -> list[Rewind]:
    rows: list[Row] = []
    for owner, span in history:
        rows += await tx.rows(tx.sql.REWINDS, (owner.place(span.low), owner.place(span.high)))
    return list(map(rewind_of, rows))


async def _cursors(tx: Transaction, query: CheckpointQuery) -> list[int]:
    """Where the checkpoint stands that a page goes on after: in this history, and perhaps in copies of it."""
    rows = [] if query.before is None else await tx.rows(tx.sql.CHECKPOINT_PLACES, (query.before,))
    return [place for (place,) in rows]


def _below(history: History, places: list[int], query: CheckpointQuery) -> list[tuple[StoredThread, int, int]]:
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
    return max(PAGE, query.limit) if query.metadata or query.left else query.limit


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


async def line(tx: Transaction, uid: str) -> ThreadRow | None:
    """The line of the contract."""
    rows = await tx.rows(tx.sql.LINE, (uid,))
    return thread_of(rows[0]).row if rows else None


async def find(tx: Transaction, namespace: str, thread_id: str) -> list[ThreadRow]:
    """The find of the contract."""
    rows = await tx.rows(tx.sql.THREADS_BY_ID, (namespace, thread_id))
    found = [each.row for each in sound_threads(rows)]
    if rows and not found:
        thread_of(rows[0])  # it is damaged, not absent
    if not rows and await tx.rows(tx.sql.LOST_BY_ID, (namespace, thread_id)):
        raise lost(thread_id)
    return sorted(found, key=lambda row: row.key.user)


async def namespaces(tx: Transaction) -> list[str]:
    """The namespaces of the contract."""
    return sorted(namespace for (namespace,) in await tx.rows(tx.sql.NAMESPACES))


async def damaged(tx: Transaction) -> list[Damage]:
    """The damaged of the contract: lines of the directory that do not decode, and threads that have none."""
    unreadable = [found for row in await tx.rows(tx.sql.ALL_THREADS) if (found := _damage(row)) is not None]
    return [*unreadable, *(_lost(row) for row in await tx.rows(tx.sql.LOST_THREADS))]


def _lost(row: Row) -> Damage:
    namespace, user, thread_id = (str(part) for part in row[2:5])
    return Damage(thread_id=thread_id, user=user, namespace=namespace, place="directory line", reason=LOST)


def _damage(row: Row) -> Damage | None:
    try:
        thread_of(row)
    except UNREADABLE as exc:
        namespace, user, thread_id = (str(part) for part in row[2:5])
        return Damage(
            thread_id=thread_id, user=user, namespace=namespace, place="directory line", reason=f"cannot be read: {exc}"
        )
    return None


async def strays(tx: Transaction) -> dict[str, int]:
    """The strays of the contract."""
    known = {number for number, *_ in await tx.rows(tx.sql.LOST_THREADS)}  # `damaged` names them
    found = [(number, name, count) for name, number, count in await tx.rows(tx.sql.STRAYS) if number not in known]
    return {f"row {number}; {name}": count for number, name, count in sorted(found)}


async def threads(tx: Transaction, query: ThreadQuery) -> list[ThreadRow]:
    """The threads of the contract."""
    found: list[ThreadRow] = []
    before = query.before or _LAST
    page = max(PAGE, query.limit)
    whose, owner = whose_rows(query.user)
    tagged, searched = query.tag is not None, bool(query.search)
    statement = tx.sql.threads(whose, tagged=tagged, searched=searched)
    tag = (_encode(query.tag).decode(),) if tagged else ()
    text = ((query.search or "").casefold(),) * 2 if searched else ()
    while len(found) < query.limit:
        values = (query.namespace, *owner, *tag, *text, *tx.sql.dialect.newest_before(*before), page)
        rows = await tx.rows(statement, values)
        lines = [each.row for each in sound_threads(rows)]
        found += [line for line in lines if listed(line, query)]
        if len(rows) < page or not lines or (lines[-1].updated, lines[-1].uid) >= before:
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
    page = limit
    while True:
        rows = await tx.rows(tx.sql.due(text + cut_off, text + left), (*part, *gone, *part, *old, page))
        found = [each.row for each in sound_threads(rows)]
        if len(found) >= limit or len(rows) < page:
            return found[:limit]
        page *= 4  # damaged rows that are due for ever must not hide the others


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
        for row in await tx.rows(tx.sql.BLOB, (scope, digest)):
            found[digest] = blob_of(row)
    return found


async def sizes(tx: Transaction, key: ThreadKey | None, disk_bytes: int) -> Sizes:
    """The sizes of the contract."""
    stored = await thread(tx, key) if key else None
    if key is not None and stored is None:
        bounds = (0, 0)
    else:
        bounds = (stored.place(0), stored.place(VERSIONS)) if stored else EVERYTHING
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


async def kept(tx: Transaction, prefix: str) -> dict[str, bytes]:
    """The kept of the contract. There are a handful, and the numbers of the layout beside them."""
    rows = await tx.rows(tx.sql.META)
    return {name: bytes.fromhex(value) for name, value in sorted(rows) if name.startswith(prefix)}
