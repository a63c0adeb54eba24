"""The append of somebody who saw the line last: nothing of it has to be read, only to be found as it was.

    entry, unless its place or its key is taken ─ head, if the line is the known one ─ the rest

Half the work of the slow way, which makes the write when the line is another one by now. An UPDATE of SQLite's touches
the index of each column that it names, whether its value changes or not: what stays as it was is not named.
"""

from __future__ import annotations

from typing import cast

from perdure.core.threads import NO_PATCH
from perdure.core.writes import Appended, Write, continues, foreseen
from perdure.storage.sql.dialect import MINUTE
from perdure.storage.sql.rows import VERSIONS, StoredThread, checkpoint_values, entry_values
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.writing import Answer, append_slowly
from perdure.storage.sqlite.connection import SqliteTransaction
from perdure.storage.sqlite.dialect import STATEMENTS

_ADD_ENTRY = f"{STATEMENTS.INSERT_ENTRY} ON CONFLICT DO NOTHING"
_TAKE_BACK = 'DELETE FROM perdure_entry WHERE "row" = ?'
_HEAD = "head = ?, head_state_version = ?, run_version = ?, head_digest = ?, last_checkpoint = ?, updated_at = ?"
# What changes with each entry is compared, and all that can change without one.
_AS_KNOWN = """"row" = ? AND uid = ? AND head = ? AND head_digest = ? AND epoch = ? AND lease_owner IS ?
  AND lease_until = ? AND wake_at IS ? AND name_key IS NOT NULL"""
_MOVE_HEAD = f"UPDATE perdure_thread SET {_HEAD} WHERE {_AS_KNOWN}"  # noqa: S608  # words of ours
_MOVE_LINE = f"UPDATE perdure_thread SET {_HEAD}, lease_until = ?, updated_minute = ? WHERE {_AS_KNOWN}"  # noqa: S608


async def append(tx: Transaction, write: Write, known: StoredThread | None) -> Answer:
    """The append of the contract, and the number of the thread's row. `known` is the line as this process saw it."""
    is_plain = write.patch is NO_PATCH or not write.patches
    if known is not None and is_plain and not write.blobs and continues(known.row, write):
        done = _append_to_known(cast("SqliteTransaction", tx), write, known)
        if done is not None:
            return done, known.number
    return await append_slowly(tx, write)


def _append_to_known(tx: SqliteTransaction, write: Write, known: StoredThread) -> Appended | None:
    """None, and nothing changed, when the line is another one by now, or the key stands."""
    before, (answer, entries), execute = known.row, foreseen(known.row, write), tx.execute
    after, begin = answer.row, known.number * VERSIONS
    if not execute(_ADD_ENTRY, entry_values(begin + before.head + 1, entries[0])).rowcount:
        return None
    as_known = (
        known.number, before.uid, before.head, before.head_digest, before.epoch, before.lease_owner, before.lease_until,
        before.wake_at,
    )  # fmt: skip
    head = (
        after.head, after.state_version, after.run, after.head_digest, after.last_checkpoint, after.updated,
    )  # fmt: skip
    if after.lease_until == before.lease_until and after.updated >> MINUTE == before.updated >> MINUTE:
        moved = execute(_MOVE_HEAD, (*head, *as_known)).rowcount
    else:
        moved = execute(_MOVE_LINE, (*head, after.lease_until, after.updated >> MINUTE, *as_known)).rowcount
    if not moved:
        execute(_TAKE_BACK, (begin + before.head + 1,))
        return None
    for entry in entries[1:]:
        execute(STATEMENTS.INSERT_ENTRY, entry_values(begin + entry.version, entry))
    if (mark := answer.checkpoint) is not None:
        execute(STATEMENTS.INSERT_CHECKPOINT, checkpoint_values(known.number, begin + mark.entry, mark))
    return answer
