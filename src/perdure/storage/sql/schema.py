"""The layout in numbered steps, as SQL that people may read and run themselves.

A step is never changed once released: a new layout is a new step. `min_reader` and `min_writer` tell which releases may
still use a storage after it: a step that only adds leaves them as they were.
"""

from __future__ import annotations

import msgspec


class SchemaStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the layout, done in one transaction."""

    number: int
    why: str
    statements: tuple[str, ...]
    min_reader: int
    min_writer: int


_META = """
CREATE TABLE perdure_meta (
  name   TEXT PRIMARY KEY,
  value  TEXT NOT NULL
) WITHOUT ROWID
"""

_THREAD = """
CREATE TABLE perdure_thread (
  row              INTEGER PRIMARY KEY,
  uid              TEXT NOT NULL UNIQUE,       -- tells a thread from a later one of the same id
  name_key         BLOB UNIQUE,                -- hash of (namespace, user_id, id); NULL: only forks see it
  namespace        TEXT NOT NULL,
  user_id          TEXT NOT NULL,              -- '' is no user
  id               TEXT NOT NULL,
  name             TEXT,
  agent            TEXT,
  tags             TEXT NOT NULL,              -- a JSON list
  status           TEXT NOT NULL,
  head             INTEGER NOT NULL,           -- version of the newest entry
  head_state_version INTEGER NOT NULL,         -- version of the newest entry that changed the state
  head_digest      BLOB NOT NULL,              -- chain digest of the newest entry
  last_checkpoint  TEXT,
  epoch            INTEGER NOT NULL,
  lease_owner      TEXT,
  lease_until      INTEGER NOT NULL,           -- times are microseconds since 1970, UTC
  wake_at          INTEGER,
  attempts         INTEGER NOT NULL,
  parent           TEXT,                       -- uid of the thread this one was forked from
  parent_version   INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL
)
"""

_ENTRY = """
CREATE TABLE perdure_entry (
  row              INTEGER PRIMARY KEY,        -- thread * 2^32 + version
  kind             TEXT NOT NULL,
  at               INTEGER NOT NULL,
  actor            TEXT,
  write_id         BLOB NOT NULL,
  idem_key         TEXT,
  request          BLOB,                       -- digest of the request the key stands for
  schema           INTEGER NOT NULL,
  payload_digest   BLOB NOT NULL,
  chain            BLOB NOT NULL,
  payload          BLOB NOT NULL,
  thread           INTEGER GENERATED ALWAYS AS (row >> 32) VIRTUAL,
  version          INTEGER GENERATED ALWAYS AS (row & 4294967295) VIRTUAL
)
"""

_SNAPSHOT = """
CREATE TABLE perdure_snapshot (
  row              INTEGER PRIMARY KEY,        -- thread * 2^32 + version
  base             INTEGER NOT NULL,           -- 1: truth, 0: derived and may be dropped
  chain            BLOB NOT NULL,
  digest           BLOB NOT NULL,
  payload          BLOB NOT NULL
)
"""

_CHECKPOINT = """
CREATE TABLE perdure_checkpoint (
  row              INTEGER PRIMARY KEY,        -- thread * 2^32 + version of the entry that made it
  id               TEXT NOT NULL UNIQUE,
  thread           INTEGER NOT NULL,
  version          INTEGER NOT NULL,           -- the version it refers to
  kind             TEXT NOT NULL,
  status           TEXT,
  note             TEXT,
  agent            TEXT,
  metadata         BLOB NOT NULL,
  parent           TEXT,
  at               INTEGER NOT NULL
)
"""

_BLOB = """
CREATE TABLE perdure_blob (
  row              INTEGER PRIMARY KEY,
  scope            BLOB NOT NULL,              -- hash of (namespace, user_id)
  digest           BLOB NOT NULL,
  touched_at       INTEGER NOT NULL,
  payload          BLOB NOT NULL,
  UNIQUE (scope, digest)
)
"""

_BLOB_USE = """
CREATE TABLE perdure_blob_use (
  thread           INTEGER NOT NULL,
  blob             INTEGER NOT NULL,
  version          INTEGER NOT NULL,           -- the first version that refers to it
  PRIMARY KEY (thread, blob)
) WITHOUT ROWID
"""

_INDEXES = (
    "CREATE INDEX perdure_thread_updated ON perdure_thread (namespace, updated_at, uid)",
    "CREATE INDEX perdure_thread_user ON perdure_thread (namespace, user_id, id)",
    "CREATE INDEX perdure_thread_lease ON perdure_thread (namespace, lease_until) WHERE lease_owner IS NOT NULL",
    "CREATE INDEX perdure_thread_wake ON perdure_thread (namespace, wake_at) WHERE wake_at IS NOT NULL",
    "CREATE INDEX perdure_thread_parent ON perdure_thread (parent) WHERE parent IS NOT NULL",
    "CREATE UNIQUE INDEX perdure_entry_key ON perdure_entry (thread, idem_key) WHERE idem_key IS NOT NULL",
    "CREATE INDEX perdure_checkpoint_kind ON perdure_checkpoint (thread, kind, version)",
    "CREATE INDEX perdure_blob_use_blob ON perdure_blob_use (blob)",
)

STEPS: tuple[SchemaStep, ...] = (
    SchemaStep(
        number=1,
        why="the first layout",
        statements=(_META, _THREAD, _ENTRY, _SNAPSHOT, _CHECKPOINT, _BLOB, _BLOB_USE, *_INDEXES),
        min_reader=1,
        min_writer=1,
    ),
)


def steps_after(schema: int) -> tuple[SchemaStep, ...]:
    """The steps that a storage of this schema still lacks."""
    return tuple(step for step in STEPS if step.number > schema)


def script(schema: int = 0) -> list[str]:
    """Everything `setup` would run from this schema on, statement by statement."""
    lines: list[str] = []
    for step in steps_after(schema):
        lines += ["BEGIN IMMEDIATE", *(statement.strip() for statement in step.statements), *_marks(step), "COMMIT"]
    return lines


def _marks(step: SchemaStep) -> list[str]:
    values = {"schema": step.number, "min_reader": step.min_reader, "min_writer": step.min_writer}
    insert = "INSERT OR REPLACE INTO perdure_meta (name, value) VALUES"
    return [f"{insert} ('{name}', '{value}')" for name, value in values.items()]


def run_step(step: SchemaStep) -> list[str]:
    """The statements of one step, without its transaction."""
    return [*step.statements, *_marks(step)]
