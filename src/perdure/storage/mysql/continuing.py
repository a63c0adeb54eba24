"""The save of somebody who saw the line last: nothing of it has to be read, only to be found as it was.

    BEGIN ─ head, if the line is the known one ─ entry ─ checkpoint ─ COMMIT

Half the work of `saving`, which makes the write when the line is another one by now. If the head did not move, the
entry has no place: the text ends there with an error (`Missed`), and nothing is committed. A server whose client is
gone may take a head that moved for one that did not; then nothing is committed either.

The time that the server gave the entry is kept in the line, and goes on as `LAST_INSERT_ID()`: to the entry, to the
checkpoint, and to us, as the number of the update. `UPDATE` assigns from left to right.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.core.checkpoint import CheckpointMark
from perdure.core.writes import Write, accepted, checkpoint_row, continues, stamped
from perdure.storage.mysql.dialect import SERVER_NOW
from perdure.storage.mysql.literals import spelled
from perdure.storage.mysql.phrases import BEGIN, COMMIT, Phrase, Phrases, link
from perdure.storage.mysql.wires import Result
from perdure.storage.sql.rows import Row, StoredThread
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.writing import Answer

_MOVED_AT = 1  # where in the results the move of the head is
_CHAIN = "UNHEX(SHA2(CONCAT(?, UNHEX(LPAD(HEX({at}), 16, '0')), ?), 256))"
_MOVE = "UPDATE {thread} SET updated_at = LAST_INSERT_ID(GREATEST({now}, updated_at)), head_digest = {moved}, head = ?"
_AS_KNOWN = """ WHERE "row" = ? AND uid = ? AND head = ? AND head_digest = ? AND epoch = ?
  AND lease_owner <=> ? AND lease_until = ? AND wake_at <=> ? AND name_key IS NOT NULL"""
_ENTRY = """INSERT INTO {entry}
  ("row", kind, at, actor, write_id, idem_key, request, "schema", payload_digest, chain, payload)
VALUES ({place}, ?, LAST_INSERT_ID(), ?, ?, ?, ?, ?, ?, {added}, ?)"""
_MARK = """INSERT INTO {checkpoint}
  ("row", id, thread, version, kind, status, note, agent, metadata, parent, at)
VALUES ({place}, ?, ?, ?, ?, ?, ?, ?, ?, ?, LAST_INSERT_ID())"""
_PLACE = "IF(ROW_COUNT() = 1, ?, NULL)"


class Continuing:
    """From a write to the text of its save, and from the results to an answer."""

    def __init__(self, sql: Statements, phrases: Phrases, *, server_time: bool) -> None:
        words = {name: sql.dialect.table(name) for name in ("thread", "entry", "checkpoint")}
        words |= {"now": SERVER_NOW if server_time else "?", "place": _PLACE}
        words |= {"moved": _CHAIN.format(at="updated_at"), "added": _CHAIN.format(at="LAST_INSERT_ID()")}
        self._move, self._entry, self._mark = (text.format(**words) for text in (_MOVE, _ENTRY, _MARK))
        self._phrases = phrases
        self._server_time = server_time

    def fits(self, write: Write, known: StoredThread | None) -> bool:
        """Whether the write is one entry on top of the known line, which admits it."""
        if known is None or len(write.entries) != 1 or write.blobs:
            return False
        return continues(known.row, write)

    def text(self, write: Write, known: StoredThread | None) -> bytes:
        """The whole transaction."""
        statements = self._statements(write, known) if known is not None else ()
        return b"; ".join(spelled(text, values) for text, values in statements)

    def _statements(self, write: Write, known: StoredThread) -> Iterator[Phrase]:
        row, version = known.row, known.row.head + 1
        chained = (row.head_digest + version.to_bytes(8, "big"), b"".join(link(write, 0)))
        changes, values = self._phrases.changes(write, 0, "updated_at")
        now = () if self._server_time else (write.micros,)
        yield BEGIN
        yield self._move + changes + _AS_KNOWN, (*now, *chained, version, *values, *known.as_known())
        yield self._entry, (known.place(version), *_entry_values(write, chained))
        if write.checkpoint is not None:
            yield self._mark, (known.place(version), *_mark_values(write.checkpoint, known))
        yield COMMIT

    def answer(self, write: Write, known: StoredThread | None, results: list[Result]) -> Answer | None:
        """What became of the write."""
        if known is None:
            return None
        after, _ = stamped(known.row, self._phrases.timed(write, results[_MOVED_AT].number))
        mark = checkpoint_row(known.row, after, write.checkpoint) if write.checkpoint else None
        return accepted(known.row, after, mark), known.number


def _entry_values(write: Write, chained: tuple[bytes, bytes]) -> Row:
    (entry,) = write.entries
    ids = (write.write_id, write.idem_key, write.request)
    return (entry.kind.value, entry.actor, *ids, entry.schema, entry.digest, *chained, entry.payload)


def _mark_values(mark: CheckpointMark, known: StoredThread) -> Row:
    version = known.row.head + 1 if mark.version is None else mark.version
    described = (mark.kind, mark.status, mark.note, mark.agent, mark.metadata)
    return (mark.id, known.number, version, *described, mark.parent or known.row.last_checkpoint)
