"""The parts of a run, by name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.parts import clients, command_line, points, reads, requests, search, sizes, start, updates, whole
from benchmarks.scale import Bench

PARTS: dict[str, Callable[[Bench], None]] = {
    "update": updates.run,
    "save": whole.run,
    "requests": requests.run,
    "bytes": sizes.run,
    "restore": reads.restore,
    "list": reads.listing,
    "prune": points.prune,
    "fork": points.fork,
    "compare": points.compare,
    "clients": clients.run,
    "search": search.run,
    "start": start.run,
    "command_line": command_line.run,
}

NOTES = (
    "One run: all sides of a figure take turns save by save in random order. Every database: WAL, synchronous=FULL"
    " (LangGraph's too), pages of 4096 bytes (ours of 8192, as it makes them), a checkpoint every 1000 pages, and a WAL"
    " file grown to 2000 pages beforehand.",
    "Raw commit: BEGIN IMMEDIATE, INSERT of one blob as long as a recent entry payload beside it, COMMIT.",
    "LangGraph: put() of SqliteSaver alone, timed inside its own process; its put_writes() is left out, in its favour.",
    "Cold save and fresh restore: a new store object, connected and its layout checked before the clock starts; the"
    " first read of the database is inside.",
    "Measured: median ÷ median. Calm: the same by the quickest tenth of the samples. Where only one of them meets the"
    " bar, the machine was too busy to tell: unclear.",
    "Search: text of 300 characters a message; four of five messages are in one thread, the rest in threads of 100; one"
    " of 100 has the word. Raw SELECT: as many rows as wide as ours, the newest by an index over owner and time,"
    " neither checked nor decoded, in the same file.",
    "Load and save: what a request does, a state loaded by a fresh handle, changed and saved, beside get_tuple() and"
    " put() of SqliteSaver; both sides in child processes of one environment, stores stay open but where it says so.",
    "The second sync of a cold save is SQLite's own: a new connection syncs the folder at its first commit.",
    "PostgreSQL and MariaDB have tables of their own. Runs beside DBOS: make bench RUNTIME=1.",
)
