"""W through put() of both savers, and the bytes that it leaves."""

from __future__ import annotations

from benchmarks.report import Figure
from benchmarks.savers.children import OURS, THEIRS
from benchmarks.savers.lab import Table
from benchmarks.scale import Bench
from benchmarks.timing import calm_sum, interleave, ratio, summary

_FASTER = {"SQLite": 3.5, "PostgreSQL": 12}
_FEWER = {"SQLite": 150, "PostgreSQL": 100}
_EDGE = 50  # puts at each end
Samples = dict[str, list[float]]


def on(bench: Bench) -> str:
    """The database that is measured."""
    return "SQLite" if bench.server is None else "PostgreSQL"


def run(bench: Bench, table: Table) -> None:
    """Play W on both sides put by put, and look at its length at each mark."""
    steps = {side: peer.save for side, peer in table.peers.items()}
    samples = interleave(f"put of {table.kind}", bench.scale.turns, steps)
    for side in table.wal_grew():
        bench.note(f"put of {table.kind}: the WAL of {side} grew during the run, its figure is too high")
    for mark in bench.scale.marks:
        bench.found(_total(bench, table, samples, mark))
    for side in (OURS, THEIRS):
        bench.found(_edges(bench, table, side, samples[side]))


def _total(bench: Bench, table: Table, samples: Samples, mark: int) -> Figure:
    mine, theirs = samples[OURS][:mark], samples[THEIRS][:mark]
    is_last = mark == bench.scale.turns
    return Figure(
        name=f"put of {mark} turns, {table.kind}: times faster than LangGraph's saver",
        value=sum(theirs) / sum(mine),
        calm=calm_sum(theirs) / calm_sum(mine),
        bar=_FASTER[on(bench)] if is_last else None,
        sense="≥",
        judged=not bench.scale.quick,
        note=f"{sum(mine):.2f} s beside {sum(theirs):.2f} s; medians {ratio(theirs, mine):.2f}×",
        sides={OURS: summary(mine), THEIRS: summary(theirs)},
    )


def _edges(bench: Bench, table: Table, side: str, samples: list[float]) -> Figure:
    first, last = summary(samples[:_EDGE]), summary(samples[-_EDGE:])
    barred = side == OURS and table.kind == "dicts"
    return Figure(
        name=f"put of {len(samples)} turns, {table.kind}, {side}: last {_EDGE} ÷ first {_EDGE}",
        value=last.median / first.median,
        calm=last.p10 / first.p10,
        bar=3 if barred else None,
        judged=not bench.scale.quick,
        sides={"first": first, "last": last},
    )


def sizes(bench: Bench, table: Table) -> None:
    """Close both, and weigh them."""
    found = table.closed()
    mine, theirs = found[OURS], found[THEIRS]
    name = f"put of {bench.scale.turns} turns, {table.kind}: times fewer bytes than LangGraph's saver"
    note = f"{mine / 1e6:.2f} MB beside {theirs / 1e6:.2f} MB"
    bar, judged = _FEWER[on(bench)], not bench.scale.quick
    bench.found(Figure(name=name, value=theirs / mine, bar=bar, sense="≥", judged=judged, note=note))
