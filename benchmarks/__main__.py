"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import fsyncs, machine
from benchmarks.parts import PARTS
from benchmarks.profiling import profile
from benchmarks.report import RESULTS, Figure, Report
from benchmarks.scale import FULL, QUICK, Bench, Scale
from benchmarks.stores import SIDES
from benchmarks.timing import timed

NOTES = (
    "One run: all sides of a figure take turns save by save in random order. Every database: WAL, synchronous=FULL"
    " (LangGraph's too), page size 4096, a checkpoint every 1000 pages, and a WAL file grown to 2000 pages beforehand.",
    "Raw commit: BEGIN IMMEDIATE, INSERT of one blob as long as the newest entry payload beside it, COMMIT.",
    "LangGraph: put() of SqliteSaver alone, timed inside its own process; its put_writes() is left out, in its favour.",
    "Cold save and fresh restore: a new store object, connected and its layout checked before the clock starts; the"
    " first read of the database is inside.",
    "Measured: median ÷ median. Calm: the same by the quickest tenth of the samples. Where only one of them meets the"
    " bar, the machine was too busy to tell: unclear.",
    "The second sync of a cold save is SQLite's own: a new connection syncs the folder at its first commit.",
    "Not here: PostgreSQL, MariaDB, DBOS, pruning and runs.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks, or the profile."""
    options = _parser().parse_args(arguments)
    if options.command == "profile":
        print(profile(options.what, options.turns))
        return 0
    report = run(QUICK if options.quick else FULL, [options.only] if options.only else list(PARTS))
    print(report.markdown())
    report.write(options.results)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns; under a minute")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder that latest.md is written to")
    commands = parser.add_subparsers(dest="command")
    profiling = commands.add_parser("profile", help="where the time of one operation goes")
    profiling.add_argument("what", choices=[*SIDES, "restore"])
    profiling.add_argument("--turns", type=int, default=1000)
    return parser


def run(scale: Scale, parts: Sequence[str]) -> Report:
    """Measure the parts in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        report = Report(machine.describe(folder), scale.quick, notes=list(NOTES))
        bench = Bench(scale, Path(folder), found=lambda figure: _found(report, figure), note=report.notes.append)
        for name in parts:
            seconds = timed(lambda part=PARTS[name]: part(bench))
            sys.stderr.write(f"{name} took {seconds:.0f} s\n")
        if {"update", "save"} & set(parts):
            report.fsyncs = fsyncs.per_save(scale.traced)
        if report.machine["source"] != machine.source_digest():
            report.notes.append("The source changed during the run: child processes may have measured another Perdure.")
    return report


def _found(report: Report, figure: Figure) -> None:
    report.figures.append(figure)
    value = "not measured" if figure.value is None else f"{figure.value:.3f}"
    sys.stderr.write(f"{figure.name}: {value}\n")


if __name__ == "__main__":
    sys.exit(main())
