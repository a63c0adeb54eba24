"""The runtime beside DBOS on the same database: `make bench RUNTIME=1`."""

from __future__ import annotations

from benchmarks.runtime import resuming, steps, turning, waiting
from benchmarks.runtime.homes import homes_of
from benchmarks.scale import Bench

_NOTES = (
    "Runs beside DBOS: one process each, both asynchronous, a step is a coroutine that returns 1.5 KB of random text."
    " Sides take turns batch by batch in random order; times are per step.",
    "Resume: the process was ended by os._exit() in the middle of its runs; every sample goes on in a fresh store"
    " (DBOS: a fresh instance) on a copy of that database. Ours from resume() on a connected store, DBOS from when"
    " it calls the workflow: its wait for the queue, a second, is left out in its favour, and shown beside it.",
    "Interrupted runs: ours from Perdure.open() on, DBOS from launch() on, imports excluded, until the last is recorded"
    " as finished. Their leases (3 s) had run out before: on PostgreSQL recover() does not see earlier that an owner on"
    " the same machine is dead.",
)
_SQLITE = (
    "DBOS uses SQLite's own default, a rollback journal with synchronous=FULL (DBOS as it comes). The side called DBOS"
    " was given a file in WAL mode with a pre-grown WAL, as ours has, in its favour; synchronous is FULL there too."
)


def run(bench: Bench) -> None:
    """All rows."""
    homes = homes_of(bench)
    for note in (*_NOTES, *((_SQLITE,) if bench.server is None else ())):
        bench.note(note)
    steps.run(bench, homes)
    turning.run(bench, homes)
    resuming.run(bench, homes)
    waiting.run(bench, homes)
