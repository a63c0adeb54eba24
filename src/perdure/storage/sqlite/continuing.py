"""The append of somebody who saw the line last: nothing of it has to be read, only to be found as it was.

    entry, unless its place or its key is taken ─ head, if the line is the known one ─ the rest

Half the work of the slow way, which makes the write when the line is another one by now. An UPDATE of SQLite's touches
the index of each column that it names, whether its value changes or not: what stays as it was is not named.
"""

from __future__ import annotations

from typing import cast

from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Write, continues, foreseen
from perdure.storage.sql.dialect import MINUTE
from perdure.storage.sql.rows import Row, StoredThread, checkpoint_values, entry_values
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
    if known is not None and not write.patches and not write.blobs and continues(known.row, write):
        done = _append_to_known(cast("SqliteTransaction", tx), write, known)
        if done is not None:
            return done, known.number
    return await append_slowly(tx, write)


def _append_to_known(tx: SqliteTransaction, write: Write, known: StoredThread) -> Appended | None:
    """None, and nothing changed, when the line is another one by now, or the key stands."""
    before, (answer, entries) = known.row, foreseen(known.row, write)
    if not tx.execute(_ADD_ENTRY, entry_values(known.place(before.head + 1), entries[0])).rowcount:
        return None
    move, values = _moved(before, answer.row)
    if not tx.execute(move, (*values, *known.as_known())).rowcount:
        tx.execute(_TAKE_BACK, (known.place(before.head + 1),))
        return None
    for entry in entries[1:]:
        tx.execute(STATEMENTS.INSERT_ENTRY, entry_values(known.place(entry.version), entry))
    mark = answer.checkpoint
    if mark is not None:
        values = checkpoint_values(known.number, known.place(mark.entry), mark)
        tx.execute(STATEMENTS.INSERT_CHECKPOINT, values)
    return answer


def _moved(before: ThreadRow, after: ThreadRow) -> tuple[str, Row]:
    head = (
        after.head, after.state_version, after.run, after.head_digest, after.last_checkpoint, after.updated,
    )  # fmt: skip
    if after.lease_until == before.lease_until and after.updated >> MINUTE == before.updated >> MINUTE:
        return _MOVE_HEAD, head
    return _MOVE_LINE, (*head, after.lease_until, after.updated >> MINUTE)
