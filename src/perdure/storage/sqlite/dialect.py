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
    rowless=" WITHOUT ROWID",
)

DIALECT = Dialect(
    types=TYPES,
    bound=unchanged,
    words=WORDS,
    by_minute=True,
    keeps_minute=True,
    finding=(
        "ALTER TABLE {t}thread ADD COLUMN updated_minute INTEGER NOT NULL DEFAULT 0",
        f"UPDATE {{t}}thread SET updated_minute = updated_at >> {MINUTE}",  # noqa: S608  # names and numbers of ours
        "DROP INDEX {t}thread_updated",
        "DROP INDEX {t}thread_user",
        # By the minute: an index over `updated_at` itself was touched by every write.
        "CREATE INDEX {t}thread_updated ON {t}thread (namespace, updated_minute)",
        "CREATE INDEX {t}thread_user ON {t}thread (namespace, user_id, updated_minute)",
        "CREATE INDEX {t}thread_id ON {t}thread (id, namespace, user_id)",
        # For processes of earlier releases that are open still: they know no minute, and name the lease at each write.
        *(
            f"CREATE TRIGGER {{t}}minute_{name} AFTER {event} ON {{t}}thread "  # noqa: S608
            f"WHEN new.updated_minute <> new.updated_at >> {MINUTE} "
            f"BEGIN UPDATE {{t}}thread SET updated_minute = updated_at >> {MINUTE} WHERE row = new.row; END"
            for name, event in (("made", "INSERT"), ("moved", "UPDATE OF lease_until"))
        ),
    ),
    laid_out=lambda text: re.sub(" {2,}", " ", text),  # SQLite keeps it, and all of them fit into one page
    doubts_indexes=True,
    has_meta="SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'perdure_meta'",
)
STATEMENTS = Statements(DIALECT)
