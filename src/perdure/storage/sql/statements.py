"""Every statement, with a name and a sentence. Values are always bound."""

from __future__ import annotations

from functools import cache

from perdure.storage.sql.dialect import Dialect
from perdure.storage.sql.message_statements import MessageStatements

_ENTRY_COLUMNS = '"row" & 4294967295, kind, at, actor, write_id, idem_key, request, "schema", payload_digest, chain'
ENTRY_COLUMNS = (
    *("row", "kind", "at", "actor", "write_id", "idem_key", "request", "schema", "payload_digest", "chain", "payload"),
)
CHECKPOINT_COLUMNS = (
    *("row", "id", "thread", "version", "kind", "status", "note", "agent", "metadata", "parent", "at"),
)
COMPOSED_COLUMNS = ("row", "low", "chain", "digest", "payload")
_CHANGES_STATE = "kind IN ('state.saved', 'state.updated', 'thread.rewound')"
_OF_A_THREAD = (  # tables whose rows belong to a thread, what a row of them is, and the number of the thread's row
    ("entry", "entries", '"row" >> 32'),
    ("snapshot", "snapshots", '"row" >> 32'),
    ("composed", "pruned ranges", '"row" >> 32'),
    ("rewind", "rewinds", '"row" >> 32'),
    ("checkpoint", "checkpoints", "thread"),
    ("projection", "indexes of messages", "thread"),
)
_CHECKPOINT_FILTERS = {
    "id": " AND c.id = ?",
    "kind": " AND c.kind = ?",
    "status": " AND c.status = ?",
    "agent": " AND c.agent = ?",
    "since": " AND c.at >= ?",
    "until": " AND c.at < ?",
}


class Statements:
    """The statements in the words of one database."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.thread_columns = (
            f"row, uid, namespace, {dialect.user_read}, id, name, agent, tags, status, head, head_state_version, "
            "head_digest, last_checkpoint, epoch, lease_owner, lease_until, wake_at, attempts, parent, parent_version, "
            "created_at, updated_at, metadata, run_version, quarantined_at, origin, origin_version, "
            "first_chain, identity"
        ).replace("row,", '"row",', 1)
        self._mark_columns = (
            'c.id, c.kind, c.status, c.note, c.agent, c.metadata, c.version, c."row" & 4294967295, c.parent, c.at, '
            f"t.id, {dialect.user_read.replace('user_id', 't.user_id')}"
        )
        self._threads()
        self._catalog()
        self._entries()
        self._snapshots()
        self._pruning()
        self._checkpoints()
        self._blobs()
        self._deletion()
        self._sizes()
        for name, text in vars(self).items():
            if name.isupper() and isinstance(text, str):
                setattr(self, name, dialect.bound(text))
        self.messages = MessageStatements(dialect, self.thread_columns, self.opened_columns)

    def _threads(self) -> None:
        thread, columns = self.dialect.table("thread"), self.thread_columns

        # The directory line of a thread that can be seen.
        # With the chain digest of its first entry: one that the row does not name is another thread's log.
        begun = f"""{columns}, (SELECT e.chain FROM {self.dialect.table("entry")} e
  WHERE e."row" = {thread}."row" * 4294967296 + 1)"""
        self.opened_columns = begun
        self.THREAD_ALONE = f"SELECT {columns} FROM {thread} WHERE name_key = ?"
        self.ROW_AND_TIME = f"SELECT {columns}, {self.dialect.server_now} FROM {thread} WHERE name_key = ?"
        self.THREAD = f"SELECT {begun} FROM {thread} WHERE name_key = ?"
        self.THREAD_LOCKED = self.THREAD + self.dialect.lock

        # Whether the indexes know a thread that could not be found: the first is answered by the index alone.
        self.INDEXED_THREAD = f'SELECT "row" FROM {thread} WHERE name_key = ?'
        self.NAMED_THREAD = f"""SELECT "row" FROM {thread}
WHERE namespace = ? AND user_id = ? AND id = ? AND name_key IS NOT NULL"""

        # The namespaces that have threads.
        self.ALL_THREADS = f"SELECT {self.thread_columns} FROM {thread} WHERE name_key IS NOT NULL"
        self.NAMESPACES = f"""SELECT DISTINCT namespace FROM {thread} WHERE name_key IS NOT NULL
