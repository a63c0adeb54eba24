"""Searching messages in PostgreSQL."""

from __future__ import annotations

import psycopg

from benchmarks.postgres.lab import Home, Lab
from benchmarks.scale import Bench
from benchmarks.searching import LISTED, RAW_COLUMNS, Talk, fill, measure, talk
from benchmarks.stores import open_store

_LAYOUT = """CREATE TABLE raw_message (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner bigint NOT NULL, at bigint NOT NULL, id text, role text NOT NULL, node text, run text,
  tool_calls bigint NOT NULL, error bigint NOT NULL, tokens bigint NOT NULL, duration bigint NOT NULL,
  digest bytea NOT NULL, body bytea NOT NULL)"""
_SELECT = f"SELECT {RAW_COLUMNS} FROM raw_message WHERE owner = 1 ORDER BY at DESC LIMIT {LISTED}"


def run(bench: Bench) -> None:
    """Our tables and the raw one are in the same database, vacuumed as autovacuum would have done meanwhile."""
    lab: Lab = bench.server
    home, said = lab.home("search"), talk(bench.scale.messages)
    store = open_store(home.url)
    fill(store, said)
    _keep(home, said)
    raw = psycopg.connect(home.url, autocommit=True)
    measure(bench, store, said, lambda: raw.execute(_SELECT, binary=True, prepare=True).fetchall())
    raw.close()
    store.close()
    home.close()


def _keep(home: Home, said: Talk) -> None:
    home.keeper.execute(_LAYOUT)
    home.keeper.execute("CREATE INDEX raw_message_by_time ON raw_message (owner, at)")
    with home.keeper.cursor().copy(f"COPY raw_message ({RAW_COLUMNS}) FROM STDIN") as copy:
        for row in said.raw_rows():
            copy.write_row(row)
    home.keeper.execute("VACUUM ANALYZE")
