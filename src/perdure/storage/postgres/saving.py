"""A save in one statement.

On a line that this process knows, moving the head tells everything: if head and epoch still are what they were, nothing
but the end of a lease can have changed, and the answer is the entry or nothing.

    moved ──> marked, added

The server computes time and digests, and tells its time by the answer: who knows that continues by `continuing`.
Otherwise the line is locked and judged first:

    line ──> judged ──> moved ──> added, marked
                └─ ok / again / fenced / held / conflict

The line is locked before it is judged: without that, a writer who waited for another one would be judged by the line as
it was before, and be told the wrong reason. A key that is still in flight cannot be seen from here; such a write finds
the head moved (a conflict) or the key taken (a unique violation), and the slow way looks again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from perdure.core.digest import header_rest
from perdure.core.entries import ENTRY_SCHEMA, STATE_KINDS, EntryKind
from perdure.core.threads import NO_PATCH, ThreadRow
from perdure.core.writes import WAKING_KINDS, Appended, Write, checkpoint_row, continues, kind_of
from perdure.storage.sql.rows import Row, StoredThread, thread_of
from perdure.storage.sql.statements import Statements

SERVER_NOW = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
# The same in all places of a statement. One that waited for another writer finds the head moved, and is made anew.
STATEMENT_NOW = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint"

_MOVE = """WITH moved AS (
  UPDATE {thread} AS line SET
    head = head + {count},
    head_state_version = {state_version},
    head_digest = {chain},
    last_checkpoint = {last},
    lease_until = {lease},
    updated_at = {moment}
  WHERE "row" = :row AND head = :head AND head_digest = :before::bytea AND epoch = :epoch AND name_key IS NOT NULL
    AND {free}{unused}
  RETURNING "row", head, head_digest, updated_at, lease_until
)"""
_MOVED = " RETURNING at, chain"
_RENEWED = ", (SELECT lease_until FROM moved)"

_JUDGE = """WITH line AS (
  SELECT *, {now} AS now FROM (SELECT * FROM {thread} WHERE name_key = :name FOR NO KEY UPDATE) AS locked
), judged AS (
  SELECT *, greatest(now, updated_at) AS moment, CASE{used}
    WHEN uid <> :uid THEN 'conflict'
    WHEN :epoch::bigint IS NOT NULL AND (epoch <> :epoch OR lease_owner IS NULL) THEN 'fenced'
    WHEN :epoch IS NULL AND lease_owner IS NOT NULL AND lease_until > now AND :waits::boolean THEN 'held'
    WHEN head_state_version <> :expected::bigint THEN 'conflict'
    ELSE 'ok' END AS verdict
  FROM line
), moved AS (
  UPDATE {thread} AS t SET
    head = j.head + {count},
    head_state_version = CASE WHEN :changes::boolean THEN j.head + {count} ELSE j.head_state_version END,
    head_digest = {chain},
    last_checkpoint = {last},
    lease_until = CASE WHEN :epoch IS NULL THEN j.lease_until ELSE greatest(j.lease_until, {until}) END,
    updated_at = j.moment
  FROM judged AS j WHERE t."row" = j."row" AND j.verdict = 'ok'
  RETURNING t.*
)"""
_JUDGED = """
SELECT j.verdict, j.head_state_version, j.last_checkpoint, m.* FROM judged AS j
LEFT JOIN (SELECT {columns} FROM moved) AS m ON true"""

_LINK = "sha256({chain} || int8send({head} + {at}) || int8send({moment}) || :rest{at} || :digest{at})"
_ADD = """
  INSERT INTO {entry} ("row", kind, at, actor, write_id, idem_key, request, "schema", payload_digest, chain, payload)
  SELECT m."row" * 4294967296 + m.head - {after}, :kind{at}, m.updated_at, :actor{at}, :write_id, {key},
    {schema}, :digest{at}, {chain}, :payload{at} FROM moved AS m{judged}"""
_MARK = """, marked AS (
  INSERT INTO {checkpoint} ("row", id, thread, version, kind, status, note, agent, metadata, parent, at)
  SELECT m."row" * 4294967296 + m.head, :mark, m."row", coalesce(:mark_version, m.head), :mark_kind, :mark_status,
    :mark_note, :mark_agent, :mark_metadata, {parent}, m.updated_at FROM moved AS m{judged}
)"""
USED = """EXISTS (SELECT 1 FROM {entry} AS e WHERE (e."row" >> 32) = line."row" AND e.idem_key = :key)"""

_WITH_JUDGED = ", judged AS j"
_JUDGED_LINE = ("j.head_digest", "j.head", "j.moment")
_FEW = 4  # entries of one statement
_ENTRY_NAMES = [
    tuple(f"{name}{at}" for name in ("kind", "actor", "digest", "payload", "rest")) for at in range(1, _FEW + 1)
]


class Statement(msgspec.Struct, frozen=True):
    """A statement, and what takes its values from those by name."""

    text: str
    values: Callable[[dict[str, Any]], Row]  # the values by their names, in order


class Saving:
    """The statements of a save, and the way from a write to their values and from their row to an answer."""

    def __init__(self, sql: Statements, *, server_time: bool) -> None:
        self._tables = {name: sql.dialect.table(name) for name in ("thread", "entry", "checkpoint")}
        self._columns = sql.thread_columns
        self._now = SERVER_NOW if server_time else ":micros::bigint"
        self._until = ":until + {now} - :micros::bigint" if server_time else ":until"  # as long as was asked for

    def fits(self, write: Write) -> bool:
        """Whether a write can be made this way: to a thread that is there, a few entries, and nothing besides."""
        usual = write.uid is not None and write.patch is NO_PATCH and not write.blobs and write.is_plain
        kinds = tuple(map(kind_of, write.entries))
        return usual and write.since is None and write.after_run is None and write.head is None and _is_usual(kinds)

    def fits_known(self, write: Write, known: StoredThread) -> bool:
        """Whether it builds on the line as this process knows it."""
        return write.key == known.row.key and continues(known.row, write)

    def happens_once(self, write: Write) -> bool:
        """Whether its own conditions keep a write from happening twice.

        A statement whose connection was cut may reach the server late, when its write was made anew already. A known
        head, a key, or a version of the state that has moved refuse it then; a message has none of them.
        """
        return write.idem_key is not None or (write.changes_state and write.expected is not None)

    @cache  # noqa: B019  # a handful of texts
    def move(self, in_run: bool, has_key: bool, has_mark: bool, changes: bool, count: int = 1) -> Statement:
        """For a line that is known, and that a run writes to or nobody runs.

        The digest of its head says which thread it is: after a restore, another one may have the number of its row.
        """
        now = STATEMENT_NOW if self._now == SERVER_NOW else self._now
        moment = f"greatest({now}, updated_at)"
        parts = {
            "moment": moment,
            "last": ":mark" if has_mark else "last_checkpoint",
            "lease": f"greatest(lease_until, {self._until.format(now=now)})" if in_run else "lease_until",
            "free": "lease_owner IS NOT NULL" if in_run else "lease_owner IS NULL",
            "unused": f" AND NOT {USED.format(**self._tables)}" if has_key else "",
            "state_version": f"head + {count}" if changes else "head_state_version",
        }
        chain = _chain("head_digest", "head", moment, count)
        moved = _MOVE.format(**self._tables, **parts, count=count, chain=chain)
        mark = _MARK.format(**self._tables, parent="coalesce(:mark_parent, :last_mark)", judged="") if has_mark else ""
        *others, last = self._added(count, ":before::bytea", ":head::bigint", "", has_key)
        return _numbered(moved + _named(others) + mark + last + _MOVED + (_RENEWED if in_run else ""))

    @cache  # noqa: B019
    def judge(self, has_key: bool, has_mark: bool, count: int = 1) -> Statement:
        """For any line; the answer says why it was refused."""
        parts = {
            "now": self._now,
            "last": ":mark" if has_mark else "j.last_checkpoint",
            "until": self._until.format(now="j.now"),
            "used": f"\n    WHEN {USED.format(**self._tables)} THEN 'again'" if has_key else "",
        }
        judged = _JUDGE.format(**self._tables, **parts, count=count, chain=_chain(*_JUDGED_LINE, count))
        parent = {"parent": "coalesce(:mark_parent, j.last_checkpoint)", "judged": _WITH_JUDGED}
        mark = _MARK.format(**self._tables, **parent) if has_mark else ""
        answer = _JUDGED.format(columns=self._columns)
        added = self._added(count, "j.head_digest", "j.head", _WITH_JUDGED, has_key)
        return _numbered(judged + _named(added) + mark + answer)

    def _added(self, count: int, before: str, head: str, judged: str, has_key: bool) -> list[str]:
        """The entries, each with its link of the chain; the last link is the head's."""
        texts: list[str] = []
        for at in range(1, count + 1):
            chain = "m.head_digest" if at == count else _chain(before, head, "m.updated_at", at)
            key = ":key, :request" if at == 1 and has_key else "NULL, NULL"
            parts = {"key": key, "chain": chain, "judged": "" if at == count else judged, "schema": ENTRY_SCHEMA}
            texts.append(_ADD.format(**self._tables, **parts, at=at, after=count - at))
        return texts

    def to_move(self, write: Write, known: StoredThread) -> tuple[str, Row]:
        """The statement that moves a known line, and its values."""
        in_run, has_key, has_mark = write.epoch is not None, write.idem_key is not None, write.checkpoint is not None
        statement = self.move(in_run, has_key, has_mark, write.changes_state, len(write.entries))
        return statement.text, statement.values(values_of(write, known))

    def to_judge(self, write: Write) -> tuple[str, Row]:
        """The statement that judges a write, and its values."""
        statement = self.judge(write.idem_key is not None, write.checkpoint is not None, len(write.entries))
        return statement.text, statement.values(values_of(write, None))

    def moved(self, write: Write, known: StoredThread, row: Row) -> Appended:
        """The answer to a write that moved the head of a known line."""
        updated, digest, *renewed = row
        before, head, changes = known.row, known.row.head + len(write.entries), write.changes_state
        after = msgspec.structs.replace(
            before,
            head=head,
            state_version=head if changes else before.state_version,
            head_digest=digest,
            last_checkpoint=write.checkpoint.id if write.checkpoint else before.last_checkpoint,
            lease_until=renewed[0] if renewed else before.lease_until,
            updated=updated,
        )
        return _appended(write, after, changes, before)

    def judged(self, write: Write, row: Row) -> tuple[Appended, int] | None:
        """What became of a write that was judged; None when it was refused, and the slow way has to say why."""
        verdict, before, last_checkpoint, *line = row
        if verdict != "ok":
            return None
        stored = thread_of(tuple(line))
        as_it_was = msgspec.structs.replace(stored.row, state_version=before, last_checkpoint=last_checkpoint)
        return _appended(write, stored.row, write.changes_state, as_it_was), stored.number