UNION SELECT DISTINCT namespace FROM {self.dialect.table("catalog")}"""

        # The directory line of a thread by uid, also of one that only forks can see.
        self.THREAD_BY_UID = f"SELECT {begun} FROM {thread} WHERE uid = ?"
        self.THREAD_BY_UID_LOCKED = self.THREAD_BY_UID + self.dialect.lock
        self.LINE = f"SELECT {columns} FROM {thread} WHERE uid = ? AND name_key IS NOT NULL"

        # All threads of one id, whoever owns them, in any order: for an order planners would take another index.
        self.THREADS_BY_ID = f"""SELECT {columns} FROM {thread}
WHERE namespace = ? AND id = ? AND name_key IS NOT NULL"""

        column, mark = (", updated_minute", ", ?") if self.dialect.keeps_minute else ("", "")
        self.INSERT_THREAD = f"""INSERT INTO {thread} (uid, name_key, namespace, user_id, id, name, agent, tags,
  status, head, head_state_version, head_digest, last_checkpoint, epoch, lease_owner, lease_until, wake_at, attempts,
  parent, parent_version, created_at, metadata, run_version, quarantined_at, origin, origin_version, first_chain,
  identity, updated_at{column})
VALUES (?, ?, ?, {self.dialect.user_bound}{", ?" * 25}{mark})"""
        self.THREAD_ROW = f'SELECT "row" FROM {thread} WHERE uid = ?'

        # The head moves; nothing else of the line changes.
        minute = ", updated_minute = ?" if self.dialect.keeps_minute else ""
        self.MOVE_HEAD = f"""UPDATE {thread}
SET head = ?, head_state_version = ?, run_version = ?, head_digest = ?, last_checkpoint = ?, lease_until = ?,
  updated_at = ?{minute}
WHERE "row" = ?"""

        # Everything of the line that a patch or a lease may change.
        self.PATCH_THREAD = f"""UPDATE {thread}
SET name = ?, agent = ?, tags = ?, status = ?, epoch = ?, lease_owner = ?, lease_until = ?, wake_at = ?, attempts = ?,
  metadata = ?, quarantined_at = ?, origin = ?, origin_version = ?
WHERE "row" = ?"""

    def _catalog(self) -> None:
        """The second record of which threads there are, written when one is made or deleted and never by a save."""
        thread, catalog, user = self.dialect.table("thread"), self.dialect.table("catalog"), self.dialect.user_read
        # One statement sees one moment: of two, a thread that is made or deleted in between would look lost.
        lost = f"NOT EXISTS (SELECT 1 FROM {thread} t WHERE t.name_key = c.name_key)"
        self.CATALOG_THREAD = self.dialect.upsert(
            "catalog",
            "name_key, thread, uid, namespace, user_id, id",
            "name_key",
            {"thread": "{new}", "uid": "{new}"},
        ).replace("?, ?, ?, ?, ?, ?", f"?, ?, ?, ?, {self.dialect.user_bound}, ?")
        self.UNCATALOG_THREAD = f"DELETE FROM {catalog} WHERE name_key = ?"
        self.CATALOGUED = f"SELECT thread, uid FROM {catalog} WHERE name_key = ?"

        # A thread whose row was lost; those of one id, whoever owned them; all.
        self.LOST_THREAD = f"SELECT thread, uid FROM {catalog} c WHERE c.name_key = ? AND {lost}"
        self.LOST_BY_ID = f"SELECT thread, uid FROM {catalog} c WHERE c.namespace = ? AND c.id = ? AND {lost}"
        self.LOST_THREADS = f"SELECT c.thread, c.uid, c.namespace, {user}, c.id FROM {catalog} c WHERE {lost}"

    @cache  # noqa: B019
    def due(self, by_lease: str = "", by_timer: str = "") -> str:
        """Threads that somebody should look at, each part by its own index, under a condition of its own, or none."""
        thread = self.dialect.table("thread")
        return self.dialect.bound(f"""SELECT {self.thread_columns} FROM (
  SELECT t.*, t.lease_until AS due_at FROM {thread} t
  WHERE namespace = ? AND lease_owner IS NOT NULL AND lease_until <= ? AND name_key IS NOT NULL
    AND quarantined_at IS NULL{by_lease}
  UNION ALL
  SELECT t.*, t.wake_at AS due_at FROM {thread} t
  WHERE namespace = ? AND quarantined_at IS NULL AND wake_at IS NOT NULL AND wake_at <= ? AND lease_owner IS NULL
    AND name_key IS NOT NULL{by_timer}
) AS due ORDER BY due_at LIMIT ?""")

    @cache  # noqa: B019  # a handful of texts, as many as there are kinds of questions
    def threads(self, whose: str, *, tagged: bool = False, searched: bool = False) -> str:
        """The directory, newest first, after a cursor; of a tag or a text, a few too many."""
        newest = self.dialect.newest
        marks = ", ".join("?" for _ in newest.split(","))
        return self.dialect.bound(f"""SELECT {self.thread_columns} FROM {self.dialect.table("thread")}
