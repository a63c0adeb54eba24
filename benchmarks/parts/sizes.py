"""Bytes of closed databases."""

from __future__ import annotations

import msgspec

from benchmarks.databases import bytes_of
from benchmarks.report import Figure
from benchmarks.scale import Bench
from benchmarks.stores import fill
from benchmarks.timing import progress
from benchmarks.workload import VARIANTS, Variant, final_state


def run(bench: Bench) -> None:
    """Both kinds of text, two lengths."""
    for at, variant in enumerate(VARIANTS):
        _variant(bench, variant)
        progress("bytes", at + 1, len(VARIANTS))


def _variant(bench: Bench, variant: Variant) -> None:
    count, more, judged = bench.scale.turns, bench.scale.grown, not bench.scale.quick
    short, long = _filled(bench, variant, count), _filled(bench, variant, more)
    encoded = len(msgspec.msgpack.encode(final_state(variant, count)))
    note = f"{short:,} ÷ {encoded:,}"
    name = f"bytes ÷ final encoded state at {count} turns, {variant}"
    bench.found(Figure(name=name, value=short / encoded, bar=2.5, judged=judged, note=note))
    name = f"bytes({more}) ÷ bytes({count}), {variant}"
    bench.found(Figure(name=name, value=long / short, bar=3.3, judged=judged, note=f"{long:,} ÷ {short:,}"))


def _filled(bench: Bench, variant: Variant, count: int) -> int:
    path = bench.path(f"{variant}{count}")
    fill(f"sqlite:///{path}?synchronous=NORMAL", variant, bench.turns(variant)[:count])
    return bytes_of(path)
