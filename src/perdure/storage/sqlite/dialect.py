"""SQLite's words."""

from __future__ import annotations

import re

from perdure.storage.sql.dialect import MINUTE, Dialect, Types, unchanged
from perdure.storage.sql.statements import Statements
from perdure.storage.sqlite.words import WORDS

TYPES = Types(
    serial="INTEGER PRIMARY KEY",
    place="INTEGER PRIMARY KEY",
    int="INTEGER",
    id="TEXT",
    text="TEXT",
    hash="BLOB",
    bytes="BLOB",
    user="TEXT NOT NULL",
    computed=""",
  thread           INTEGER GENERATED ALWAYS AS ("row" >> 32) VIRTUAL,
  version          INTEGER GENERATED ALWAYS AS ("row" & 4294967295) VIRTUAL""",
    # By the minute: an index over `updated_at` itself was touched by every write.
    minute=f""",
  updated_minute   INTEGER NOT NULL            -- updated_at >> {MINUTE}""",
    rowless=" WITHOUT ROWID",
)

DIALECT = Dialect(
    types=TYPES,
    bound=unchanged,
    words=WORDS,
    by_minute=True,
    keeps_minute=True,
    user_columns="namespace, user_id, updated_minute",
    id_columns="id, namespace, user_id",
    laid_out=lambda text: re.sub(" {2,}", " ", text),  # SQLite keeps it, and all of them fit into one page
    doubts_indexes=True,
    octets="length(CAST({} AS BLOB))",
    characters="length({})",
    has_meta="SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'perdure_meta'",
)
STATEMENTS = Statements(DIALECT)
