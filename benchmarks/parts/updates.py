"""`update` beside a raw commit of the same size."""

from __future__ import annotations

from benchmarks.databases import OurDatabase, RawCommits
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import MarkedUpdates, Updates
from benchmarks.timing import interleave, ratio, summary

_EDGE = 100
Samples = dict[str, list[float]]


def run(bench: Bench) -> None:
    """Three sides take turns: raw, `update`, `update` with a checkpoint each."""
    samples = _played(bench)
    turns = f"{bench.scale.updates} turns"
    bench.found(compared(f"`update` ÷ raw commit, {turns}", "update", "raw", samples, bar=1.35))
    name = f"`update` with a checkpoint each ÷ raw commit, {turns}"
    bench.found(compared(name, "update+checkpoint", "raw", samples, bar=1.6))
    bench.found(_growth(samples, bench))


def _played(bench: Bench) -> Samples:
    turns = bench.turns()
    plain = Updates(OurDatabase(bench.path("update")), "words", turns)
    marked = MarkedUpdates(OurDatabase(bench.path("marked")), "words", turns)
    raw = RawCommits(bench.path("raw"))
    sides = {"raw": lambda _: raw.commit(plain.size), "update": plain.step, "update+checkpoint": marked.step}
    samples = interleave("update", bench.scale.updates, sides)
    for name, side in {"raw": raw, "update": plain, "update+checkpoint": marked}.items():
        if side.home.wal_grew():
            bench.note(f"update: the WAL of {name} grew during the run, its figure is too high")
        side.close()
    return samples


def _growth(samples: Samples, bench: Bench) -> Figure:
    """The drift of the machine during the run is divided out: raw commits do not grow."""
    mine, raw = samples["update"], samples["raw"]
    plain, drift = ratio(mine[-_EDGE:], mine[:_EDGE]), ratio(raw[-_EDGE:], raw[:_EDGE])
    first, last = summary(mine[:_EDGE]), summary(mine[-_EDGE:])
    return Figure(
        name=f"`update`: last {_EDGE} ÷ first {_EDGE} of {len(mine)}",
        value=plain / drift,
        bar=1.2,
        judged=not bench.scale.quick,
        note=f"{plain:.2f} before dividing by the raw commit's own {drift:.2f}",
        calm=last.p10 / first.p10 / summary(raw[-_EDGE:]).p10 * summary(raw[:_EDGE]).p10,
        sides={"first": first, "last": last},
    )
