"""The transactions that compare what is derived from a log with it, and make it again."""

from __future__ import annotations

from perdure.core.checkpoint import MAX_LIMIT
from perdure.core.derived import Derived, mended, same_line
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Record
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.core.writes import base_record
from perdure.storage.sql.history import thread
from perdure.storage.sql.messages import forget
from perdure.storage.sql.pruning import set_uses
from perdure.storage.sql.rows import (
    VERSIONS,
    StoredThread,
    checkpoint_of,
    checkpoint_values,
    entry_of,
    record_of,
    snapshot_of,
    use_of,
)
from perdure.storage.sql.statements import CHECKPOINT_COLUMNS
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.writing import catalog, move


async def derived(tx: Transaction, key: ThreadKey) -> Derived | None:
    """The derived of the contract."""
    stored = await thread(tx, key)
    if stored is None:
        return None
    bounds, last = (stored.place(-1), stored.place(VERSIONS) - 1), stored.place(VERSIONS)
    marks = await tx.rows(tx.sql.checkpoints(()), (stored.place(0), last, MAX_LIMIT))
    beyond = (stored.place(stored.row.head), bounds[1])
    return Derived(
        row=stored.row,
        checkpoints=[checkpoint_of(row) for row in reversed(marks)],
        rewinds=[Rewind(entry, to) for entry, to in await tx.rows(tx.sql.REWINDS, bounds)],
        uses=dict(map(use_of, await tx.rows(tx.sql.USES, (stored.number,)))),
        snapshots=[version for (version,) in await tx.rows(tx.sql.DERIVED, bounds)],
        beyond=[entry_of(row) for row in await tx.rows(tx.sql.ENTRIES, (*beyond, MAX_LIMIT))],
        records=await _records(tx, stored, beyond),
        is_catalogued=await _is_catalogued(tx, stored),
    )


async def _is_catalogued(tx: Transaction, stored: StoredThread) -> bool:
    named = await tx.rows(tx.sql.CATALOGUED, (bytes.fromhex(stored.row.key.digest()),))
    return [tuple(row) for row in named] == [(stored.number, stored.row.uid)]


async def _records(tx: Transaction, stored: StoredThread, bounds: tuple[int, int]) -> list[Record]:
    bases = [snapshot_of(row) for row in await tx.rows(tx.sql.BASES, bounds)]
    composed = [record_of(row) for row in await tx.rows(tx.sql.COMPOSED, bounds)]
    found = [*composed, *(base_record(stored.row.parent_version, base) for base in bases)]
    return sorted(found, key=lambda record: record.version)


async def reindex(tx: Transaction, seen: ThreadRow, made: Derived) -> bool:
    """The reindex of the contract."""
    stored = await thread(tx, seen.key, lock=True)
    if stored is None or not same_line(stored.row, seen):
        return False
    standing = StoredThread(stored.number, mended(stored.row, made.row))
    await move(tx, standing, patch=False)
    await catalog(tx, standing)
    await _forget(tx, standing)
    rows = (checkpoint_values(stored.number, stored.place(mark.entry), mark) for mark in made.checkpoints)
    if made.checkpoints:
        await tx.fill("checkpoint", CHECKPOINT_COLUMNS, rows)
    for rewind in made.rewinds:
        await tx.run(tx.sql.INSERT_REWIND, (stored.place(rewind.entry), rewind.to))
    await set_uses(tx, stored, made.uses)
    return True


async def _forget(tx: Transaction, stored: StoredThread) -> None:
    """Drop every index line of the thread, wherever it stands, and snapshots of versions that there are not."""
    everything = (stored.place(-1), stored.place(VERSIONS))
    await tx.run(tx.sql.DROP_CHECKPOINTS, everything)
    await tx.run(tx.sql.DROP_THREAD_MARKS, (stored.number,))
    await tx.run(tx.sql.DROP_REWINDS, everything)
    await forget(tx, stored.number)  # read off the log again when somebody asks
    await tx.run(tx.sql.DROP_DERIVED, (stored.place(stored.row.head), stored.place(VERSIONS)))
