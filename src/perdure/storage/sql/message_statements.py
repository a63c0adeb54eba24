"""The statements about lines of messages. Values are always bound."""

from __future__ import annotations

from functools import cache

from perdure.storage.sql.dialect import EVERYBODY, Dialect
from perdure.storage.sql.words import LISTED, Found, Walk

MESSAGE_COLUMNS = (
    *("row", "entry", "space", "scope", "at", "id", "role", "node", "run", "tool_calls", "error", "tokens", "duration"),
    *("digest", "payload"),
)
_LINE = (
    'm."row" & 4294967295, m.at, m.entry & 4294967295, m.id, m.role, m.node, m.run, m.tool_calls, m.error, m.tokens, '
    "m.duration, coalesce(m.payload, e.payload), coalesce(m.digest, e.payload_digest)"
)
# Sums of large numbers in two halves: a sum that does not fit is an error on one database and another type on others.
_TALLY = """m.role, count(*), sum(m.tool_calls), sum(m.error), sum(m.tokens >> 32), sum(m.tokens & 4294967295),
  sum(m.duration >> 32), sum(m.duration & 4294967295), min(m.at), max(m.at)"""
# In a list of several threads: numbers, and the lines after one.
BEFORE, AFTER = ' AND m."row" & 4294967295 < ?', ' AND m."row" & 4294967295 > ?'
BEYOND = ' AND (m.at, t.uid, m."row" & 4294967295) < (?, ?, ?)'