def values_of(write: Write, known: StoredThread | None) -> dict[str, Any]:
    """Everything a statement may ask for."""
    mark = write.checkpoint
    request = write.request if write.idem_key is not None else None
    given: dict[str, Any] = {
        "write_id": write.write_id, "key": write.idem_key, "request": request, "micros": write.micros,
        "epoch": write.epoch, "until": write.renew_until,
    }  # fmt: skip
    for at, entry in enumerate(write.entries):
        key, asked = (write.idem_key, request) if at == 0 else (None, None)
        rest = header_rest(entry, write.write_id, key, asked)
        values = (str(entry.kind), entry.actor, entry.digest, entry.payload, rest)
        given.update(zip(_ENTRY_NAMES[at], values, strict=True))
    if known is not None:
        row = known.row
        given |= {
            "row": known.number, "head": row.head, "epoch": row.epoch, "before": row.head_digest,
            "last_mark": row.last_checkpoint,
        }  # fmt: skip
    else:
        changes = write.changes_state
        given |= {
            "name": bytes.fromhex(write.key.digest()), "uid": write.uid, "expected": write.expected,
            "changes": changes, "waits": changes and not write.commutes,
        }  # fmt: skip
    if mark is not None:
        given |= {
            "mark": mark.id, "mark_version": mark.version, "mark_kind": mark.kind, "mark_status": mark.status,
            "mark_note": mark.note, "mark_agent": mark.agent, "mark_metadata": mark.metadata,
            "mark_parent": mark.parent,
        }  # fmt: skip
    return given


