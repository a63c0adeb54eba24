"""A save in one round trip, from whatever the line is: it is locked, judged, and told to the client.

    BEGIN ─ the line, locked ─ its head, if the write is admitted ─ entry ─ checkpoint ─ head ─ … ─ COMMIT

A write that is not admitted changes nothing, and the slow way says why. A key that stands already is found by its
unique index, which ends the text halfway.

A text whose connection was cut may reach the server late, when it was given up and its write made the slow way: what
neither a key nor an expected version tells from a new write looks for its write id among the last entries.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterator
from time import monotonic

import msgspec

from perdure.core.quarantine import RUN_KINDS
from perdure.core.writes import Write, accepted, at_moment, checkpoint_row, kind_of, stamped
from perdure.storage.mysql.literals import spelled
from perdure.storage.mysql.phrases import MOST, NOW, Phrase, Phrases
from perdure.storage.mysql.transactions import MysqlPort
from perdure.storage.mysql.wires import Result
from perdure.storage.sql.rows import StoredThread, thread_of
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.writing import Answer

_LINE_AT, _MOVED_AT = 2, -2  # where in the results the line is, and the last move of the head
_DIGESTS_AT = (11, -2, -1)  # where in the row digests are
# One column for the whole line: a driver in Python takes longer to read 24 of them than the server to save.
_LINE = "SELECT JSON_ARRAY({columns}, {now}) FROM {thread} WHERE name_key = ? FOR UPDATE"
_HEAD = "SET @perdure_head = (SELECT head FROM {thread} t WHERE name_key = ?"
_NOT_AGAIN = """ AND NOT EXISTS (SELECT 1 FROM {entry} e WHERE e.write_id = ?
  AND e."row" > t."row" * 4294967296 + t.head - 64 AND e."row" <= t."row" * 4294967296 + t.head)"""
_ON_HEAD = "name_key = ? AND head = @perdure_head + ?"  # NULL, if the write is not admitted


class Saving:
    """From a write to the text of its save, and from the results to an answer."""

    def __init__(self, sql: Statements, port: MysqlPort, *, server_time: bool) -> None:
        words = {"thread": sql.dialect.table("thread"), "entry": sql.dialect.table("entry"), "now": NOW}
        words["columns"] = re.sub("head_digest|first_chain|identity", r"TO_BASE64(\g<0>)", sql.thread_columns)
        self._line, self._head, self._not_again = (text.format(**words) for text in (_LINE, _HEAD, _NOT_AGAIN))
        self._phrases = Phrases(sql, server_time=server_time)
        self._port = port
        self._server_time = server_time

    async def save(self, write: Write, known: StoredThread | None) -> Answer | None:
        """Make the write, if it is one to a thread that is probably there; None when it is not made."""
        if not _fits(write, known):
            return None
        asked = 0.0

        def statements() -> list[bytes]:
            nonlocal asked
            asked = monotonic()
            return [spelled(*phrase) for phrase in self._statements(write)]

        results = await self._port.save(statements)
        return self._answer(write, results, asked) if results[_MOVED_AT].changed == 1 else None

    def _statements(self, write: Write) -> Iterator[Phrase]:
        name = bytes.fromhex(write.key.digest())
        yield self._phrases.now(write)
        yield self._line, (name,)
        yield self._admission(write, name)
        for at in range(len(write.entries)):
            where: Phrase = (_ON_HEAD, (name, at))
            yield self._phrases.entry(write, at, where)
            if write.checkpoint is not None and at == len(write.entries) - 1:
                yield self._phrases.mark(write.checkpoint, where)
            yield self._phrases.move(write, at, where)

    def _admission(self, write: Write, name: bytes) -> Phrase:
        """What `core.writes.admit` asks of a line."""
        conditions: list[Phrase] = [(self._head, (name,))]
        if _could_double(write):
            conditions.append((self._not_again, (write.write_id,)))
        if write.uid is not None:
            conditions.append((" AND uid = ?", (write.uid,)))
        if write.epoch is not None:
            conditions.append((" AND epoch = ? AND lease_owner IS NOT NULL", (write.epoch,)))
        elif write.changes_state and not write.commutes:
            conditions.append((f" AND (lease_owner IS NULL OR lease_until <= {NOW})", ()))
        if write.expected is not None:
            conditions.append((" AND head_state_version = ?", (write.expected,)))
        if write.after_run is not None:
            conditions.append((" AND run_version = ?", (write.after_run,)))
        if write.head is not None:
            conditions.append((" AND head = ?", (write.head,)))
        if not RUN_KINDS.isdisjoint(map(kind_of, write.entries)):
            conditions.append((" AND quarantined_at IS NULL", ()))
        text = "".join(text for text, _ in conditions)
        return f"{text})", tuple(value for _, values in conditions for value in values)

    def _answer(self, write: Write, results: list[Result], asked: float) -> Answer:
        """What became of a write that was made; the server told the time by the way."""
        *line, now = msgspec.json.decode(results[_LINE_AT].rows[0][0])
        for at in _DIGESTS_AT:
            line[at] = a2b_base64(line[at])
        stored = thread_of(tuple(line))
        if self._server_time:
            self._port.time.hear(now, asked)
            write = at_moment(write, max(now, stored.row.updated))
        after, _ = stamped(stored.row, write)
        mark = checkpoint_row(stored.row, after, write.checkpoint) if write.checkpoint else None
        return accepted(stored.row, after, mark), stored.number


def _fits(write: Write, known: StoredThread | None) -> bool:
    there = write.is_plain and (write.uid is not None or known is not None)
    return there and len(write.entries) <= MOST and not write.blobs and write.since is None


def _could_double(write: Write) -> bool:
    """Whether nothing else would refuse the same write a second time."""
    moves = write.expected is not None and write.changes_state
    return write.idem_key is None and not moves
