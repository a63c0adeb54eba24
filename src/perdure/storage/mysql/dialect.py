"""The words of MySQL and MariaDB."""

from __future__ import annotations

from typing import Literal

from perdure.storage.sql.dialect import Dialect, Types, unchanged
from perdure.storage.sql.words import Walk, Words

UserIdType = Literal["string", "int", "bigint"]
# Case and trailing spaces count. Each server takes the comment that is meant for it as a part of the statement.
COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
_TABLE = (
    f" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4"
    f" /*M! COLLATE={COLLATIONS[0]} */ /*!80017 COLLATE={COLLATIONS[1]} */"
)
_USER_COLUMNS = {"string": "VARCHAR(512) NOT NULL", "int": "INT", "bigint": "BIGINT"}
# An index holds at most 3072 bytes, a character of these texts up to four.
_USER_INDEX = {
    "string": "namespace(250), user_id(250), id(250)",
    "int": "namespace(250), user_id, id(250)",
    "bigint": "namespace(250), user_id, id(250)",
}
_COMPUTED = """,
  thread           BIGINT GENERATED ALWAYS AS ("row" >> 32) STORED,
  version          BIGINT GENERATED ALWAYS AS ("row" & 4294967295) VIRTUAL"""
# Lines are looked at one by one, newest first. A FULLTEXT index would not do: while the server moves new words from its
# cache to the index, by itself and often just after they were written, it does not find them; and it takes seconds to
# find a common word.
_WORDS = Words(
    column=""",
  words            LONGTEXT CHARACTER SET ascii COLLATE ascii_bin""",
    kept=lambda words: f" {' '.join(words)} " if words else None,
    walk=Walk(has="LOCATE(CONVERT(? USING ascii), m.words) > 0", word=lambda word: f" {word} "),
)
_HAS_META = """SELECT table_collation FROM information_schema.tables
WHERE table_schema = database() AND table_name = 'perdure_meta'"""
DISK_BYTES = """SELECT coalesce(sum(data_length + index_length), 0) FROM information_schema.tables
WHERE table_schema = database() AND table_name LIKE 'perdure\\_%'"""
SERVER_NOW = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"


def dialect(users: UserIdType) -> Dialect:
    """The dialect for users of this type."""
    typed = users != "string"
    return Dialect(
        types=_types(users),
        bound=unchanged,
        server_now=SERVER_NOW,
        lock=" FOR UPDATE",
        words=_WORDS,
        in_order="STRAIGHT_JOIN",
        json="LONGTEXT",  # MariaDB's JSON refuses what is nested deeper than 32 levels
        shown_moment="TIMESTAMPADD(MICROSECOND, {}, '1970-01-01')",
        is_callers="HEX(LEFT({}, 1)) <> '1F'",
        make_view="CREATE ALGORITHM = TEMPTABLE VIEW {}",  # else one could write through it
        greatest="greatest",
        least="least",
        new="VALUES({})",
        on_taken="ON DUPLICATE KEY UPDATE {changes}",
        on_taken_nothing="ON DUPLICATE KEY UPDATE {any} = {any}",
        partial_indexes=False,
        user_columns=_USER_INDEX[users],
        id_columns="id(250)",
        # Without partial indexes: only threads that are leased have an owner.
        lease_columns="namespace, lease_owner(16), lease_until",
        user_read="coalesce(CAST(user_id AS CHAR), '')" if typed else "user_id",
        user_bound="CAST(nullif(?, '') AS SIGNED)" if typed else "?",
        user_nobody="user_id IS NULL" if typed else "user_id = ''",
        has_meta=_HAS_META,
    )


def _types(users: UserIdType) -> Types:
    return Types(
        serial="BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        place="BIGINT NOT NULL PRIMARY KEY",
        int="BIGINT",
        id="VARCHAR(512)",
        uid="VARCHAR(128)",  # beside a namespace and a time it still fits an index
        key="VARCHAR(760)",  # as long as an index allows
        text="LONGTEXT",
        hash="VARBINARY(64)",
        bytes="LONGBLOB",
        user=_USER_COLUMNS[users],
        computed=_COMPUTED,  # stored where an index needs it: purging an index over a virtual column is a fragile art
        table=_TABLE,
    )
