"""Restoring the newest state, and listing checkpoints."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from benchmarks.databases import connect
from benchmarks.report import compared
from benchmarks.scale import Bench
from benchmarks.stores import fill, handle, open_store
from benchmarks.timing import Step, interleave, timed
from benchmarks.workload import final_state
from perdure.sync import Thread

_LISTED = 50
_COLUMNS = "id, kind, status, note, agent, metadata, version, entry, parent, at, thread, user"


def restore(bench: Bench) -> None:
    """A fresh store each time, connected before the clock starts; then the same store again; then one blob."""
    count = bench.scale.turns
    path = _filled(bench, "restore", count)
    kept = open_store(f"sqlite:///{path}")
    samples = interleave("restore", bench.scale.repeats, _restoring(path, count, handle(kept)))
    kept.close()
    judged, tail = not bench.scale.quick, _tail(path)
    note = f"{tail} entries after the newest snapshot"
    for side, bar in (("fresh", 3.8), ("again", 1.3)):
        name = f"restore the newest of {count} turns, {side} ÷ decoding one blob"
        bench.found(compared(name, side, "one blob", samples, bar=bar, judged=judged, note=note))


def _filled(bench: Bench, name: str, count: int) -> str:
    path = bench.path(name)
    fill(f"sqlite:///{path}?synchronous=NORMAL", "words", bench.turns()[:count])
    return path


def _restoring(path: str, count: int, thread: Thread) -> dict[str, Step]:
    blob = msgspec.msgpack.encode(final_state("words", count))
    thread.load()
    return {
        "fresh": lambda _: _fresh(path),
        "again": lambda _: timed(thread.load),
        "one blob": lambda _: timed(lambda: msgspec.msgpack.decode(blob)),
    }


def _fresh(path: str) -> float:
    """In the clock: the handle, every read of the database, digests, folding, decoding. Not in it: connecting."""
    store = open_store(f"sqlite:///{path}")
    seconds = timed(lambda: handle(store).load())
    store.close()
    return seconds


def _tail(path: str) -> int:
    sql = """SELECT (SELECT max(row) FROM perdure_entry)
        - coalesce((SELECT max(row) FROM perdure_snapshot), (SELECT min(row) - 1 FROM perdure_entry))"""
    raw = connect(path)
    try:
        return raw.execute(sql).fetchone()[0]
    finally:
        raw.close()


def listing(bench: Bench) -> None:
    """The newest checkpoints beside a raw SELECT of as many rows of the same width."""
    count = min(bench.scale.turns, 300)
    store = open_store(f"sqlite:///{_filled(bench, 'list', count)}")
    thread = handle(store)
    raw = _raw_rows(bench.path("rows"), thread.history(_LISTED), count)
    select = f"SELECT {_COLUMNS} FROM points ORDER BY row DESC LIMIT {_LISTED}"
    sides: dict[str, Step] = {
        "history": lambda _: timed(lambda: thread.history(_LISTED)),
        "SELECT": lambda _: timed(lambda: raw.execute(select).fetchall()),
    }
    samples = interleave("list", bench.scale.repeats * 4, sides)
    raw.close()
    store.close()
    name = f"list the newest {_LISTED} checkpoints ÷ raw SELECT of {_LISTED} rows"
    bench.found(compared(name, "history", "SELECT", samples, bar=5))


def _raw_rows(path: str, points: list[Any], count: int) -> sqlite3.Connection:
    raw = connect(path)
    raw.execute(f"CREATE TABLE points (row INTEGER PRIMARY KEY, {_COLUMNS})")
    raw.execute("BEGIN")
    for at in range(count):
        point = points[at % len(points)]
        values = (
            f"{point.id}{at:04}",
            point.kind,
            point.status,
            None,
            None,
            b"\x80",
            at,
            at,
            point.id,
            at,
            "w",
            "bench",
        )
        raw.execute(f"INSERT INTO points ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)
    raw.execute("COMMIT")
    return raw
