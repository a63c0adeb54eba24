"""Eight writers at once through both savers, each with a thread of its own."""

from __future__ import annotations

import random

from benchmarks.peers.child import Peer
from benchmarks.postgres.lab import Lab
from benchmarks.report import Figure
from benchmarks.savers.children import OURS, THEIRS, started
from benchmarks.scale import Bench
from benchmarks.timing import progress, summary

WRITERS = 8
_BAR = 4


def run(bench: Bench) -> None:
    """Threads, then tasks."""
    lab: Lab = bench.server
    for kind in ("threads", "tasks"):
        turns = bench.scale.rounds * bench.scale.each
        peers = {side: started(side, lab.home(f"{side}_{kind}").url, "dicts", turns) for side in (OURS, THEIRS)}
        bench.found(_compared(bench, kind, _rounds(bench, kind, peers)))
        for peer in peers.values():
            peer.close()


def _rounds(bench: Bench, kind: str, peers: dict[str, Peer]) -> dict[str, list[float]]:
    """All writers of one side put so many turns at once, then those of the other."""
    rng, each = random.Random(WRITERS), bench.scale.each
    samples: dict[str, list[float]] = {side: [] for side in peers}
    for at in range(bench.scale.rounds):
        for side in rng.sample(list(peers), len(peers)):
            samples[side].append(peers[side].ask(f"{kind} {at * each} {(at + 1) * each}"))
        progress(f"{WRITERS} {kind}", at + 1, bench.scale.rounds)
    return samples


def _compared(bench: Bench, kind: str, samples: dict[str, list[float]]) -> Figure:
    mine, theirs = samples[OURS], samples[THEIRS]
    puts = WRITERS * bench.scale.each
    total = puts * bench.scale.rounds
    saver = "PostgresSaver" if kind == "threads" else "AsyncPostgresSaver"
    return Figure(
        name=f"{WRITERS} writers ({kind} of one saver): puts/s ÷ LangGraph's {saver} on a pool of {WRITERS}",
        value=sum(theirs) / sum(mine),
        bar=_BAR,
        sense="≥",
        judged=not bench.scale.quick,
        note=f"{total // WRITERS} turns each; {total / sum(mine):.0f} puts/s beside {total / sum(theirs):.0f}",
        sides={side: summary([seconds / puts for seconds in samples[side]]) for side in samples},
    )
