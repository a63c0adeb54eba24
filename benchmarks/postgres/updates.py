"""`update` beside a raw INSERT of the same size."""

from __future__ import annotations

from benchmarks.postgres.lab import Lab, RawInserts
from benchmarks.report import compared
from benchmarks.scale import Bench
from benchmarks.stores import MarkedUpdates, Updates
from benchmarks.timing import interleave


def run(bench: Bench) -> None:
    """Three sides take turns: raw, `update`, `update` with a checkpoint each."""
    lab: Lab = bench.server
    plain = Updates(lab.home("update"), "words", bench.turns())
    marked = MarkedUpdates(lab.home("marked"), "words", bench.turns())
    raw = RawInserts(lab.home("raw"))
    sides = {"raw": lambda _: raw.commit(plain.size), "update": plain.step, "update+checkpoint": marked.step}
    samples = interleave("update", bench.scale.updates, sides)
    for side in (raw, plain, marked):
        side.close()
    turns = f"{bench.scale.updates} turns"
    bench.found(compared(f"`update` ÷ raw INSERT, {turns}", "update", "raw", samples, bar=1.6))
    name = f"`update` with a checkpoint each ÷ raw INSERT, {turns}"
    bench.found(compared(name, "update+checkpoint", "raw", samples))
