"""Whole-state saves: warm, frozen, cold, and LangGraph's put, all in one run."""

from __future__ import annotations

from typing import Any

from benchmarks.databases import OurDatabase, RawCommits, bytes_of
from benchmarks.peers.child import Peer, langgraph
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import ColdSaves, MessageSaves, NestedSaves, Saves
from benchmarks.timing import calm_sum, interleave, ratio, summary, window

_PEER = "LangGraph put"
_BARS = {100: 1.8, 300: 2.6, 1000: 5.0}
_NO_PEER = "no environment with LangGraph: make .venv-peers/.ready"
Samples = dict[str, list[float]]


def run(bench: Bench) -> None:
    """Play W on all sides, then look at the turns before each mark."""
    sides = _sides(bench)
    steps = {name: side.save if isinstance(side, Peer) else side.step for name, side in sides.items()}
    raw = RawCommits(bench.path("raw"))
    steps["raw"] = lambda _: raw.commit(sides["save"].size)
    samples = interleave("save", bench.scale.turns, steps)
    _check_wal(bench, {**sides, "raw": raw})
    raw.close()
    _saves(bench, samples)
    _cold(bench, samples, sides["cold save"].home.snapshots())
    _against_peer(bench, samples, _closed(sides))


def _sides(bench: Bench) -> dict[str, Any]:
    turns, count = bench.turns(), bench.scale.turns
    sides: dict[str, Any] = {
        "save": Saves(OurDatabase(bench.path("save")), "words", turns),
        "save nested": NestedSaves(OurDatabase(bench.path("nested")), "words", turns),
        "save Message": MessageSaves(OurDatabase(bench.path("message")), "words", turns),
        "cold save": ColdSaves(OurDatabase(bench.path("cold")), "words", turns),
    }
    peer = langgraph(bench.path("langgraph"), "words", count)
    return sides if peer is None else sides | {_PEER: peer}


def _check_wal(bench: Bench, sides: dict[str, Any]) -> None:
    for name, side in sides.items():
        if (side if isinstance(side, Peer) else side.home).wal_grew():
            bench.note(f"save: the WAL of {name} grew during the run, its figure is too high")


def _closed(sides: dict[str, Any]) -> dict[str, int]:
    """Close every side and return the bytes of its database."""
    sizes: dict[str, int] = {}
    for name, side in sides.items():
        answer = side.close()
        sizes[name] = answer if isinstance(side, Peer) else bytes_of(side.home.path)
    return sizes


def _at(bench: Bench, samples: Samples, mark: int) -> Samples:
    """The samples of every side just before a mark."""
    return {name: list(window(each, mark, bench.scale.width)) for name, each in samples.items()}


def _saves(bench: Bench, samples: Samples) -> None:
    for mark in bench.scale.marks:
        name = f"whole-state save ÷ raw commit at {mark} turns"
        bench.found(compared(name, "save", "raw", _at(bench, samples, mark), bar=_BARS.get(mark)))
    last, judged = bench.scale.turns, not bench.scale.quick
    here = _at(bench, samples, last)
    name = f"whole-state save with `Message` ÷ raw commit at {last} turns"
    bench.found(compared(name, "save Message", "raw", here, bar=2.0, judged=judged))
    name = f"whole-state save, a dict inside each message ÷ raw commit at {last} turns"
    bench.found(compared(name, "save nested", "raw", here))


def _cold(bench: Bench, samples: Samples, snapshots: list[int]) -> None:
    for mark in (bench.scale.marks[0], bench.scale.turns):
        name = f"cold save ÷ LangGraph's put at {mark} turns"
        if _PEER not in samples:
            bench.found(Figure(name=name, value=None, note=_NO_PEER))
            continue
        bar = 1.0 if mark == bench.scale.turns else None
        here = _at(bench, samples, mark)
        note = f"{mark - max((at for at in snapshots if at <= mark), default=0)} entries after the newest snapshot"
        bench.found(compared(name, "cold save", _PEER, here, bar=bar, judged=not bench.scale.quick, note=note))


def _against_peer(bench: Bench, samples: Samples, sizes: dict[str, int]) -> None:
    count, judged = bench.scale.turns, not bench.scale.quick
    faster, fewer = f"W of {count} turns: times faster than LangGraph's SqliteSaver", "… times fewer bytes"
    if _PEER not in samples:
        bench.found(Figure(name=faster, value=None, note=_NO_PEER))
        bench.found(Figure(name=fewer, value=None, note=_NO_PEER))
        return
    mine, theirs = samples["save"], samples[_PEER]
    sides = {"save": summary(mine), _PEER: summary(theirs)}
    whole = f"the sum of all saves; medians {ratio(theirs, mine):.2f}×"
    value, calm = sum(theirs) / sum(mine), calm_sum(theirs) / calm_sum(mine)
    bench.found(Figure(name=faster, value=value, calm=calm, bar=3.5, sense="≥", judged=judged, note=whole, sides=sides))
    note = f"{_megabytes(sizes['save'])} beside {_megabytes(sizes[_PEER])}"
    value = sizes[_PEER] / sizes["save"]
    bench.found(Figure(name=fewer, value=value, bar=150, sense="≥", judged=judged, note=note))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"
