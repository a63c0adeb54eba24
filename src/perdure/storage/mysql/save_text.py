"""The save of somebody who saw the line last: nothing of it has to be read, only to be found as it was.

    BEGIN ─ head, if the line is the known one ─ entries ─ checkpoint ─ COMMIT

If the head did not move, the
entry has no place: the text ends there with an error (`Missed`), and nothing is committed. A server whose client is
gone may take a head that moved for one that did not; then nothing is committed either.

All that is written is known before it is sent, so that the server computes nothing and has nothing to tell. The time is
the server's, as it was told lately (`ServerTime`); if its clock says otherwise, the head does not move, and the row is
read with the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.core.entries import Entry
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Write, foreseen
from perdure.storage.mysql.dialect import SERVER_NOW
from perdure.storage.mysql.errors import Missed
from perdure.storage.mysql.literals import spelled
from perdure.storage.mysql.transactions import MysqlPort
from perdure.storage.sql.rows import Row, StoredThread, checkpoint_values, entry_values, metadata_text, tags_text
from perdure.storage.sql.server_time import BEHIND, ServerTime
from perdure.storage.sql.statements import ENTRY_COLUMNS, Statements

Phrase = tuple[str, Row]  # a statement and its values
MOST = 16  # entries in one text
_MOVE = "UPDATE {thread} SET head = ?, head_digest = ?, updated_at = ?"
_AS_KNOWN = """ WHERE "row" = ? AND uid = ? AND head = ? AND head_digest = ? AND epoch = ?
  AND lease_owner <=> ? AND lease_until = ? AND wake_at <=> ? AND name_key IS NOT NULL AND updated_at <= ?"""
_IN_TIME = f" AND {SERVER_NOW} - ? BETWEEN 0 AND {BEHIND}"
_ENTRY = "INSERT INTO {entry} ({columns}) VALUES ({place}, {rest})"
_PLACE = "IF(ROW_COUNT() = 1, ?, NULL)"  # none, if the head did not move


class SaveText:
    """From a write to the text of its save, whose answer is known if it is made."""

    def __init__(self, sql: Statements, port: MysqlPort, *, server_time: bool) -> None:
        self._move = _MOVE.format(thread=sql.dialect.table("thread"))
        self._as_known = _AS_KNOWN + (_IN_TIME if server_time else "")
        columns = ", ".join(f'"{column}"' for column in ENTRY_COLUMNS)
        rest = ", ".join("?" for _ in ENTRY_COLUMNS[1:])
        self._first = _ENTRY.format(entry=sql.dialect.table("entry"), columns=columns, place=_PLACE, rest=rest)
        self._entry, self._mark = sql.INSERT_ENTRY, sql.INSERT_CHECKPOINT
        self._port = port
        self._time: ServerTime | None = port.time if server_time else None

    async def save(self, write: Write, known: StoredThread) -> Appended | None:
        """Make a write that the known line admits; None when that is another one by now."""
        answer: Appended | None = None

        def statements() -> list[bytes]:
            nonlocal answer
            now = self._now(write)  # it may have waited for a connection
            answer, entries = foreseen(known.row, write, now)
            return [spelled(*phrase) for phrase in self._phrases(known, answer, entries, now)]

        try:
            await self._port.save(statements, results=False)
        except Missed:
            return None
        return answer

    def _now(self, write: Write) -> int:
        return write.micros if self._time is None else self._time.now() or write.micros

    def _phrases(self, known: StoredThread, answer: Appended, entries: list[Entry], now: int) -> Iterator[Phrase]:
        yield self._moved(known, answer.row, now)
        yield from self._added(known, entries)
        if (mark := answer.checkpoint) is not None:
            yield self._mark, checkpoint_values(known.number, known.place(mark.entry), mark)

    def _moved(self, known: StoredThread, after: ThreadRow, now: int) -> Phrase:
        changed = _changed(known.row, after)
        sets = "".join(f", {column} = ?" for column in changed)
        values = (after.head, after.head_digest, after.updated, *changed.values(), *known.as_known(), after.updated)
        in_time = () if self._time is None else (now,)
        return self._move + sets + self._as_known, (*values, *in_time)

    def _added(self, known: StoredThread, entries: list[Entry]) -> Iterator[Phrase]:
        for at, entry in enumerate(entries):
            yield self._entry if at else self._first, entry_values(known.place(entry.version), entry)


def _changed(before: ThreadRow, after: ThreadRow) -> dict[str, Any]:
    """The columns of the line that change besides its head, and their values."""
    both = (
        ("head_state_version", before.state_version, after.state_version),
        ("last_checkpoint", before.last_checkpoint, after.last_checkpoint),
        ("run_version", before.run, after.run),
        ("lease_until", before.lease_until, after.lease_until),
        ("wake_at", before.wake_at, after.wake_at),
        ("attempts", before.attempts, after.attempts),
        ("status", before.status, after.status),
        ("name", before.name, after.name),
        ("agent", before.agent, after.agent),
        ("quarantined_at", before.quarantined_at, after.quarantined_at),
    )
    changed = {column: new for column, old, new in both if new != old}
    if after.tags != before.tags:
        changed["tags"] = tags_text(after.tags)
    if after.metadata != before.metadata:
        changed["metadata"] = metadata_text(after.metadata)
    return changed
