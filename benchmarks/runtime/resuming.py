"""Going on after a crash: one long run, one that keeps its place in the state, and a hundred short ones."""

from __future__ import annotations

import asyncio
import subprocess

from benchmarks.peers.child import DBOS_RUNS, ROOT, Peer, dbos_runs
from benchmarks.report import Figure, compared
from benchmarks.runtime.homes import Home, Homes
from benchmarks.runtime.ours import KILLED, SHORT, interrupted, recovered, resumed
from benchmarks.runtime.steps import NO_PEER, OURS, THEIRS
from benchmarks.scale import Bench
from benchmarks.timing import Step, interleave

_LAUNCHED = "DBOS from launch() on"
_DONE, _TOTAL = 5, 11
_LONGER = 10  # times the recorded steps
Samples = dict[str, list[float]]


def run(bench: Bench, homes: Homes) -> None:
    """Runs are cut off by the end of their process; each sample resumes them in a copy of the database."""
    peer = dbos_runs()
    _replay(bench, homes, peer)
    _growth(bench, homes)
    _many(bench, homes, peer)
    if peer is not None:
        peer.close()


def _replay(bench: Bench, homes: Homes, peer: Peer | None) -> None:
    count = bench.scale.recorded
    samples = _samples(bench, homes, peer, runs=1, done=count, total=count + 1)
    name = f"resume with {count} recorded steps ÷ DBOS' replay of them"
    if peer is None:
        bench.found(Figure(name=name, value=None, note=NO_PEER))
        return
    judged = not bench.scale.quick
    bench.found(compared(name, OURS, THEIRS, samples, bar=0.05, judged=judged, beside=(_LAUNCHED,)))


def _growth(bench: Bench, homes: Homes) -> None:
    """The code asks for its state first, so the old steps are not asked for again."""
    few, many = bench.scale.recorded, bench.scale.recorded * _LONGER
    made = {count: _placed(homes, count) for count in (few, many)}
    sides: dict[str, Step] = {f"{count} steps": _resumes(homes, home) for count, home in made.items()}
    samples = interleave("resume by state", _turns(bench), sides)
    name = f"resume with {many} recorded steps ÷ with {few}, at the same state"
    judged = not bench.scale.quick
    bench.found(compared(name, f"{many} steps", f"{few} steps", samples, bar=2.0, judged=judged))


def _placed(homes: Homes, count: int) -> Home:
    home = homes.new(f"placed{count}")
    interrupted("placed", home.url, 1, count, count + 1)
    return home


def _many(bench: Bench, homes: Homes, peer: Peer | None) -> None:
    runs = bench.scale.interrupted
    samples = _samples(bench, homes, peer, runs=runs, done=_DONE, total=_TOTAL)
    name = f"{runs} interrupted runs ({_DONE} steps done, {_TOTAL - _DONE} to do) finished after start ÷ DBOS"
    if peer is None:
        bench.found(Figure(name=name, value=None, note=NO_PEER))
        return
    judged = not bench.scale.quick
    bench.found(compared(name, OURS, _LAUNCHED, samples, bar=0.4, judged=judged, beside=(THEIRS,)))


def _samples(bench: Bench, homes: Homes, peer: Peer | None, *, runs: int, done: int, total: int) -> Samples:
    """Ours, DBOS from its launch on, and DBOS from the moment it called its first workflow."""
    home = homes.new("interrupted")
    interrupted("counted", home.url, runs, done, total, lease=30.0 if runs == 1 else SHORT)
    sides: dict[str, Step] = {OURS: _resumes(homes, home) if runs == 1 else _recoveries(homes, home, runs)}
    replays: list[float] = []
    if peer is not None:
        theirs = homes.new("dbos_interrupted", theirs=True)
        cut = [*DBOS_RUNS, "interrupt", theirs.url, str(runs), str(done), str(total)]
        assert subprocess.run(cut, cwd=ROOT, check=False).returncode == KILLED
        sides[_LAUNCHED] = _launches(homes, theirs, peer, runs, replays)
    samples = interleave(f"recovery of {runs}", _turns(bench), sides)
    return samples | ({THEIRS: replays} if peer else {})


def _turns(bench: Bench) -> int:
    return max(2, bench.scale.repeats // 6)


def _resumes(homes: Homes, home: Home) -> Step:
    def step(_: int) -> float:
        copy = homes.copy(home)
        seconds = asyncio.run(resumed(copy.url))
        copy.close()
        return seconds

    return step


def _recoveries(homes: Homes, home: Home, runs: int) -> Step:
    def step(_: int) -> float:
        copy = homes.copy(home)
        seconds = asyncio.run(recovered(copy.url, runs))
        copy.close()
        return seconds

    return step


def _launches(homes: Homes, home: Home, peer: Peer, runs: int, replays: list[float]) -> Step:
    def step(_: int) -> float:
        copy = homes.copy(home)
        seconds = peer.ask(f"recover {copy.url} {runs}")
        replays.append(peer.ask("replay"))
        copy.close()
        return seconds

    return step
