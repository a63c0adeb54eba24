"""`update`, and whole-state saves with nobody else in between, beside a raw INSERT of the same size."""

from __future__ import annotations

from benchmarks.postgres.lab import Lab, RawInserts
from benchmarks.report import compared
from benchmarks.scale import Bench
from benchmarks.stores import MarkedUpdates, Saves, Updates
from benchmarks.timing import interleave

_OVER = 300  # turns


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
    _saves_alone(bench)


def _saves_alone(bench: Bench) -> None:
    """The figure of `whole`, which is the one that is judged, without tens of milliseconds of other work in between."""
    lab: Lab = bench.server
    over = min(_OVER, bench.scale.turns)
    save, raw = Saves(lab.home("alone"), "words", bench.turns()), RawInserts(lab.home("raw"))
    samples = interleave("save alone", over, {"raw": lambda _: raw.commit(save.size), "save": save.step})
    for side in (raw, save):
        side.close()
    name = f"whole-state save over {over} turns ÷ raw INSERT, these two alone"
    bench.found(compared(name, "save", "raw", samples))
