"""The newest checkpoint in a fresh process and in one that knows it, and a list of the newest 50."""

from __future__ import annotations

from benchmarks.peers.child import Peer
from benchmarks.report import Figure, compared
from benchmarks.savers.children import OURS, THEIRS, command
from benchmarks.savers.lab import Table
from benchmarks.scale import Bench
from benchmarks.timing import Step, calm_sum, interleave, ratio, summary

_LISTED = 50
_LISTS = 12  # a list of theirs takes seconds
Samples = dict[str, list[float]]


def run(bench: Bench, table: Table) -> None:
    """All reads, after W was played; the processes that played it are warm."""
    table.settle()
    _warm(bench, table)
    _list(bench, table)
    _fresh(bench, table)


def _warm(bench: Bench, table: Table) -> None:
    steps = {side: _asking(peer, "get") for side, peer in table.peers.items()}
    samples = interleave(f"get of {table.kind}", bench.scale.repeats, steps)
    name = f"get the newest of {bench.scale.turns} turns, {table.kind}, warm ÷ LangGraph's"
    bench.found(compared(name, OURS, THEIRS, samples, bar=1.0, judged=not bench.scale.quick))


def _list(bench: Bench, table: Table) -> None:
    steps = {side: _asking(peer, f"list {_LISTED}") for side, peer in table.peers.items()}
    samples = interleave(f"list of {table.kind}", min(_LISTS, bench.scale.repeats), steps)
    mine, theirs = samples[OURS], samples[THEIRS]
    bench.found(
        Figure(
            name=f"list the newest {_LISTED} of {bench.scale.turns} turns, {table.kind}: times faster than LangGraph's",
            value=ratio(theirs, mine),
            calm=calm_sum(theirs) / calm_sum(mine),
            bar=3,
            sense="≥",
            judged=not bench.scale.quick,
            sides={OURS: summary(mine), THEIRS: summary(theirs)},
        )
    )


def _asking(peer: Peer, what: str) -> Step:
    return lambda _: peer.ask(what)


def _fresh(bench: Bench, table: Table) -> None:
    """One process for every sample."""
    opening: Samples = {OURS: [], THEIRS: []}

    def step(side: str) -> Step:
        def once(_: int) -> float:
            opened, got = _once(side, table)
            opening[side].append(opened + got)
            return got

        return once

    count = min(bench.scale.repeats, 8 if bench.scale.quick else 30)
    samples = interleave(f"fresh get of {table.kind}", count, {side: step(side) for side in opening})
    what = f"get the newest of {bench.scale.turns} turns, {table.kind}, in a fresh process"
    bench.found(compared(f"{what} ÷ LangGraph's", OURS, THEIRS, samples, bar=1.7, judged=not bench.scale.quick))
    bench.found(compared(f"{what}, opening included ÷ LangGraph's", OURS, THEIRS, opening))


def _once(side: str, table: Table) -> tuple[float, float]:
    peer = Peer(command(side, table.homes[side].url, table.kind, 0))
    opened, got = peer.ask("open"), peer.ask("get")
    peer.close()
    return opened, got
