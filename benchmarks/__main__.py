"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine
from benchmarks.backends import BACKENDS, Backend
from benchmarks.profiling import profile
from benchmarks.report import RESULTS, Figure, Report
from benchmarks.scale import Bench, Scale
from benchmarks.stores import SIDES
from benchmarks.timing import timed

_BUSY = (
    "The machine had more to do than it has cores: what waits for the CPU on every side alike draws ratios towards 1,"
    " so a bar that is met here is not yet met on a calm machine."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks, or the profile."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "profile":
        print(profile(options.what, options.turns))
        return 0
    backend = BACKENDS[options.backend]
    if options.only and options.only not in backend.names:
        parser.error(f"--only {options.only}: the parts of {options.backend} are {', '.join(backend.names)}")
    parts = [options.only] if options.only else list(backend.parts)
    report = run(backend.quick if options.quick else backend.full, parts, backend)
    report.name = options.name or report.name
    print(report.markdown())
    report.write(options.results)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--backend", choices=BACKENDS, default="sqlite", help="the database (sqlite)")
    parser.add_argument("--quick", action="store_true", help="fewer turns; about a minute")
    parser.add_argument("--only", help="one part")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder that the table is written to")
    parser.add_argument("--name", help="the name of its files")
    commands = parser.add_subparsers(dest="command")
    profiling = commands.add_parser("profile", help="where the time of one operation goes")
    profiling.add_argument("what", choices=[*SIDES, "restore"])
    profiling.add_argument("--turns", type=int, default=1000)
    return parser


def run(scale: Scale, parts: Sequence[str], backend: Backend = BACKENDS["sqlite"]) -> Report:
    """Measure the parts in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder, backend.server(scale) as server:
        about = machine.describe(folder) | (server.describe() if server else {})
        report = Report(
            about,
            scale.quick,
            notes=list(backend.notes),
            title=backend.title,
            name=backend.results,
            counted_by=backend.counted_by,
        )
        bench = Bench(
            scale, Path(folder), found=lambda figure: _found(report, figure), note=report.notes.append, server=server
        )
        _measure(bench, parts, backend, report)
    return report


def _measure(bench: Bench, parts: Sequence[str], backend: Backend, report: Report) -> None:
    for name in parts:
        part = backend.part(name)
        seconds = timed(lambda part=part: part(bench))
        sys.stderr.write(f"{name} took {seconds:.0f} s\n")
    if backend.counted_after & set(parts):
        report.fsyncs = backend.fsyncs(bench)
    report.fsyncs |= bench.fsyncs
    if report.machine["load at start"] > report.machine["cores"]:
        report.notes.append(_BUSY)
    if report.machine["source"] != machine.source_digest():
        report.notes.append("The source changed during the run: child processes may have measured another Perdure.")


def _found(report: Report, figure: Figure) -> None:
    report.figures.append(figure)
    value = "not measured" if figure.value is None else f"{figure.value:.3f}"
    sys.stderr.write(f"{figure.name}: {value}\n")


if __name__ == "__main__":
    sys.exit(main())
