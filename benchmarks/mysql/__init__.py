"""The benchmarks on MariaDB: one durable server, a database for each side."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.mysql import saves
from benchmarks.mysql.lab import Lab
from benchmarks.mysql.syncs import per_save as fsyncs
from benchmarks.scale import Bench, Scale

__all__ = ["FULL", "NOTES", "PARTS", "QUICK", "Lab", "fsyncs"]

PARTS: dict[str, Callable[[Bench], None]] = {"update": saves.run_updates, "save": saves.run_saves}
FULL = Scale(
    quick=False, updates=1000, marks=(100, 300), width=60, grown=1000, repeats=60, rounds=40, each=4, traced=100
)
QUICK = Scale(quick=True, updates=200, marks=(60, 100), width=40, grown=200, repeats=30, rounds=30, each=2, traced=20)
NOTES = (
    "One run on one server of its own: innodb_flush_log_at_trx_commit=1, doublewrite on, a redo log that has its size"
    " from the start, no binary log. Every side has a database of its own and its own connection over loopback TCP; all"
    " sides of a figure take turns save by save in random order.",
    "Raw INSERT: PyMySQL's execute() in autocommit on a connection of its own, one LONGBLOB as long as a recent entry"
    " payload beside it.",
    "Innodb_data_fsyncs counts data files that grow too: they are what is above one in a raw INSERT.",
    "Measured: median ÷ median. Calm: the same by the quickest tenth of the samples. Where only one of them meets the"
    " bar, the machine was too busy to tell: unclear.",
)
