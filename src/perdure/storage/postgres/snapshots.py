"""Snapshots in one statement each. They are derived, so their commits need not wait for the disk."""

from __future__ import annotations

from perdure.core.identity import ThreadKey
from perdure.core.writes import Snapshot
from perdure.storage.sql.rows import Row
from perdure.storage.sql.statements import Statements

_LAZILY = "(SELECT set_config('synchronous_commit', 'off', true)) AS lazily"
_PUT = """WITH line AS (
  SELECT "row" FROM {thread} WHERE name_key = $1 AND uid = $2 FOR NO KEY UPDATE
), put AS (
  INSERT INTO {snapshot} AS old ("row", base, chain, digest, payload)
  SELECT "row" * 4294967296 + $3, 0, $4, $5, $6 FROM line
  ON CONFLICT ("row") DO UPDATE SET chain = excluded.chain, digest = excluded.digest, payload = excluded.payload
  WHERE old.base = 0
)
SELECT count(*) FROM line, {lazily}"""
_DROP = """WITH line AS (
  SELECT "row", parent FROM {thread} WHERE name_key = $1
), gone AS (
  DELETE FROM {snapshot} AS s USING line
  WHERE s."row" = line."row" * 4294967296 + $2 AND s.base = 0 AND line.parent IS NULL
)
SELECT count(*) FROM line, {lazily} WHERE parent IS NOT NULL"""


class Snapshots:
    """The statements."""

    def __init__(self, sql: Statements) -> None:
        tables = {name: sql.dialect.table(name) for name in ("thread", "snapshot")}
        self.put = _PUT.format(**tables, lazily=_LAZILY)
        self.drop = _DROP.format(**tables, lazily=_LAZILY)  # tells of a fork, whose parents may have it

    def put_values(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> Row:
        """The values of `put`."""
        name = bytes.fromhex(key.digest())
        return (name, uid, snapshot.version, snapshot.chain, snapshot.digest, snapshot.payload)
