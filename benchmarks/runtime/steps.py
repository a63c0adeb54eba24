"""Journaled steps: how many a second, and how many bytes."""

from __future__ import annotations

from benchmarks.peers.child import Peer, dbos_runs
from benchmarks.report import Figure, compared
from benchmarks.runtime.homes import Home, Homes
from benchmarks.runtime.ours import Runs
from benchmarks.runtime.raw import raw_of
from benchmarks.scale import Bench
from benchmarks.timing import Step, interleave

OURS, THEIRS, PLAIN, RAW = "perdure", "DBOS", "DBOS as it comes", "raw commit"
NO_PEER = "no environment with DBOS: make .venv-peers/.ready"
_BATCH = 10  # steps of one run between two turns
_FEWER = 5  # … of each of many runs
_STEP_BYTES = 1580  # of a raw commit: the text and what tells which step it is


def run(bench: Bench, homes: Homes) -> None:
    """One run, then eight at once."""
    _speed(bench, homes, 1, _BATCH)
    _speed(bench, homes, 8, _FEWER)
    _bytes(bench, homes)


def _speed(bench: Bench, homes: Homes, runs: int, batch: int) -> None:
    turns = bench.scale.steps // batch
    ours = Runs((home := homes.new("steps")).url, runs)
    peers = _peers(homes, runs, bench.server is None)
    raw = raw_of(homes.new("raw", theirs=True), _STEP_BYTES)
    sides: dict[str, Step] = {OURS: lambda _: ours.steps(batch) / batch / runs, RAW: lambda _: raw.commit()}
    for name, (peer, _) in peers.items():
        sides[name] = _asked(peer, batch, runs)
    samples = interleave(f"steps of {runs}", turns, sides)
    _tell(bench, samples, runs)
    _note_growth(bench, home, *(each for _, each in peers.values()))
    for peer, _ in peers.values():
        peer.ask("finish")
        peer.close()
    ours.close()
    raw.close()


def _asked(peer: Peer, batch: int, runs: int) -> Step:
    return lambda _: peer.ask(f"steps {batch}") / batch / runs


def _peers(homes: Homes, runs: int, has_plain: bool) -> dict[str, tuple[Peer, Home]]:
    found: dict[str, tuple[Peer, Home]] = {}
    for name in (THEIRS, PLAIN) if has_plain else (THEIRS,):
        home = homes.new("dbos", theirs=True, plain=name == PLAIN)
        peer = dbos_runs()
        if peer is not None:
            peer.ask(f"open {home.url} {runs}")
            found[name] = (peer, home)
    return found


def _tell(bench: Bench, samples: dict[str, list[float]], runs: int) -> None:
    many = f"{runs} runs at once" if runs > 1 else "one run"
    for name in (THEIRS, PLAIN):
        title = f"journaled steps/s, {many}: times those of {name}"
        if name in samples:
            bar = 4.0 if name == THEIRS else None
            judged, beside = not bench.scale.quick, (RAW,)
            bench.found(compared(title, name, OURS, samples, bar=bar, sense="≥", judged=judged, beside=beside))
        elif name == THEIRS:
            bench.found(Figure(name=title, value=None, note=NO_PEER))
    bench.found(compared(f"journaled step ÷ raw commit, {many}", OURS, RAW, samples))


def _note_growth(bench: Bench, *homes: Home) -> None:
    if any(home.wal_grew() for home in homes):
        bench.note("A WAL had to grow while steps were counted, which makes them dearer.")


def _bytes(bench: Bench, homes: Homes) -> None:
    """What more steps add to a run, in a database that nobody is connected to."""
    count, bar = bench.scale.recorded, 2000 if bench.server is None else 2600
    sizes = [_size(homes, many) for many in (count // 10, count)]
    value, beside = (sizes[1] - sizes[0]) / (count - count // 10), _their_bytes(homes, count)
    note = f"{count} steps{beside}"
    bench.found(
        Figure(name="bytes per step of 1.5 KB, random text", value=value, unit="bytes", bar=bar, note=note)
    )  # fmt: skip


def _size(homes: Homes, count: int) -> int:
    ours = Runs((home := homes.new("bytes")).url, 1)
    ours.steps(count)
    ours.close()
    return homes.bytes(home)


def _their_bytes(homes: Homes, count: int) -> str:
    peer = dbos_runs()
    if peer is None:
        return ""
    sizes: list[int] = []
    for many in (count // 10, count):
        home = homes.new("dbos_bytes", theirs=True)
        peer.ask(f"open {home.url} 1")
        peer.ask(f"steps {many}")
        peer.ask("finish")
        sizes.append(homes.bytes(home))
    peer.close()
    return f", DBOS {(sizes[1] - sizes[0]) / (count - count // 10):,.0f}"
