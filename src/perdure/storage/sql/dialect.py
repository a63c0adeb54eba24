"""Where the databases differ: how things are called, bound, locked and typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from perdure.storage.sql.words import Words

MINUTE = 26  # bits of microseconds that make about one
EVERYBODY, NOBODY, ONE = "everybody", "nobody", "one"  # whose rows a list is about


class Types(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one database for the kinds of columns we have."""

    serial: str  # a number the database counts up
    place: str  # a number we give: thread * 2^32 + version
    int: str
    id: str  # a text of at most 512 characters that an index holds
    uid: str = ""  # a text of our own making, if it should be shorter than an id
    key: str = ""  # a key, if it may be longer than an id
    text: str
    hash: str  # bytes that an index holds
    bytes: str
    user: str
    computed: str = ""  # columns of `entry` computed from its place
    minute: str = ""  # a column of `thread` that changes about once a minute, for indexes that saves need not touch
    rowless: str = ""  # after a table whose key is its only order
    table: str = ""  # after every table


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One database."""

    types: Types
    bound: Callable[[str], str]  # a statement with `?` for values, as the driver wants it
    tables: str = "perdure_"  # what stands before the name of a table
    indexes: str = "perdure_"  # … and of an index
    lock: str = ""  # keeps a line from changing until the transaction ends
    thread_of_entry: str = "thread"  # the thread of an entry, as the index over keys has it
    words: Words
    server_now: str = "0"  # what time it is at the server, in microseconds
    arrays: bool = False  # whether a list can be bound as one value
    in_order: str = "CROSS JOIN"  # joins tables in the order they are named in
    greatest: str = "max"
    least: str = "min"
    new: str = "excluded.{}"  # the value that an insert found taken
    old: str = "{table}.{column}"  # … and the value that stood there
    on_taken: str = "ON CONFLICT ({key}) DO UPDATE SET {changes}"
    on_taken_nothing: str = "ON CONFLICT ({key}) DO NOTHING"
    partial_indexes: bool = True
    by_minute: bool = False  # whether the directory is indexed by the minute of `updated_at` only
    keeps_minute: bool = False  # … which statements fill in: naming it in an UPDATE would touch its index each time
    user_columns: str  # finds the threads of a user, as far as an index can hold it
    id_columns: str  # finds threads by their id
    lease_columns: str = "namespace, lease_until"  # finds leases that ran out
    user_read: str = "user_id"  # the user as text, '' for nobody
    user_bound: str = "?"  # a user as the column wants it
    user_nobody: str = "user_id = ''"
    doubts_indexes: bool = False  # whether a thread that was not found is looked for in other indexes too
    position: str = "instr"  # where a text begins in another, 0 for nowhere
    octets: str = "octet_length({})"  # bytes of a text
    characters: str = "char_length({})"
    # For the SQL views: how JSON is typed, a moment shown, a caller's namespace told from one of ours, a view begun.
    json: str = "TEXT"
    json_has_nul: bool = True  # whether a text inside JSON may hold NUL
    shown_moment: str = "strftime('%Y-%m-%dT%H:%M:%fZ', {} / 1e6, 'unixepoch')"
    is_callers: str = "substr({}, 1, 1) <> char(31)"
    make_view: str = "CREATE VIEW {}"
    views: str = ""  # what stands before the name of a view
    has_meta: str  # one row if the layout was made
    laid_out: Callable[[str], str] = lambda text: text  # a statement of the layout, as the database is to keep it
    after: Callable[[str], tuple[str, ...]] = lambda table: ()  # what ALTER TABLE adds to a new table

    @property
    def newest(self) -> str:
        """The order of the directory."""
        return "updated_minute, updated_at, uid" if self.by_minute else "updated_at, uid"

    def newest_before(self, updated: int, uid: str) -> tuple[int | str, ...]:
        """A place in that order."""
        return (updated >> MINUTE, updated, uid) if self.by_minute else (updated, uid)

    def moment(self, updated: int) -> tuple[int, ...]:
        """The values of `updated_at`, and of its minute where statements fill that in."""
        return (updated, updated >> MINUTE) if self.keeps_minute else (updated,)

    def table(self, name: str) -> str:
        """A table as statements name it."""
        return f"{self.tables}{name}"

    def owned(self, whose: str, table: str = "") -> str:
        """The condition that a thread is one of these."""
        owned = {EVERYBODY: "", NOBODY: f" AND {self.user_nobody}", ONE: f" AND user_id = {self.user_bound}"}
        return owned[whose].replace("user_id", f"{table}user_id")

    def named(self, *, tagged: bool, searched: bool) -> str:
        """The condition that a thread may have a tag, or a text in its name or id.

        Databases fold the case of ASCII alike: what is not ASCII passes, and `core.threads.listed` decides.
        """
        tag = f" AND {self.position}(tags, ?) > 0" if tagged else ""
        if not searched:
            return tag
        held = " OR ".join(
            f"{self.position}(lower({name}), ?) > 0 OR {self.octets.format(name)} <> {self.characters.format(name)}"
            for name in ("coalesce(name, '')", "id")
        )
        return f"{tag} AND ({held})"

    def among(self, column: str, values: Iterable[Any]) -> tuple[str, tuple[Any, ...]]:
        """The condition that a column has one of some values; there are few different texts, however many values."""
        listed = list(dict.fromkeys(values))
        if self.arrays:
            return f"{column} = ANY(?)", (listed,)
        count = 1 << max(len(listed) - 1, 0).bit_length()
        repeated = [listed[-1] if listed else None] * (count - len(listed))
        return f"{column} IN ({', '.join('?' * count)})", (*listed, *repeated)

    def insert(self, table: str, columns: Sequence[str], rows: int = 1) -> str:
        """Insert so many rows."""
        names = ", ".join(f'"{column}"' for column in columns)
        marks = f"({', '.join('?' for _ in columns)})"
        return f"INSERT INTO {self.table(table)} ({names}) VALUES {', '.join([marks] * rows)}"  # noqa: S608

    def upsert(self, table: str, columns: str, key: str, changes: dict[str, str]) -> str:
        """Insert, or change what stands there; `{old}` and `{new}` are the column's values, `{new_x}` that of x."""
        marks = ", ".join("?" for _ in columns.split(","))
        insert = f"INSERT INTO {self.table(table)} ({columns}) VALUES ({marks}) "  # noqa: S608  # names of ours
        if not changes:
            return insert + self.on_taken_nothing.format(key=key, any=columns.split(",")[0])
        sets = ", ".join(f"{name} = {self._change(table, name, text)}" for name, text in changes.items())
        return insert + self.on_taken.format(key=key, changes=sets)

    def _change(self, table: str, column: str, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name = found[2] or column
            is_new = found[1] == "new"
            return self.new.format(name) if is_new else self.old.format(table=self.tables + table, column=name)

        return re.sub(r"\{(old|new)(?:_(\w+))?\}", value, text)


def numbered(text: str) -> str:
    """`?` as `$1`, `$2` …"""
    count = iter(range(1, text.count("?") + 1))
    return re.sub(r"\?", lambda _: f"${next(count)}", text)


def unchanged(text: str) -> str:
    """`?` as it is."""
    return text


def percent(text: str) -> str:
    """`?` as `%s`."""
    return text.replace("%", "%%").replace("?", "%s")
