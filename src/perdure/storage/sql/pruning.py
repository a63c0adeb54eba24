"""The part of a transaction that drops what a prune names, and puts what stands for it."""

from __future__ import annotations

from perdure.core.entries import EntryKind
from perdure.core.pruning import BLANK, Pruning, Record, check_current
from perdure.core.seams import check_there
from perdure.storage.sql.history import lineage, needed_by_forks, pieces, seams_of
from perdure.storage.sql.rows import StoredThread, scope_of
from perdure.storage.sql.transactions import Transaction


async def check_plan(tx: Transaction, stored: StoredThread, pruning: Pruning) -> None:
    """Raise `PlanOutdatedError` when the plan would drop what was named since; the thread's line is locked."""
    bounds = (stored.place(pruning.seen), stored.place(stored.row.head))
    newer = [EntryKind(kind) for (kind,) in await tx.rows(tx.sql.NEWER_KINDS, bounds)]
    check_current(stored.row, pruning, await needed_by_forks(tx, stored.row.uid), newer)


async def check_goal(tx: Transaction, stored: StoredThread, version: int) -> None:
    """Raise `NotFoundError` when a version that is gone back to, or named, was pruned; the thread's line is locked.

    Where it is a parent's, that is held too until the entry is written: a prune could come between, and miss it.
    """
    if version < stored.row.parent_version:
        await lineage(tx, stored, lock=True)
    gone = (await seams_of(tx, await pieces(tx, stored, stored.row.head))).gone
    check_there(stored.row.key.id, version, gone)


async def prune(tx: Transaction, stored: StoredThread, head: int, pruning: Pruning) -> None:
    """Empty what the records stand for, and put them. `head` is the version before the entry that tells of it."""
    for record in pruning.records:
        await _blank(tx, stored, record)
        await put_record(tx, stored, record)
    for version in pruning.blank:
        await tx.run(tx.sql.BLANK_ENTRY, (BLANK, stored.place(version)))
    for entry in pruning.unmarked:
        await tx.run(tx.sql.UNMARK, (stored.place(entry),))
    if pruning.uses is not None and head == pruning.seen:
        await set_uses(tx, stored, pruning.uses)
    for record in pruning.records:
        await _use(tx, stored, dict.fromkeys(record.blobs, record.version))


async def _blank(tx: Transaction, stored: StoredThread, record: Record) -> None:
    bounds = (stored.place(record.low), stored.place(record.version))
    await tx.run(tx.sql.BLANK_RANGE, (BLANK, *bounds))
    await tx.run(tx.sql.DROP_COMPOSED, bounds)
    await tx.run(tx.sql.DROP_INSIDE, (bounds[0], bounds[1] - (not record.whole)))


async def put_record(tx: Transaction, stored: StoredThread, record: Record) -> None:
    """Put what stands for a range."""
    place = stored.place(record.version)
    if record.whole:
        await tx.run(tx.sql.PUT_SNAPSHOT, (place, 1, record.chain, record.digest, record.payload))
    else:
        await tx.run(tx.sql.INSERT_COMPOSED, (place, record.low, record.chain, record.digest, record.payload))


async def set_uses(tx: Transaction, stored: StoredThread, uses: dict[bytes, int]) -> None:
    """Make these the large values that the thread holds on to."""
    await tx.run(tx.sql.FORGET_USES, (stored.number,))
    await _use(tx, stored, uses)


async def _use(tx: Transaction, stored: StoredThread, uses: dict[bytes, int]) -> None:
    """Note from which version on the thread refers to large values."""
    scope = scope_of(stored.row.key)
    for digest, version in uses.items():
        for (number,) in await tx.rows(tx.sql.BLOB_ROW, (scope, digest)):
            await tx.run(tx.sql.USE_BLOB, (stored.number, number, version))
