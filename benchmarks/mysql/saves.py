"""`update` and whole-state saves beside a raw INSERT of the same size."""

from __future__ import annotations

from benchmarks.mysql.lab import Lab, RawInserts
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import MarkedUpdates, Saves, Side, Updates, open_store
from benchmarks.timing import interleave
from perdure.errors import PerdureError

Samples = dict[str, list[float]]


def run_updates(bench: Bench) -> None:
    """Three sides take turns: raw, `update`, `update` with a checkpoint each."""
    turns = f"{bench.scale.updates} turns"
    names = {"update": f"`update` ÷ raw INSERT, {turns}"}
    names["update+checkpoint"] = f"`update` with a checkpoint each ÷ raw INSERT, {turns}"
    samples = _played(bench, bench.scale.updates, {"update": Updates, "update+checkpoint": MarkedUpdates}, names)
    if samples:
        bench.found(compared(names["update"], "update", "raw", samples, bar=2.2))
        bench.found(compared(names["update+checkpoint"], "update+checkpoint", "raw", samples))


def run_saves(bench: Bench) -> None:
    """The whole state, turn after turn."""
    names = {"save": f"whole-state save over {bench.scale.turns} turns ÷ raw INSERT"}
    samples = _played(bench, bench.scale.turns, {"save": Saves}, names)
    if samples:
        bench.found(compared(names["save"], "save", "raw", samples))


def unusable(lab: Lab) -> str:
    """Why Perdure cannot be measured on MariaDB; empty when it can."""
    home = lab.home("probe")
    try:
        open_store(home.url).close()
        return "" if home.is_used() else "perdure.sync.Perdure.open('mysql://…') made no tables in MariaDB"
    except (PerdureError, ImportError, NotImplementedError) as exc:
        return f"perdure.sync.Perdure.open('mysql://…') does not work: {type(exc).__name__}"
    finally:
        home.close()


def _played(bench: Bench, count: int, kinds: dict[str, type[Side]], names: dict[str, str]) -> Samples | None:
    """The samples of all sides; None when Perdure cannot be opened there, which is said."""
    lab: Lab = bench.server
    reason = unusable(lab)
    if reason:
        for name in names.values():
            bench.found(Figure(name=name, value=None, note=reason))
        return None
    sides = {name: kind(lab.home("side"), "words", bench.turns()) for name, kind in kinds.items()}
    raw, first = RawInserts(lab.home("raw")), next(iter(sides.values()))
    steps = {name: side.step for name, side in sides.items()}
    samples = interleave("/".join(kinds), count, {"raw": lambda _: raw.commit(first.size), **steps})
    for side in (raw, *sides.values()):
        side.close()
    return samples
