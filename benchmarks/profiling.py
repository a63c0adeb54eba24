"""Where the time of one operation goes, function by function: `python -m benchmarks profile save|update|restore`."""

from __future__ import annotations

import cProfile
import pstats
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.databases import OurDatabase
from benchmarks.stores import SIDES, Side, fill, handle, open_store
from benchmarks.timing import timed
from benchmarks.workload import turns

_SHOWN = 30
_REPEATS = 60
_QUICKEST = 15  # the operations that were disturbed least are shown

Run = tuple[float, cProfile.Profile]


def profile(what: str, count: int) -> str:
    """A table of functions, microseconds per operation; the profiler itself makes small functions look dearer."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "profile.db")
        runs = _restores(path, count) if what == "restore" else _saves(SIDES[what], path, count)
    quickest = sorted(runs, key=lambda run: run[0])[:_QUICKEST]
    return table([profiler for _, profiler in quickest])


def _saves(side_class: type[Side], path: str, count: int) -> list[Run]:
    side = side_class(OurDatabase(path), "words", turns("words", count + _REPEATS))
    for at in range(count):
        side.step(at)
    runs = [_profiled(side.step, at) for at in range(count, count + _REPEATS)]
    side.close()
    return runs


def _restores(path: str, count: int) -> list[Run]:
    fill(f"sqlite:///{path}?synchronous=NORMAL", "words", turns("words", count))
    return [_restored(path) for _ in range(_REPEATS)]


def _restored(path: str) -> Run:
    store = open_store(f"sqlite:///{path}")
    run = _profiled(lambda: handle(store).load())
    store.close()
    return run


def _profiled(work: Any, *arguments: Any) -> Run:
    profiler = cProfile.Profile()
    return timed(lambda: profiler.runcall(work, *arguments)), profiler


def table(profilers: list[cProfile.Profile]) -> str:
    """Own time per operation, dearest first."""
    stats: Any = pstats.Stats(*profilers)
    rows = sorted(
        ((own, whole, calls, place) for place, (calls, _, own, whole, _) in stats.stats.items()), reverse=True
    )
    lines = ["| own µs | with callees µs | calls | function |", "|---|---|---|---|"]
    for own, whole, calls, place in rows[:_SHOWN]:
        per = 1e6 / len(profilers)
        lines.append(f"| {own * per:.1f} | {whole * per:.1f} | {calls / len(profilers):.1f} | {_function(place)} |")
    return "\n".join(lines)


def _function(place: tuple[str, int, str]) -> str:
    path, line, name = place
    return f"`{name}`" if path == "~" else f"`{'/'.join(Path(path).parts[-2:])}:{line} {name}`"
