"""Views for people who live in SQL: states and messages as JSON, kept beside the logs and made again from them.

Payloads are packed, so no view can decode them. Two tables hold what was decoded, each row with the uid of its thread
and how far the log was read; three views join them with the threads that can be seen. A deleted thread is gone from the
views at once, and one that takes the number of its row is another thread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from perdure.core.identity import ThreadKey
from perdure.storage.sql.dialect import Dialect
from perdure.storage.sql.transactions import Transaction

NAMES = ("agent_threads", "agent_states", "agent_messages")
TABLES = ("view_state", "view_message")
_NUL = re.compile(r"(\\\\)|\\u0000")  # an escaped backslash may stand before what only looks like the escape
_MESSAGE_COLUMNS = ("uid", "number", "id", "role", "at", "message")


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as the views show it."""

    uid: str
    version: int  # how far its log was read
    state_version: int
    state: str | None  # JSON; None: there is no state, or it cannot be read
    messages: Sequence[tuple[int, str | None, str, int, str]] = ()  # number, id, role, microseconds, JSON


class Stale(msgspec.Struct, frozen=True):
    """A thread whose rows are behind its log."""

    key: ThreadKey
    uid: str
    head: int


@cache
def layout(dialect: Dialect) -> tuple[str, ...]:
    """The statements that make the tables and the views; each can be done again."""
    types, t = dialect.types, dialect.table
    uid = types.uid or types.id
    tables = (
        f"""CREATE TABLE IF NOT EXISTS {t("view_state")} (
  uid {uid} NOT NULL PRIMARY KEY, version {types.int} NOT NULL, state_version {types.int} NOT NULL, state {dialect.json}
){types.table}""",
        f"""CREATE TABLE IF NOT EXISTS {t("view_message")} (
  uid {uid} NOT NULL, number {types.int} NOT NULL, id {types.id}, role {types.id} NOT NULL, at {types.int} NOT NULL,
  message {dialect.json} NOT NULL, PRIMARY KEY (uid, number)
){types.table}""",
    )
    gone = tuple(f"DROP VIEW IF EXISTS {dialect.views}{name}" for name in NAMES)
    return (
        *tables,
        *gone,
        *(f"{dialect.make_view.format(dialect.views + name)} AS {text}" for name, text in _views(dialect)),
    )


def _views(dialect: Dialect) -> list[tuple[str, str]]:
    t, moment = dialect.table, dialect.shown_moment.format
    seen = f"t.name_key IS NOT NULL AND {dialect.is_callers.format('t.namespace')}"
    owner = "t.id AS thread_id, t.namespace AS namespace, t.user_id AS user_id"
    # Joins, also where one table would do: PostgreSQL lets nobody write through those.
    return [
        (
            "agent_threads",
            f"""SELECT {owner}, t.name AS thread_name, t.agent AS agent, t.status AS status, t.tags AS tags,
  t.metadata AS metadata, t.head AS version, t.head_state_version AS state_version,
  {moment("t.created_at")} AS created_at, {moment("t.updated_at")} AS updated_at,
  CASE WHEN s.version = t.head THEN 1 ELSE 0 END AS is_current
FROM {t("thread")} t LEFT JOIN {t("view_state")} s ON s.uid = t.uid WHERE {seen}""",  # noqa: S608
        ),
        (
            "agent_states",
            f"""SELECT {owner}, t.agent AS agent, t.status AS status, s.state_version AS version, s.state AS state,
  {moment("t.updated_at")} AS updated_at, CASE WHEN s.version = t.head THEN 1 ELSE 0 END AS is_current
FROM {t("thread")} t JOIN {t("view_state")} s ON s.uid = t.uid WHERE {seen} AND s.state IS NOT NULL""",  # noqa: S608
        ),
        (
            "agent_messages",
            f"""SELECT {owner}, m.number AS number, m.id AS message_id, m.role AS role, m.message AS message,
  {moment("m.at")} AS created_at
FROM {t("thread")} t JOIN {t("view_message")} m ON m.uid = t.uid WHERE {seen}""",  # noqa: S608
        ),
    ]


async def make(tx: Transaction) -> None:
    """Make the tables and the views."""
    for statement in layout(tx.sql.dialect):
        await tx.run(statement)


async def drop(tx: Transaction) -> None:
    """Remove the views and their tables."""
    for name in NAMES:
        await tx.run(f"DROP VIEW IF EXISTS {tx.sql.dialect.views}{name}")
    for name in TABLES:
        await tx.run(f"DROP TABLE IF EXISTS {tx.sql.dialect.table(name)}")


async def stale(tx: Transaction, namespace: str, limit: int) -> list[Stale]:
    """Threads of a namespace whose rows are behind their logs, in any order."""
    dialect = tx.sql.dialect
    user = dialect.user_read.replace("user_id", "t.user_id")
    text = f"""SELECT {user}, t.id, t.uid, t.head FROM {dialect.table("thread")} t
LEFT JOIN {dialect.table("view_state")} s ON s.uid = t.uid
WHERE t.namespace = ? AND t.name_key IS NOT NULL AND (s.uid IS NULL OR s.version < t.head) LIMIT ?"""  # noqa: S608
    rows = await tx.rows(dialect.bound(text), (namespace, limit))
    return [Stale(ThreadKey(namespace, user, thread), uid, head) for user, thread, uid, head in rows]


async def put(tx: Transaction, shown: Shown) -> bool:
    """Put the rows of a thread in the place of those that stand; False when it is gone or was read further."""
    dialect = tx.sql.dialect
    if not await tx.rows(tx.sql.LINE, (shown.uid,)):
        return False
    table = dialect.table("view_state")
    found = await tx.rows(dialect.bound(f"SELECT version FROM {table} WHERE uid = ?{dialect.lock}"), (shown.uid,))  # noqa: S608
    if found and found[0][0] > shown.version:
        return False
    changes: dict[str, str] = dict.fromkeys(("version", "state_version", "state"), "{new}")
    upsert = dialect.bound(dialect.upsert("view_state", "uid, version, state_version, state", "uid", changes))
    state = shown.state and _json(dialect, shown.state)
    await tx.run(upsert, (shown.uid, shown.version, shown.state_version, state))
    await tx.run(dialect.bound(f"DELETE FROM {dialect.table('view_message')} WHERE uid = ?"), (shown.uid,))  # noqa: S608
    for number, id, role, at, message in shown.messages:
        row = (shown.uid, number, id, role, at, _json(dialect, message))
        await tx.run(dialect.bound(dialect.insert("view_message", _MESSAGE_COLUMNS)), row)
    return True


def _json(dialect: Dialect, text: str) -> str:
    """The JSON as the database can look into it: PostgreSQL reads nothing of a document in which a text holds NUL."""
    if dialect.json_has_nul:
        return text
    return _NUL.sub(lambda found: found[1] or "\u2400", text)


async def purge(tx: Transaction, *, everything: bool = False) -> int:
    """Remove the rows of threads that are gone, or all of them; how many."""
    dialect, removed = tx.sql.dialect, 0
    for name in TABLES:
        table = dialect.table(name)
        gone = f"""DELETE FROM {table} WHERE NOT EXISTS (
  SELECT 1 FROM {dialect.table("thread")} t WHERE t.uid = {table}.uid AND t.name_key IS NOT NULL)"""  # noqa: S608
        removed += await tx.run(f"DELETE FROM {table}" if everything else gone)  # noqa: S608
    return removed