WHERE namespace = ?{self.dialect.owned(whose)}{self.dialect.named(tagged=tagged, searched=searched)}
  AND name_key IS NOT NULL AND ({newest}) < ({marks})
ORDER BY {newest.replace(",", " DESC,")} DESC LIMIT ?""")

    def _entries(self) -> None:
        entry = self.dialect.table("entry")
        self.INSERT_ENTRY = self.dialect.insert("entry", ENTRY_COLUMNS)

        # The entry a key stands for.
        self.ENTRY_BY_KEY = f"""SELECT "row" & 4294967295, request FROM {entry}
WHERE {self.dialect.thread_of_entry} = ? AND idem_key = ?"""

        # The same with everything, for a thread that can be seen, and whose it is: an index may lead to another one.
        row = self.dialect.thread_of_entry
        row = row.replace('"row"', 'e."row"') if '"row"' in row else f"e.{row}"
        columns = _ENTRY_COLUMNS.replace('"row"', 'e."row"')
        self.KEYED = f"""SELECT {columns}, payload, t.uid, t.first_chain, t.identity
FROM {self.dialect.table("thread")} t {self.dialect.in_order} {entry} e ON {row} = t."row"
WHERE t.name_key = ? AND e.idem_key = ?"""

        # The first entry of a write among newer ones, for a retry.
        self.ENTRY_BY_WRITE = f"""SELECT "row" & 4294967295 FROM {entry}
WHERE "row" > ? AND "row" <= ? AND write_id = ? ORDER BY "row" LIMIT 1"""

        # Entries for folding: the payload only where the state changed.
        self.FOLD = f"""SELECT {_ENTRY_COLUMNS}, CASE WHEN {_CHANGES_STATE} THEN payload END
