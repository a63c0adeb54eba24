"""The benchmarks on PostgreSQL: one durable server, a database for each side."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.parts import requests
from benchmarks.postgres import hot, search, sessions, sizes, updates, whole, writers
from benchmarks.postgres.lab import Lab
from benchmarks.postgres.syncs import per_save as fsyncs
from benchmarks.scale import Bench, Scale

__all__ = ["FULL", "NOTES", "PARTS", "QUICK", "Lab", "fsyncs"]

PARTS: dict[str, Callable[[Bench], None]] = {
    "update": updates.run,
    "save": whole.run,
    "requests": lambda bench: requests.in_turn(bench),
    "bytes": sizes.run,
    "writers": writers.run,
    "hot": hot.run,
    "sessions": sessions.run,
    "search": search.run,
}
FULL = Scale(
    quick=False, updates=1000, marks=(100, 300, 1000), width=60, grown=1000, repeats=60, rounds=40, each=4, traced=100,
    wal_megabytes=3000,
)  # fmt: skip
QUICK = Scale(
    quick=True, updates=200, marks=(60, 100), width=40, grown=200, repeats=30, rounds=30, each=2, traced=20,
    slow=60, lengths=(10, 100), messages=5_000, wal_megabytes=200,
    steps=100, recorded=200, interrupted=20, waiting=50,
)  # fmt: skip
NOTES = (
    "One run on one server of its own: fsync, synchronous_commit and full_page_writes on; WAL grown beforehand, no"
    " checkpoint and no autovacuum during the run. Every side has a database of its own and its own connection over"
    " loopback TCP; all sides of a figure take turns save by save in random order.",
    "Raw INSERT: psycopg's execute() in autocommit on a connection of its own, one bytea (STORAGE EXTERNAL) as long as"
    " a recent entry payload beside it.",
    "LangGraph: put() of PostgresSaver alone, on the connection that from_conn_string makes, timed inside its own"
    " process; its put_writes() is left out, in its favour.",
    "Agentflow: aput_state() of PgCheckpointer alone on one connection; putting the state into Redis is left out, in"
    " its favour. It keeps the newest 20 states (its default) and deletes the rest.",
    "Bytes: pg_total_relation_size of all tables, not vacuumed: what was deleted counts on every side. PostgreSQL"
    " compresses large values by itself (pglz): words shrink to a third, random text does not.",
    "Cold save and fresh restore: a new store object, connected and its layout checked before the clock starts; the"
    " first read of the database is inside.",
    "Reads: after ANALYZE on every side, which autovacuum would have done.",
    "Cached, checked and cold read: a long-lived store and a fresh handle; the process had let go of the state, except"
    " where it is remembered. A cached read asks Redis alone, a checked one PostgreSQL for the head and Redis for the"
    " rest, a cold one PostgreSQL alone. Redis is on loopback; PostgreSQL is too, or behind a proxy that delivers"
    " everything 2.5 ms later each way. Beside them a raw SELECT and a raw GET of the same content in one blob on"
    " loopback, neither checked nor decoded.",
    "Search: text of 300 characters a message; four of five messages are in one thread, the rest in threads of 100; one"
    " of 100 has the word. Raw SELECT: as many rows as wide as ours, the newest by an index over owner and time,"
    " neither checked nor decoded, in the same database. Both after VACUUM ANALYZE, which autovacuum would have done.",
    "Measured: median ÷ median. Calm: the same by the quickest tenth of the samples. Where only one of them meets the"
    " bar, the machine was too busy to tell: unclear.",
)