class MessageStatements:
    """The statements in the words of one database. Conditions are texts of ours, each with ` AND ` before it."""

    def __init__(self, dialect: Dialect, thread_columns: str, opened_columns: str) -> None:
        self.dialect = dialect
        message, projection = dialect.table("message"), dialect.table("projection")
        self._thread_columns = thread_columns
        user = dialect.user_read.replace("user_id", "t.user_id")
        self._owner = f"t.id, {user}, t.uid"
        self._columns = ", ".join(f'm."{column}"' for column in MESSAGE_COLUMNS)
        self._threads = f'{dialect.in_order} {dialect.table("thread")} t ON t."row" = m."row" >> 32'
        self._again = f'{dialect.in_order} {message} m ON m."row" = f."row"'
        self._entries = f'LEFT JOIN {dialect.table("entry")} e ON e."row" = m.entry'
        self.columns = (*MESSAGE_COLUMNS, *(("words",) if dialect.words.column else ()))

        # How far a thread was read, with its line: of one thread, and of one that is locked.
        self.PROJECTION = dialect.bound(f"""SELECT {opened_columns}, p.shape, p.version, p.count
FROM {dialect.table("thread")} LEFT JOIN {projection} p ON p.thread = "row" WHERE name_key = ?""")
        self.READ_TO = dialect.bound(f"SELECT version, count, shape FROM {projection} WHERE thread = ?")
        changes: dict[str, str] = dict.fromkeys(("shape", "version", "count"), "{new}")
        put = dialect.upsert("projection", "thread, shape, version, count", "thread", changes)
        self.PUT_PROJECTION = dialect.bound(put)
        self.DROP_PROJECTION = dialect.bound(f"DELETE FROM {projection} WHERE thread = ?")
        self.DROP_LINES = dialect.bound(f'DELETE FROM {message} WHERE "row" >= ? AND "row" <= ?')

    @cache  # noqa: B019  # a handful of texts, as many as there are kinds of questions
    def unprojected(self, whose: str) -> str:
        """Threads that were not read to their end, or in another shape."""
        return self.dialect.bound(f"SELECT {self._thread_columns} FROM {self._behind(whose)} LIMIT ?")

    def _judged(self, whose: str, judged: bool) -> str:
        """A column that tells with every line how many of the owner's threads were not read to their ends."""
        # Mostly none: EXISTS is planned for one that is found soon, and took twice as long on PostgreSQL to find none.
        return f", (SELECT count(*) FROM {self._behind(whose)})" if judged else ""

    def _behind(self, whose: str) -> str:
        threads, projection = self.dialect.table("thread"), self.dialect.table("projection")
        return f"""{threads} LEFT JOIN {projection} p ON p.thread = "row"
WHERE namespace = ?{self.dialect.owned(whose)} AND name_key IS NOT NULL
  AND (head <> coalesce(p.version, 0) OR p.shape <> ?)"""

    @cache  # noqa: B019
    def lines(self, conditions: str, *, order: str) -> str:
        """Lines of one thread with their payloads, in order of number."""
        source, where = self._in_thread(conditions, searched=False)
        return self.dialect.bound(f"""SELECT {_LINE}
FROM {source} {self._entries} WHERE {where} ORDER BY m."row" {order} LIMIT ?""")

    @cache  # noqa: B019
    def found_lines(self, conditions: str, *, order: str, is_long: bool) -> str:
        """The same by the index over words; in a long thread, that one alone."""
        found = self._in_thread_by(searched=True)
        row = found.without_index.format(found.row)
        source, where = self._in_thread(conditions, searched=True, row=row if is_long else found.row)
        return self.dialect.bound(f"""SELECT {_LINE} FROM (
  SELECT {found.row} AS "row" FROM {source} WHERE {where} ORDER BY {row} {order} LIMIT ?
) AS f {self._again} {self._entries} ORDER BY m."row" {order}""")

    @cache  # noqa: B019
    def walked_lines(self, conditions: str, *, order: str) -> str:
        """The same among so many lines, each of which is looked at."""
        source, where = self._in_thread("", searched=False)
        return self.dialect.bound(f"""SELECT {_LINE} FROM (
  SELECT {self._columns}, m.words FROM {source} WHERE {where} ORDER BY m."row" {order} LIMIT ?
) AS m {self._entries} WHERE {conditions.removeprefix(" AND ")} ORDER BY m."row" {order} LIMIT ?""")

    @cache  # noqa: B019
    def tally(self, conditions: str, *, searched: bool) -> str:
        """What lines of one thread add up to."""
        source, where = self._in_thread(conditions, searched=searched)
        return self.dialect.bound(f"SELECT {_TALLY} FROM {source} WHERE {where} GROUP BY m.role")

    @cache  # noqa: B019
    def owned_lines(self, whose: str, conditions: str, *, searched: bool, judged: bool = False) -> str:
        """Lines of all threads of an owner with their payloads, newest first."""
        source, where = self._of_owner(whose, conditions, searched=searched)
        at = self.found(searched).without_index.format("m.at")
        return self.dialect.bound(f"""SELECT {_LINE}, {self._owner}{self._judged(whose, judged)} FROM (
  SELECT m."row" FROM {source} WHERE {where} ORDER BY {at} DESC, t.uid DESC, m."row" DESC LIMIT ?
) AS f {self._again} {self._threads} {self._entries} ORDER BY m.at DESC, t.uid DESC, m."row" DESC""")

    @cache  # noqa: B019
    def newest_lines(self, whose: str, conditions: str, *, judged: bool = False) -> str:
        """The newest by the index over words, each with how many were taken before it was asked whose they are.

        That is asked of these few only: joining all that have a word with their threads took a tenth of a search.
        """
        found, columns = self.found(True), f"{_LINE}, {self._owner}{self._judged(whose, judged)}, f.taken, m.at"
        return self.dialect.bound(f"""SELECT {columns} FROM (
  SELECT n."row", count(*) OVER () AS taken FROM (
    SELECT m."row" FROM {found.source.format(t=self.dialect.tables)} WHERE {self._scope(whose)}{conditions}{found.where}
    ORDER BY {found.without_index.format("m.at")} DESC LIMIT ?
  ) AS n
) AS f {self._again} {self._threads} {self._entries} WHERE {self._owned(whose)} ORDER BY m.at DESC""")

    @cache  # noqa: B019
    def first_lines(self, whose: str, conditions: str, *, searched: bool, judged: bool = False) -> str:
        """The same without a sort, about newest first, each with a time that none of the rest is after.

        Empty where there is no such order.
        """
        found = self.found(searched)
        source, where = self._of_owner(whose, conditions, searched=searched)
        columns = f"{_LINE}, {self._owner}{self._judged(whose, judged)}, {found.latest}"
        return found.order and self.dialect.bound(f"""SELECT {columns}
FROM {source} {self._entries} WHERE {where} ORDER BY {found.order} DESC LIMIT ?""")

    @cache  # noqa: B019
    def first_walked_lines(self, whose: str, conditions: str, *, until: str, judged: bool = False) -> str:
        """The same among so many lines, each of which is looked at."""
        return self.dialect.bound(f"""SELECT {_LINE}, {self._owner}{self._judged(whose, judged)}, m.at FROM (
  SELECT {self._columns}, m.words FROM {self.dialect.table("message")} m
  WHERE {self._scope(whose)}{until} ORDER BY m.at DESC LIMIT ?
) AS m {self._threads} {self._entries}
WHERE {self._owned(whose)}{conditions} ORDER BY m.at DESC LIMIT ?""")

    @cache  # noqa: B019
    def owned_tally(self, whose: str, conditions: str, *, searched: bool) -> str:
        """What lines of all threads of an owner add up to."""
        source, where = self._of_owner(whose, conditions, searched=searched)
        return self.dialect.bound(f"SELECT {_TALLY} FROM {source} WHERE {where} GROUP BY m.role")

    @cache  # noqa: B019
    def owned_threads(self, whose: str, conditions: str, *, searched: bool) -> str:
        """In how many threads of an owner such lines are."""
        source, where = self._of_owner(whose, conditions, searched=searched)
        return self.dialect.bound(f'SELECT count(DISTINCT m."row" >> 32) FROM {source} WHERE {where}')

    def _in_thread(self, conditions: str, *, searched: bool, row: str = "") -> tuple[str, str]:
        found = self._in_thread_by(searched=searched)
        source, row = found.source.format(t=self.dialect.tables), row or found.row
        return source, f"{row} > ? AND {row} < ?{conditions}{found.where}"

    def _of_owner(self, whose: str, conditions: str, *, searched: bool) -> tuple[str, str]:
        """The scope finds the lines by an index; whose they are is asked of their threads."""
        found = self.found(searched)
        source = found.source.format(t=self.dialect.tables)
        # Of two limits FTS5 goes by the first: that of a query is the nearer one.
        return f"{source} {self._threads}", f"{self._scope(whose)} AND {self._owned(whose)}{conditions}{found.where}"

    def rare_in_thread(self, walk: Walk, words: str, *, order: str) -> str:
        """The condition that words are not common among the first lines of a thread; it is looked at once."""
        return self._rare(walk, words, f'm."row" > ? AND m."row" < ? ORDER BY m."row" {order}')

    def rare_of_owner(self, walk: Walk, words: str, whose: str) -> str:
        """… or among the newest of an owner."""
        return self._rare(walk, words, f"{self._scope(whose)} ORDER BY m.at DESC")

    def _rare(self, walk: Walk, words: str, first: str) -> str:
        first = f"SELECT m.words FROM {self.dialect.table('message')} m WHERE {first} LIMIT {walk.lines}"
        return f" AND (SELECT count(*) FROM ({first}) AS m WHERE {words.removeprefix(' AND ')}) < {walk.common}"

    def _scope(self, whose: str) -> str:
        return "m.space = ?" if whose == EVERYBODY else "m.scope = ?"

    def _owned(self, whose: str) -> str:
        return f"t.namespace = ?{self.dialect.owned(whose, 't.')} AND t.name_key IS NOT NULL"

    def _in_thread_by(self, *, searched: bool) -> Found:
        index = self.dialect.words.index
        return index.in_thread if searched and index else LISTED

    def found(self, searched: bool) -> Found:
        """Where lines of an owner are looked for."""
        index = self.dialect.words.index
        return index.of_owner if searched and index else LISTED
