"""A save in one statement.

On a line that this process knows, moving the head tells everything: if it still stands where it stood, nothing but the
lease can have changed, and the answer is "moved" or nothing.

    moved ──> added, marked

Otherwise the line is locked and judged first:

    line ──> judged ──> moved ──> added, marked
                └─ ok / again / fenced / held / conflict

The line is locked before it is judged: without that, a writer who waited for another one would be judged by the line as
it was before, and be told the wrong reason. A key that is still in flight cannot be seen from here; such a write finds
the head moved (a conflict) or the key taken (a unique violation), and the slow way looks again.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.digest import header_rest
from perdure.core.entries import STATE_KINDS
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Write, wakes
from perdure.storage.sql.rows import Row, StoredThread, thread_of
from perdure.storage.sql.statements import Statements

SERVER_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

_MOVE = """WITH moved AS (
  UPDATE {thread} AS line SET
    head = head + {count},
    head_state_version = CASE WHEN :changes::boolean THEN head + {count} ELSE head_state_version END,
    head_digest = {chain},
    last_checkpoint = {last},
    lease_until = {lease},
    updated_at = greatest(now, updated_at)
  FROM (SELECT {now} AS now) AS clock
  WHERE "row" = :row AND uid = :uid AND head = :head AND name_key IS NOT NULL AND {free}{unused}
  RETURNING "row", head, head_digest, updated_at, epoch, lease_owner, lease_until, wake_at
)"""
_MOVED = """
SELECT updated_at, head_digest, epoch, lease_owner, lease_until, wake_at FROM moved"""

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
_ADD = """, added{at} AS (
  INSERT INTO {entry} ("row", kind, at, actor, write_id, idem_key, request, "schema", payload_digest, chain, payload)
  SELECT m."row" * 4294967296 + m.head - {after}, :kind{at}, m.updated_at, :actor{at}, :write_id, {key},
    :schema{at}, :digest{at}, {chain}, :payload{at} FROM moved AS m{judged}
)"""
_MARK = """, marked AS (
  INSERT INTO {checkpoint} ("row", id, thread, version, kind, status, note, agent, metadata, parent, at)
  SELECT m."row" * 4294967296 + m.head, :mark, m."row", coalesce(:mark_version, m.head), :mark_kind, :mark_status,
    :mark_note, :mark_agent, :mark_metadata, {parent}, m.updated_at FROM moved AS m{judged}
)"""
_USED = """EXISTS (SELECT 1 FROM {entry} AS e WHERE (e."row" >> 32) = line."row" AND e.idem_key = :key)"""

_WITH_JUDGED = ", judged AS j"
_JUDGED_LINE = ("j.head_digest", "j.head", "j.moment")
_FEW = 4  # entries of one statement


class Statement(msgspec.Struct, frozen=True):
    """A statement and the names of its values, in order."""

    text: str
    names: tuple[str, ...]

    def values(self, given: dict[str, Any]) -> Row:
        """The values by their names, in order."""
        return tuple([given[name] for name in self.names])


class Saving:
    """The statements of a save, and the way from a write to their values and from their row to an answer."""

    def __init__(self, sql: Statements, *, server_time: bool) -> None:
        self._tables = {name: sql.dialect.table(name) for name in ("thread", "entry", "checkpoint")}
        self._columns = sql.thread_columns
        self._now = SERVER_NOW if server_time else ":micros::bigint"
        self._until = ":until + {now} - :micros::bigint" if server_time else ":until"  # as long as was asked for

    def fits(self, write: Write) -> bool:
        """Whether a write can be made this way: to a thread that is there, a few entries, and nothing besides."""
        usual = write.uid is not None and _is_short(write) and not write.blobs and write.since is None
        return usual and write.is_plain and not write.patches and not wakes(write) and write.after_run is None

    def fits_known(self, write: Write, known: StoredThread) -> bool:
        """Whether it builds on the line as this process knows it."""
        row = known.row
        return write.uid == row.uid and write.expected in (None, row.state_version) and write.key == row.key

    def happens_once(self, write: Write) -> bool:
        """Whether its own conditions keep a write from happening twice.

        A statement whose connection was cut may reach the server late, when its write was made anew already. A known
        head, a key, or a version of the state that has moved refuse it then; a message has none of them.
        """
        return write.idem_key is not None or (write.changes_state and write.expected is not None)

    @cache  # noqa: B019  # a handful of texts
    def move(self, lease: str, has_key: bool, has_mark: bool, count: int = 1) -> Statement:
        """For a line that is known. `lease` is whether a run writes ("run"), or a live one is waited for ("wait")."""
        free = {
            "run": "epoch = :epoch AND lease_owner IS NOT NULL",
            "wait": "(lease_owner IS NULL OR lease_until <= now)",
            "free": "true",
        }
        parts = {
            "now": self._now,
            "last": ":mark" if has_mark else "last_checkpoint",
            "lease": f"greatest(lease_until, {self._until.format(now='now')})" if lease == "run" else "lease_until",
            "free": free[lease],
            "unused": f" AND NOT {_USED.format(**self._tables)}" if has_key else "",
        }
        chain = _chain("head_digest", "head", "greatest(now, updated_at)", count)
        moved = _MOVE.format(**self._tables, **parts, count=count, chain=chain)
        mark = _MARK.format(**self._tables, parent="coalesce(:mark_parent, :last_mark)", judged="") if has_mark else ""
        return _numbered(moved + self._added(count, ":before::bytea", ":head::bigint", "") + mark + _MOVED)

    @cache  # noqa: B019
    def judge(self, has_key: bool, has_mark: bool, count: int = 1) -> Statement:
        """For any line; the answer says why it was refused."""
        parts = {
            "now": self._now,
            "last": ":mark" if has_mark else "j.last_checkpoint",
            "until": self._until.format(now="j.now"),
            "used": f"\n    WHEN {_USED.format(**self._tables)} THEN 'again'" if has_key else "",
        }
        judged = _JUDGE.format(**self._tables, **parts, count=count, chain=_chain(*_JUDGED_LINE, count))
        parent = {"parent": "coalesce(:mark_parent, j.last_checkpoint)", "judged": _WITH_JUDGED}
        mark = _MARK.format(**self._tables, **parent) if has_mark else ""
        answer = _JUDGED.format(columns=self._columns)
        return _numbered(judged + self._added(count, "j.head_digest", "j.head", _WITH_JUDGED) + mark + answer)

    def _added(self, count: int, before: str, head: str, judged: str) -> str:
        """The entries, each with its link of the chain; the last link is the head's."""
        texts: list[str] = []
        for at in range(1, count + 1):
            chain = "m.head_digest" if at == count else _chain(before, head, "m.updated_at", at)
            key = ":key, :request" if at == 1 else "NULL, NULL"
            texts.append(
                _ADD.format(
                    **self._tables, at=at, after=count - at, key=key, chain=chain, judged="" if at == count else judged
                )
            )
        return "".join(texts)

    def moved(self, write: Write, known: StoredThread, row: Row) -> Appended:
        """The answer to a write that moved the head of a known line."""
        updated, digest, epoch, owner, until, wake_at = row
        before, head = known.row, known.row.head + len(write.entries)
        after = msgspec.structs.replace(
            before,
            head=head,
            state_version=head if write.changes_state else before.state_version,
            head_digest=digest,
            last_checkpoint=write.checkpoint.id if write.checkpoint else before.last_checkpoint,
            epoch=epoch,
            lease_owner=owner,
            lease_until=until,
            wake_at=wake_at,
            updated=updated,
        )
        return _appended(write, after, before.state_version, before.last_checkpoint)

    def judged(self, write: Write, row: Row) -> tuple[Appended, int] | None:
        """What became of a write that was judged; None when it was refused, and the slow way has to say why."""
        verdict, before, last_checkpoint, *line = row
        if verdict != "ok":
            return None
        stored = thread_of(tuple(line))
        return _appended(write, stored.row, before, last_checkpoint), stored.number