FROM {entry} WHERE "row" > ? AND "row" <= ? ORDER BY "row\""""

        # The row of a thread and its own entries after a version, in one question.
        folded = f"{columns}, CASE WHEN {_CHANGES_STATE.replace('kind', 'e.kind', 1)} THEN e.payload END"
        self.SINCE = f"""SELECT t.*, {folded} FROM (SELECT {self.thread_columns} FROM {self.dialect.table("thread")}
WHERE name_key = ?) t
LEFT JOIN {entry} e ON e."row" > t."row" * 4294967296 + ? AND e."row" <= t."row" * 4294967296 + t.head
ORDER BY e."row\""""

        # Entries with everything.
        self.ENTRIES = f"""SELECT {_ENTRY_COLUMNS}, payload FROM {entry}
WHERE "row" > ? AND "row" <= ? ORDER BY "row" LIMIT ?"""

        # Entries without payload, in order.
        self.LIGHT_ENTRIES = f"""SELECT {_ENTRY_COLUMNS}, NULL FROM {entry}
WHERE "row" > ? AND "row" <= ? ORDER BY "row" LIMIT ?"""

        # Entries without payload, newest first, up to a time.
        self.HEADERS = f"""SELECT {_ENTRY_COLUMNS}, NULL FROM {entry}
WHERE "row" > ? AND "row" <= ? AND at <= ? ORDER BY "row" DESC LIMIT ?"""

        # What a fork starts from: the newest entry of a range, and the newest one that changed the state.
        self.LAST_CHAIN = f'SELECT chain, at FROM {entry} WHERE "row" = ?'
        self.LAST_STATE = f"""SELECT "row" & 4294967295 FROM {entry}
WHERE "row" > ? AND "row" <= ? AND {_CHANGES_STATE} ORDER BY "row" DESC LIMIT 1"""

        # What belongs to a thread that has no row, by the number of the row and by table.
        self.STRAYS = " UNION ALL ".join(
            f"""SELECT '{name}', e.{number}, count(*) FROM {self.dialect.table(table)} e
WHERE NOT EXISTS (SELECT 1 FROM {self.dialect.table("thread")} t WHERE t."row" = e.{number})
GROUP BY e.{number}"""
            for table, name, number in _OF_A_THREAD
        )

    @cache  # noqa: B019
    def under(self, *, ends: bool) -> str:
        """Entries of a thread by a range of its keys, which may have no end, and by a range of rows, in any order.

        Rows are computed and not sorted: a planner that went by them would read the log.
        """
        return self.dialect.bound(f"""SELECT {_ENTRY_COLUMNS}, payload FROM {self.dialect.table("entry")}
WHERE {self.dialect.thread_of_entry} = ? AND idem_key >= ?{" AND idem_key < ?" if ends else ""}
  AND "row" + 0 > ? AND "row" + 0 <= ?""")

    def _snapshots(self) -> None:
        snapshot = self.dialect.table("snapshot")

        # The newest whole state up to a version.
        self.SNAPSHOT = f"""SELECT "row" & 4294967295, chain, digest, payload, base FROM {snapshot}
WHERE "row" >= ? AND "row" <= ? ORDER BY "row" DESC LIMIT 1"""

        # A derived whole state never takes the place of a base. `base` comes last: MySQL sees its new value after it.
        kept = "CASE WHEN {new_base} >= {old_base} THEN {new} ELSE {old} END"
        changes: dict[str, str] = dict.fromkeys(("chain", "digest", "payload", "base"), kept)
        self.PUT_SNAPSHOT = self.dialect.upsert("snapshot", '"row", base, chain, digest, payload', '"row"', changes)
        self.DROP_SNAPSHOT = f'DELETE FROM {snapshot} WHERE "row" = ? AND base = 0'

    def _pruning(self) -> None:
        entry, snapshot = self.dialect.table("entry"), self.dialect.table("snapshot")
        rewind, composed = self.dialect.table("rewind"), self.dialect.table("composed")
        part = '"row" > ? AND "row" <= ?'

        # Where a log is not one version after the other: rewinds (0), pruned ranges (1) and bases (2).
        self.SEAMS = f"""SELECT 0, "row" & 4294967295, back_to FROM {rewind} WHERE {part}
UNION ALL SELECT 1, "row" & 4294967295, low FROM {composed} WHERE {part}
UNION ALL SELECT 2, "row" & 4294967295, 0 FROM {snapshot} WHERE base = 1 AND {part}"""
        # Whether the change in this row was pruned, and nothing stands for it there.
        self.IS_GONE = f"""SELECT 1 FROM {entry} e WHERE e."row" = ? AND length(e.payload) = 0
  AND NOT EXISTS (SELECT 1 FROM {composed} c WHERE c."row" = e."row")
  AND NOT EXISTS (SELECT 1 FROM {snapshot} s WHERE s."row" = e."row" AND s.base = 1)"""
        self.REWOUND_TO = f"SELECT back_to FROM {rewind} WHERE {part}"
        self.INSERT_REWIND = f'INSERT INTO {rewind} ("row", back_to) VALUES (?, ?)'

        # What is derived from a log, as it stands.
        self.REWINDS = f'SELECT "row" & 4294967295, back_to FROM {rewind} WHERE {part} ORDER BY "row"'
        self.DERIVED = f"""SELECT "row" & 4294967295 FROM {snapshot} WHERE base = 0 AND {part} ORDER BY "row\""""
        self.USES = f"""SELECT b.digest, u.version FROM {self.dialect.table("blob_use")} u
JOIN {self.dialect.table("blob")} b ON b."row" = u."blob" WHERE u.thread = ?"""

        # What stands for pruned ranges, in order.
        self.COMPOSED = f"""SELECT "row" & 4294967295, low, chain, digest, payload FROM {composed}
WHERE {part} ORDER BY "row\""""
        self.BASES = f"""SELECT "row" & 4294967295, chain, digest, payload, base FROM {snapshot}
WHERE base = 1 AND {part} ORDER BY "row\""""
        self.INSERT_COMPOSED = self.dialect.insert("composed", COMPOSED_COLUMNS)

        # A prune: the changes of a range and single entries lose their payload, what lay inside is dropped.
        self.BLANK_RANGE = f"UPDATE {entry} SET payload = ? WHERE {part} AND {_CHANGES_STATE}"
        self.BLANK_ENTRY = f'UPDATE {entry} SET payload = ? WHERE "row" = ?'
        self.DROP_INSIDE = f"DELETE FROM {snapshot} WHERE {part}"
        self.DROP_COMPOSED = f"DELETE FROM {composed} WHERE {part}"
        self.UNMARK = f'DELETE FROM {self.dialect.table("checkpoint")} WHERE "row" = ?'
        self.NEWER_KINDS = f"SELECT DISTINCT kind FROM {entry} WHERE {part}"
        self.CHILDREN = f"SELECT {self.thread_columns} FROM {self.dialect.table('thread')} WHERE parent = ?"
        self.FORGET_USES = f"DELETE FROM {self.dialect.table('blob_use')} WHERE thread = ?"

    def _checkpoints(self) -> None:
        table = self.dialect.table("checkpoint")
        joined = f'{table} c JOIN {self.dialect.table("thread")} t ON t."row" = c.thread'
        self.INSERT_CHECKPOINT = self.dialect.insert("checkpoint", CHECKPOINT_COLUMNS)
        self.CHECKPOINT_AT = f'SELECT {self._mark_columns} FROM {joined} WHERE c."row" = ?'
        self.CHECKPOINT_PLACES = f'SELECT "row" FROM {table} WHERE id = ?'
        self.LAST_CHECKPOINT = f"""SELECT id FROM {table}
WHERE "row" >= ? AND "row" <= ? ORDER BY "row" DESC LIMIT 1"""

    @cache  # noqa: B019
    def checkpoints(self, filters: tuple[str, ...]) -> str:
        """Checkpoints of one thread, newest first."""
        # One that is named is found by its id: a planner that took the range instead would read the whole thread's.
        place = 'c."row" + 0' if "id" in filters else 'c."row"'
        return self.dialect.bound(f"""SELECT {self._mark_columns} FROM {self._joined()}
WHERE {place} >= ? AND {place} < ?{"".join(_CHECKPOINT_FILTERS[name] for name in filters)}
ORDER BY {place} DESC LIMIT ?""")

    @cache  # noqa: B019
    def user_checkpoints(self, whose: str, filters: tuple[str, ...]) -> str:
        """Checkpoints of all threads of a user, newest first by id."""
        return self.dialect.bound(f"""SELECT {self._mark_columns} FROM {self._joined()}
WHERE c.id < ? AND t.namespace = ?{self.dialect.owned(whose, "t.")} AND t.name_key IS NOT NULL{
            "".join(_CHECKPOINT_FILTERS[name] for name in filters)
        }
ORDER BY c.id DESC LIMIT ?""")

    @cache  # noqa: B019
    def checkpoint(self, whose: str) -> str:
        """One checkpoint, for a user who may see it; of several copies those of trusted threads first."""
        return self.dialect.bound(f"""SELECT {self._mark_columns} FROM {self._joined()}
WHERE c.id = ? AND t.namespace = ?{self.dialect.owned(whose, "t.")} AND t.name_key IS NOT NULL
ORDER BY t.quarantined_at IS NOT NULL""")

    def _joined(self) -> str:
        return f'{self.dialect.table("checkpoint")} c JOIN {self.dialect.table("thread")} t ON t."row" = c.thread'

    def _blobs(self) -> None:
        blob, use = self.dialect.table("blob"), self.dialect.table("blob_use")
        later, earlier = self.dialect.greatest, self.dialect.least

        # A large value is inserted once, and touched every time it is written again.
        touched = {"touched_at": f"{later}({{old}}, {{new}})"}
        self.PUT_BLOB = self.dialect.upsert("blob", "scope, digest, touched_at, payload", "scope, digest", touched)
        first = {"version": f"{earlier}({{old}}, {{new}})"}
        self.USE_BLOB = self.dialect.upsert("blob_use", 'thread, "blob", version', 'thread, "blob"', first)
        self.BLOB_ROW = f'SELECT "row" FROM {blob} WHERE scope = ? AND digest = ?'
        self.BLOB = f"SELECT payload FROM {blob} WHERE scope = ? AND digest = ?"
        self.BLOBS_LOCKED = f'SELECT "row" FROM {blob} WHERE scope = ?{self.dialect.lock}'
        self.DROP_UNUSED_BLOBS = f"""DELETE FROM {blob}
WHERE scope = ? AND NOT EXISTS (SELECT 1 FROM {use} u WHERE u."blob" = {blob}."row")"""
        self.SWEEP_BLOBS = f"""DELETE FROM {blob}
WHERE touched_at <= ? AND NOT EXISTS (SELECT 1 FROM {use} u WHERE u."blob" = {blob}."row")"""

    def _deletion(self) -> None:
        thread, entry = self.dialect.table("thread"), self.dialect.table("entry")

        # Deleting: hide first; free what no fork needs.
        self.HIDE_THREAD = f'UPDATE {thread} SET name_key = NULL, lease_owner = NULL, wake_at = NULL WHERE "row" = ?'
        self.IS_HIDDEN = f'SELECT name_key IS NULL FROM {thread} WHERE "row" = ?'
        self.NEEDED_BY_FORKS = f"SELECT max(parent_version) FROM {thread} WHERE parent = ?"
        self.DROP_ENTRIES = f'DELETE FROM {entry} WHERE "row" > ? AND "row" < ?'
        self.DROP_SNAPSHOTS = f'DELETE FROM {self.dialect.table("snapshot")} WHERE "row" > ? AND "row" < ?'
        self.DROP_CHECKPOINTS = f'DELETE FROM {self.dialect.table("checkpoint")} WHERE "row" > ? AND "row" < ?'
        self.DROP_REWINDS = f'DELETE FROM {self.dialect.table("rewind")} WHERE "row" > ? AND "row" < ?'
        self.DROP_RECORDS = f'DELETE FROM {self.dialect.table("composed")} WHERE "row" > ? AND "row" < ?'
        # Making the indexes again: a checkpoint may name the thread and stand elsewhere, or the other way round.
        self.DROP_THREAD_MARKS = f"DELETE FROM {self.dialect.table('checkpoint')} WHERE thread = ?"
        self.DROP_DERIVED = f"""DELETE FROM {self.dialect.table("snapshot")}
WHERE "row" > ? AND "row" < ? AND base = 0"""
        self.DROP_BLOB_USES = f"DELETE FROM {self.dialect.table('blob_use')} WHERE thread = ? AND version > ?"
        self.DROP_THREAD = f'DELETE FROM {thread} WHERE "row" = ?'

    @cache  # noqa: B019
    def hidden_threads(self, whose: str) -> str:
        """Deleted threads of a user that forks need, the youngest first: a parent is older than its forks."""
        return self.dialect.bound(f"""SELECT {self.thread_columns} FROM {self.dialect.table("thread")}
WHERE namespace = ?{self.dialect.owned(whose)} AND name_key IS NULL ORDER BY "row" DESC{self.dialect.lock}""")

    def _sizes(self) -> None:
        # How many and how large, of one thread (a range of rows) or of all.
        counted = "SELECT count(*), coalesce(sum(length(payload)), 0) FROM"
        part = 'WHERE "row" >= ? AND "row" < ?'
        self.ENTRY_SIZES = f"{counted} {self.dialect.table('entry')} {part}"
        self.SNAPSHOT_SIZES = f"{counted} {self.dialect.table('snapshot')} {part}"
        self.COMPOSED_SIZES = f"{counted} {self.dialect.table('composed')} {part}"
        self.CHECKPOINT_COUNT = f"SELECT count(*) FROM {self.dialect.table('checkpoint')} {part}"
        self.BLOB_SIZES = f"{counted} {self.dialect.table('blob')}"
        self.THREAD_COUNT = f"SELECT count(*) FROM {self.dialect.table('thread')} {part} AND name_key IS NOT NULL"

        # What the storage says of itself.
        meta = self.dialect.table("meta")
        self.META = f"SELECT name, value FROM {meta}"
        self.META_VALUE = f"SELECT value FROM {meta} WHERE name = ?"
        self.KEEP = self.dialect.upsert("meta", "name, value", "name", {})
        self.DISCARD = f"DELETE FROM {meta} WHERE name = ?"
        self.SET_META = self.dialect.upsert("meta", "name, value", "name", {"value": "{new}"})
        self.HAS_META = self.dialect.has_meta


def filters_of(
    mark: str | None, kind: str | None, status: str | None, agent: str | None, since: int | None, until: int | None
) -> tuple[tuple[str, ...], tuple[str | int, ...]]:
    """The names of the filters that are asked for, and their values."""
    asked = {"id": mark, "kind": kind, "status": status, "agent": agent, "since": since, "until": until}
    given = {name: value for name, value in asked.items() if value is not None}
    return tuple(given), tuple(given.values())
