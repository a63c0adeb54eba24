"""Faults in one storage, or in what the databases share."""

from __future__ import annotations

import re
from typing import Any

from perdure.storage import lineage, memory
from perdure.storage.file import history, log, reading
from perdure.storage.file import store as file_store
from perdure.storage.file import writing as file_writing
from perdure.storage.mysql import save_text
from perdure.storage.postgres.errors import translated
from perdure.storage.postgres.transactions import PostgresPort
from perdure.storage.sql import doubts
from perdure.storage.sql import history as sql_history
from perdure.storage.sql import writing as sql_writing
from perdure.storage.sqlite import connection, continuing
from tests.mutants.planting import Plant, replace, restate, rewrite, with_changes

NO_USER = (r"t\.user_id = (\S+)", r"(\1 || '') IS NOT NULL")
NOTHING = ("WHERE", "WHERE 1 = 0 AND")


def no_grace() -> None:
    for module in (memory, sql_writing, file_store):
        module.BLOB_GRACE = 0


def memory_forgets_keys() -> None:
    again = memory.MemoryStorage._again
    memory.MemoryStorage._again = lambda self, log, write: again(self, log, with_changes(write, idem_key=None))


def file_forgets_keys() -> None:
    again = file_writing._again
    file_writing._again = lambda log, write: again(log, with_changes(write, idem_key=None))


def sql_forgets_keys() -> None:
    restate("ENTRY_BY_KEY", *NOTHING)


def memory_forgets_retries() -> None:
    memory.MemoryStorage._retried = lambda self, log, write: None


def file_forgets_retries() -> None:
    file_writing._retried = lambda log, write: None


def known_line_is_any_line(*columns: str) -> Plant:
    """Conditions on the line that a process knows are left out; their values are bound all the same."""
    return _any_line(continuing, ("_MOVE_HEAD", "_MOVE_LINE"), columns)


def known_line_is_any_line_of_mysql(*columns: str) -> Plant:
    """The same on MariaDB."""
    return _any_line(save_text, ("_AS_KNOWN",), columns)


def _any_line(module: Any, names: tuple[str, ...], columns: tuple[str, ...]) -> Plant:
    def plant() -> None:
        for name in names:
            text, count = re.subn(rf"AND ({'|'.join(columns)}) (=|IS|<=>|<=) \?", any_value, getattr(module, name))
            assert count == len(columns), f"{name} does not ask for all of {columns}"
            setattr(module, name, text)

    any_value = "AND coalesce(?, 1) IS NOT NULL"
    return plant


def known_line_may_be_deleted_of_mysql() -> None:
    rewrite(save_text, "_AS_KNOWN", "name_key IS NOT NULL", "true")


def known_time_is_not_checked_of_mysql() -> None:
    rewrite(save_text, "_IN_TIME", "BETWEEN 0", "BETWEEN -1000000000000 * 10000")
    rewrite(save_text, "_IN_TIME", "AND 10000", "AND 1000000000000")


def known_entry_has_a_place_of_mysql() -> None:
    rewrite(save_text, "_PLACE", "IF(ROW_COUNT() = 1, ?, NULL)", "?")


def known_columns_stay_of_mysql(*columns: str) -> Plant:
    """Columns of the line are left as they were."""

    def plant() -> None:
        changed = save_text._changed
        save_text._changed = lambda before, after: {
            name: value for name, value in changed(before, after).items() if name not in columns
        }

    return plant


def known_lease_is_not_renewed() -> None:
    rewrite(continuing, "_MOVE_LINE", "lease_until = ?, ", "lease_until = coalesce(lease_until, ?), ")


def known_minute_is_not_moved() -> None:
    rewrite(continuing, "_MOVE_LINE", "updated_minute = ?", "updated_minute = coalesce(updated_minute, ?)")


def known_entry_is_not_taken_back() -> None:
    rewrite(continuing, "_TAKE_BACK", *NOTHING)


def sql_forgets_retries() -> None:
    restate("ENTRY_BY_WRITE", *NOTHING)


def memory_lists_backwards() -> None:
    marks = memory.MemoryStorage._marks
    memory.MemoryStorage._marks = lambda self, log: marks(self, log)[::-1]


def file_lists_backwards() -> None:
    checkpoints = history.History.checkpoints
    history.History.checkpoints = lambda self: checkpoints(self)[::-1]


def sql_lists_backwards() -> None:
    restate("checkpoints", r'ORDER BY c."row" DESC', 'ORDER BY c."row"')


def memory_shows_everybodys() -> None:
    visible = memory.MemoryStorage._visible
    memory.MemoryStorage._visible = lambda self, namespace, user: visible(self, namespace, None)


def file_shows_everybodys() -> None:
    reading._belongs = lambda key, namespace, user: key.namespace == namespace


def sql_lists_everybodys() -> None:
    restate("user_checkpoints", *NO_USER)


def sql_finds_everybodys() -> None:
    restate("checkpoint", *NO_USER)


def memory_restores_the_future() -> None:
    newest = memory.MemoryStorage._newest_snapshot
    memory.MemoryStorage._newest_snapshot = lambda self, log, at: newest(self, log, log.row.head)


def file_restores_the_future() -> None:
    newest = reading._newest_snapshot
    reading._newest_snapshot = lambda logs, found, at: newest(logs, found, found.row.head)


def sql_restores_the_future() -> None:
    newest = sql_history._newest_snapshot

    async def later(tx: Any, found: Any, *rest: Any) -> Any:
        return await newest(tx, [(owner, lineage.Span(span.low, owner.row.head)) for owner, span in found], *rest)

    sql_history._newest_snapshot = later


def sql_frees_parents_at_once() -> None:
    restate("NEEDED_BY_FORKS", *NOTHING)


def memory_frees_parents_at_once() -> None:
    trim = memory._trim
    replace(trim, lambda log, version: trim(log, version - 1))


def file_is_not_synced() -> None:
    """The commit itself: lines are written and acknowledged, but nobody waits for the disk."""
    for name in ("_append", "append"):
        append = getattr(log.Log, name, None)
        if append is not None:
            setattr(log.Log, name, _without_sync(append))


def _without_sync(method: Any) -> Any:
    def lazy(self: Any, *arguments: Any) -> Any:
        file = self._file
        self._file = _Lazy(file)
        try:
            return method(self, *arguments)
        finally:
            self._file = file if isinstance(self._file, _Lazy) else self._file

    return lazy


class _Lazy:
    """A file that does not sync."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def sync(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def sqlite_is_not_synced() -> None:
    connect = connection.Connection._connect

    def lazy(self: Any) -> Any:
        self._synchronous = "OFF"
        return connect(self)

    connection.Connection._connect = lazy


def postgres_takes_lost_answers_for_failures() -> None:
    """A commit in doubt is made again, as if it could not stand."""
    PostgresPort._in_doubt = lambda self, exc, value: translated(self.place, exc)


def postgres_never_looks_for_what_landed() -> None:
    async def absent(*asked: Any) -> None:
        return None

    for name in ("landed", "line_changed", "is_gone"):
        setattr(doubts, name, absent)
