"""The transaction that adds a copied thread: lines one by one, entries and checkpoints in bulk."""

from __future__ import annotations

import msgspec

from perdure.core.digest import GENESIS
from perdure.core.identity import same_owner
from perdure.core.quarantine import shares_past
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy, born, grown, past, standing_until
from perdure.storage.sql.history import pieces, seams_of, thread
from perdure.storage.sql.pruning import put_record
from perdure.storage.sql.rows import StoredThread, checkpoint_values, entry_values, thread_of
from perdure.storage.sql.statements import CHECKPOINT_COLUMNS, ENTRY_COLUMNS
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.writing import hide, keep_blob, make_thread, move


async def put_thread(tx: Transaction, copy: ThreadCopy) -> ThreadRow:
    """The put_thread of the contract, for a copy that was checked."""
    # Uids first: in the other order, this copy made by somebody else in between looked like another thread of its uid.
    free = [uid for uid in copy.uids if await _is_free(tx, uid)]
    stored = await thread(tx, copy.row.key, lock=True)
    until = standing_until(stored.row if stored else None, copy)
    if stored is None:
        stored = await _make(tx, copy, born(copy, free))
    elif until == copy.row.head:
        return stored.row
    else:
        stored = StoredThread(stored.number, grown(stored.row, copy))
        await move(tx, stored, patch=True)
    await _fill(tx, stored, copy, max(until, stored.row.parent_version))
    return stored.row


async def _make(tx: Transaction, copy: ThreadCopy, row: ThreadRow) -> StoredThread:
    """The line of the thread, hung on the parent that is here or on its past."""
    if copy.inherited and not await _has_past(tx, copy):
        parent_is_free = await _is_free(tx, copy.row.parent_uid or "")
        for line in past(copy, row.uid, parent_is_free=parent_is_free):
            await _make_past(tx, line, copy)
            row = msgspec.structs.replace(row, parent_uid=line.uid)
    return StoredThread(await make_thread(tx, row, _first_chain(copy, row)), row)


async def _make_past(tx: Transaction, line: ThreadRow, copy: ThreadCopy) -> None:
    stored = StoredThread(await make_thread(tx, line, _first_chain(copy, line)), line)
    await hide(tx, stored)  # before the thread itself is made, which has the same name
    await _fill(tx, stored, copy, line.parent_version)


def _first_chain(copy: ThreadCopy, row: ThreadRow) -> bytes:
    """The chain digest that ties a row of the copy to its log."""
    return copy.chain_at(row.parent_version if row.parent_uid is not None else 1) or GENESIS


async def _is_free(tx: Transaction, uid: str) -> bool:
    return not await tx.rows(tx.sql.THREAD_ROW, (uid,))


async def _has_past(tx: Transaction, copy: ThreadCopy) -> bool:
    """Whether the parent is here, of the same user, with the past that the copy has. It cannot be deleted meanwhile."""
    for found in await tx.rows(tx.sql.THREAD_BY_UID_LOCKED, (copy.row.parent_uid,)):
        parent = thread_of(found[:-1])
        if not shares_past(parent.row, copy.row):
            return False
        if (await seams_of(tx, await pieces(tx, parent, parent.row.head))).is_gone(copy.inherited):
            return False
        for owner, span in await pieces(tx, parent, copy.inherited):
            if span.low < copy.inherited == span.high and same_owner(parent.row.key, copy.row.key):
                last = await tx.rows(tx.sql.LAST_CHAIN, (owner.place(copy.inherited),))
                return [digest for digest, _ in last] == [copy.chain_at(copy.inherited)]
    return False


async def _fill(tx: Transaction, stored: StoredThread, copy: ThreadCopy, low: int) -> None:
    """Add the entries after `low` up to the head of the thread, and what belongs to them."""
    head, number = stored.row.head, stored.number
    entries = (entry_values(stored.place(entry.version), entry) for entry in copy.between(low, head))
    await tx.fill("entry", ENTRY_COLUMNS, entries)
    marks = [mark for mark in copy.checkpoints if low < mark.entry <= head]
    if marks:
        rows = (checkpoint_values(number, stored.place(mark.entry), mark) for mark in marks)
        await tx.fill("checkpoint", CHECKPOINT_COLUMNS, rows)
    for record in copy.records:
        if low < record.version <= head:
            await put_record(tx, stored, record)
    for rewind in copy.rewinds:
        if low < rewind.entry <= head:
            await tx.run(tx.sql.INSERT_REWIND, (stored.place(rewind.entry), rewind.to))
    for blob in copy.blobs:
        if low < blob.version <= head:
            await keep_blob(tx, stored, blob, blob.version, copy.row.updated)
