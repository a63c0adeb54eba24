"""How many times a save waits for the disk, as the server counts them, in a separate short run of each side."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.mysql.lab import Lab, RawInserts
from benchmarks.mysql.saves import unusable
from benchmarks.scale import Bench
from benchmarks.stores import Saves, Side, Updates

_WARM = 10  # saves before the counted ones: opening, set-up and the first write are not a save
_SIDES: dict[str, type[Side]] = {"update": Updates, "save": Saves}


def per_save(bench: Bench) -> dict[str, float]:
    """Syncs per save by side."""
    lab: Lab = bench.server
    raw = RawInserts(lab.home("raw"))
    counts = {"raw": _counted(lab, bench.scale.traced, lambda _: raw.commit(2048))}
    raw.close()
    sides = {} if unusable(lab) else _SIDES
    for name, kind in sides.items():
        side = kind(lab.home("syncs"), "words", bench.turns())
        counts[name] = _counted(lab, bench.scale.traced, side.step)
        side.close()
    return counts


def _counted(lab: Lab, count: int, step: Callable[[int], float]) -> float:
    for at in range(_WARM):
        step(at)
    before = lab.syncs()
    for at in range(_WARM, _WARM + count):
        step(at)
    return (lab.syncs() - before) / count
