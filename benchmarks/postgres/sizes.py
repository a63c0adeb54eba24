"""Bytes of W with text that does not compress: PostgreSQL compresses what others write whole."""

from __future__ import annotations

from benchmarks.peers.child import langgraph_postgres
from benchmarks.postgres.lab import Lab
from benchmarks.postgres.whole import NO_PEER
from benchmarks.report import Figure
from benchmarks.scale import Bench
from benchmarks.stores import fill
from benchmarks.timing import progress


def run(bench: Bench) -> None:
    """The same as in W, but for the text; nothing is timed."""
    lab: Lab = bench.server
    count, mine, theirs = bench.scale.turns, lab.home("ours"), lab.home("langgraph")
    name = f"W of {count} turns, random text: times fewer bytes than LangGraph's PostgresSaver"
    peer = langgraph_postgres(theirs.url, "random", count)
    if peer is None:
        bench.found(Figure(name=name, value=None, note=NO_PEER))
        return
    fill(mine.url, "random", bench.turns("random")[:count])
    for at in range(count):
        peer.save(at)
        progress("bytes", at + 1, count)
    peer.close()
    one, other = mine.bytes(), theirs.bytes()
    note = f"{one / 1e6:.2f} MB beside {other / 1e6:.2f} MB"
    bench.found(Figure(name=name, value=other / one, bar=100, sense="≥", judged=not bench.scale.quick, note=note))