@lru_cache(maxsize=256)
def _is_usual(kinds: tuple[EntryKind, ...]) -> bool:
    """Whether nobody waits for any of these entries, and they are so few that a statement is soon read.

    The last of them alone may change the state.
    """
    return len(kinds) <= _FEW and STATE_KINDS.isdisjoint(kinds[:-1]) and WAKING_KINDS.isdisjoint(kinds)


def _named(added: Sequence[str]) -> str:
    """Entries as parts of a statement that goes on after them."""
    return "".join(f", added{at} AS ({text}\n)" for at, text in enumerate(added, 1))


def _chain(before: str, head: str, moment: str, count: int) -> str:
    """The digest of so many entries after `before`."""
    chain = before
    for at in range(1, count + 1):
        chain = _LINK.format(chain=chain, head=head, moment=moment, at=at)
    return chain


def _numbered(text: str) -> Statement:
    """`:name` as `$1`, `$2` …; a cast is left alone."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}"

    return Statement(re.sub(r"(?<!:):([a-z_]+[0-9]*)", number, text), itemgetter(*names))


def _appended(write: Write, after: ThreadRow, changes: bool, before: ThreadRow) -> Appended:
    return Appended(
        row=after,
        version=after.head,
        state_version=after.head if changes else 0,
        before=before.state_version,
        checkpoint=checkpoint_row(before, after, write.checkpoint) if write.checkpoint else None,
    )
