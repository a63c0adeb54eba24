"""Searching messages in SQLite."""

from __future__ import annotations

from benchmarks.databases import connect
from benchmarks.scale import Bench
from benchmarks.searching import LISTED, RAW_COLUMNS, RawRow, Talk, fill, measure, talk
from benchmarks.stores import open_store

_SELECT = f"SELECT {RAW_COLUMNS} FROM raw_message WHERE owner = 1 ORDER BY at DESC LIMIT {LISTED}"

_MARKS = ", ".join("?" for _ in RawRow._fields)


def run(bench: Bench) -> None:
    """Our tables and the raw one are in the same file."""
    path, said = bench.path("search"), talk(bench.scale.messages)
    store = open_store(f"sqlite:///{path}?synchronous=NORMAL")
    fill(store, said)
    _keep(path, said)
    raw = connect(path)
    measure(bench, store, said, lambda: raw.execute(_SELECT).fetchall())
    raw.close()
    store.close()


def _keep(path: str, said: Talk) -> None:
    raw = connect(path)
    raw.execute(f"CREATE TABLE raw_message (number INTEGER PRIMARY KEY, {RAW_COLUMNS})")
    raw.execute("CREATE INDEX raw_message_by_time ON raw_message (owner, at)")
    raw.execute("BEGIN")
    raw.executemany(f"INSERT INTO raw_message ({RAW_COLUMNS}) VALUES ({_MARKS})", said.raw_rows())
    raw.execute("COMMIT")
    raw.close()
