"""The save of somebody who saw the line last and knows what time it is at the server.

    moved, if the line is the known one ──> marked, added

All that is written is known before it is sent: the server computes nothing, and its answer is whether it was made. The
time is the server's, as it was told lately (`ServerTime`); if its clock says otherwise, the head does not move, and the
row is read with the time.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.entries import ENTRY_SCHEMA, Entry
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Write, foreseen
from perdure.storage.sql.rows import Row, StoredThread
from perdure.storage.sql.server_time import BEHIND, ServerTime
from perdure.storage.sql.statements import Statements

MOST = 4  # entries of one statement
_MOVE = """WITH moved AS (
  UPDATE {thread} AS line SET head = :to, head_state_version = :state, head_digest = :chain{count}, updated_at = :at,
    last_checkpoint = :last, lease_until = :until
  WHERE "row" = :row AND head = :head AND head_digest = :before AND epoch = :epoch AND name_key IS NOT NULL
    AND {free} AND lease_until = :lease AND updated_at <= :at{in_time}{unused}
  RETURNING 1
)"""
_IN_TIME = f"""
    AND statement_timestamp() - to_timestamp(:told::double precision / 1000000)
      BETWEEN interval '0' AND interval '{BEHIND} microseconds'"""
_MARK = """, marked AS (
  INSERT INTO {checkpoint} ("row", id, thread, version, kind, status, note, agent, metadata, parent, at)
  SELECT :place{count}, :last, :row, :mark_version, :mark_kind, :mark_status, :mark_note, :mark_agent, :mark_metadata,
    :mark_parent, :at FROM moved
)"""
_ADD = """
  INSERT INTO {entry} ("row", kind, at, actor, write_id, idem_key, request, "schema", payload_digest, chain, payload)
  SELECT :place{n}, :kind{n}, :at, :actor{n}, :write_id, {key}, {schema}, :digest{n}, :chain{n}, :payload{n}
  FROM moved"""
_USED = """EXISTS (SELECT 1 FROM {entry} AS e WHERE (e."row" >> 32) = line."row" AND e.idem_key = :key)"""
# The values in the order of `_line_values`, `_entry_values` and `_mark_values`.
_LINE = ("row", "head", "before", "epoch", "lease", "to", "state", "at", "last", "until", "write_id")
_KEY = ("key", "request")
_ENTRY = ("place", "kind", "actor", "digest", "chain", "payload")
_CHECKPOINT = ("mark_version", "mark_kind", "mark_status", "mark_note", "mark_agent", "mark_metadata", "mark_parent")


class Saving(msgspec.Struct, frozen=True):
    """A statement with its values, and the answer to its write if it answers anything."""

    text: str
    values: Row
    answer: Appended


class SaveStatement:
    """From a write on top of a known line to the statement of its save."""

    def __init__(self, sql: Statements, time: ServerTime | None) -> None:
        self._tables = {name: sql.dialect.table(name) for name in ("thread", "entry", "checkpoint")}
        self._time = time  # None: the caller's counts

    def build(self, write: Write, known: StoredThread) -> Saving:
        """What is sent for a write that the known line admits."""
        now = write.micros if self._time is None else self._time.now() or write.micros
        answer, entries = foreseen(known.row, write, now)
        has_key, mark = write.idem_key is not None, answer.checkpoint
        values = (*_line_values(known, answer.row), write.write_id)
        if self._time is not None:
            values += (now,)
        if has_key:
            values += (write.idem_key, write.request)
        for entry in entries:
            values += _entry_values(known, entry)
        if mark is not None:
            values += _mark_values(mark)
        text = self.text(write.epoch is not None, has_key, mark is not None, len(entries))
        return Saving(text, values, answer)

    @cache  # noqa: B019  # a handful of texts
    def text(self, in_run: bool, has_key: bool, has_mark: bool, count: int = 1) -> str:
        """For a line that a run writes to, or that nobody runs."""
        move = _MOVE.format(
            **self._tables,
            count=count,
            free="lease_owner IS NOT NULL" if in_run else "lease_owner IS NULL",
            in_time="" if self._time is None else _IN_TIME,
            unused=f"\n    AND NOT {_USED.format(**self._tables)}" if has_key else "",
        )
        mark = _MARK.format(**self._tables, count=count) if has_mark else ""
        *others, last = (self._added(n, has_key and n == 1) for n in range(1, count + 1))
        named = "".join(f", added{n} AS ({text}\n)" for n, text in enumerate(others, 1))
        return _numbered(move + named + mark + last + " RETURNING 1", has_key, has_mark, count)

    def _added(self, n: int, has_key: bool) -> str:
        key = ":key, :request" if has_key else "NULL, NULL"
        return _ADD.format(**self._tables, n=n, key=key, schema=ENTRY_SCHEMA)


def _numbered(text: str, has_key: bool, has_mark: bool, count: int) -> str:
    """`:name` as the `$1`, `$2` … of its value; a cast is left alone."""
    entries = (f"{name}{n}" for n in range(1, count + 1) for name in _ENTRY)
    time = ("told",) if ":told" in text else ()
    names = [*_LINE, *time, *(_KEY if has_key else ()), *entries, *(_CHECKPOINT if has_mark else ())]
    return re.sub(r"(?<!:):([a-z_]+[0-9]*)", lambda found: f"${names.index(found[1]) + 1}", text)


def _line_values(known: StoredThread, after: ThreadRow) -> Row:
    before = known.row
    return (
        known.number, before.head, before.head_digest, before.epoch, before.lease_until, after.head,
        after.state_version, after.updated, after.last_checkpoint, after.lease_until,
    )  # fmt: skip


def _entry_values(known: StoredThread, entry: Entry) -> Row:
    return known.place(entry.version), str(entry.kind), entry.actor, entry.digest, entry.chain, entry.payload


def _mark_values(row: CheckpointRow) -> Row:
    mark = row.mark
    return row.version, mark.kind, mark.status, mark.note, mark.agent, mark.metadata, row.parent