def values_of(write: Write, known: StoredThread | None) -> dict[str, Any]:
    """Everything a statement may ask for."""
    changes, mark = write.changes_state, write.checkpoint
    request = write.request if write.idem_key is not None else None
    given: dict[str, Any] = {
        "write_id": write.write_id, "key": write.idem_key, "request": request, "micros": write.micros,
        "epoch": write.epoch, "until": write.renew_until, "changes": changes, "uid": write.uid,
        "expected": write.expected, "waits": changes and not write.commutes,
    }  # fmt: skip
    for at, entry in enumerate(write.entries, 1):
        key, asked = (write.idem_key, request) if at == 1 else (None, None)
        given |= {
            f"kind{at}": entry.kind.value, f"actor{at}": entry.actor, f"schema{at}": entry.schema,
            f"digest{at}": entry.digest, f"payload{at}": entry.payload,
            f"rest{at}": header_rest(entry, write.write_id, key, asked),
        }  # fmt: skip
    if known is not None:
        row = known.row
        given |= {"row": known.number, "head": row.head, "before": row.head_digest, "last_mark": row.last_checkpoint}
    else:
        given["name"] = bytes.fromhex(write.key.digest())
    if mark is not None:
        given |= {
            "mark": mark.id, "mark_version": mark.version, "mark_kind": mark.kind, "mark_status": mark.status,
            "mark_note": mark.note, "mark_agent": mark.agent, "mark_metadata": mark.metadata,
            "mark_parent": mark.parent,
        }  # fmt: skip
    return given


def lease_of(write: Write) -> str:
    """What a write asks of the lease."""
    return "run" if write.epoch is not None else "wait" if write.changes_state and not write.commutes else "free"


def _is_short(write: Write) -> bool:
    """Whether it is so few entries that a statement is soon read, the last of which alone may change the state."""
    return len(write.entries) <= _FEW and not any(entry.kind in STATE_KINDS for entry in write.entries[:-1])


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

    return Statement(re.sub(r"(?<!:):([a-z_]+[0-9]*)", number, text), tuple(names))


def _appended(write: Write, after: ThreadRow, before: int, parent: str | None) -> Appended:
    return Appended(
        row=after,
        version=after.head,
        state_version=after.head if write.changes_state else 0,
        before=before,
        checkpoint=_mark_of(write, after, parent),
    )


def _mark_of(write: Write, after: ThreadRow, parent: str | None) -> CheckpointRow | None:
    mark = write.checkpoint
    if mark is None:
        return None
    return CheckpointRow(
        mark=mark,
        thread_id=after.key.id,
        user=after.key.user,
        version=after.head if mark.version is None else mark.version,
        entry=after.head,
        parent=mark.parent or parent,
        micros=after.updated,
    )
