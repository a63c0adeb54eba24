"""Load, change, save: what most programs do, beside LangGraph's get and put of the same messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.databases import Database, OurDatabase
from benchmarks.peers.child import ROOT, Peer
from benchmarks.report import Figure, compared
from benchmarks.savers.children import NO_PEER, OURS, THEIRS, is_ready, python
from benchmarks.scale import Bench
from benchmarks.timing import Step, interleave

COUNTS = (10, 50, 200, 1000)
_BARS = {"growing": (1.2, 1.5, 2, 3), "windowed": (1.0, 1.2, 1.5, 2)}
_IN_TURN = {50: 2.5, 300: 5.0, 1000: 8.0}
Urls = Callable[[str], str]


def run(bench: Bench) -> None:
    """On SQLite: with a store that stays open, and from open to close."""

    def urls(side: str) -> str:
        home = (OurDatabase if side == OURS else Database)(bench.path(side))
        homes.append(home)
        return home.url

    homes: list[Database] = []
    counts = COUNTS[:2] if bench.scale.quick else COUNTS
    for shape, bars in _BARS.items():
        for kind in ("dicts", "messages"):
            for count, bar in zip(counts, bars, strict=False):
                what = f"load and save, {shape} at {count} {kind}"
                compare(bench, what, urls, count, shape, kind, bar=bar)
    compare(bench, f"open, load, save, close at {counts[-1]} dicts", urls, counts[-1], "growing", "dicts",
              bar=1.5, command="request")  # fmt: skip
    for home in homes:
        home.close()


def in_turn(bench: Bench) -> None:
    """On PostgreSQL: two processes of each side, one after the other, so that each finds what the other wrote."""
    for count, bar in list(_IN_TURN.items())[: 1 if bench.scale.quick else None]:
        what = f"load and save by two processes in turn, growing at {count} dicts"
        homes = {side: bench.server.home(side) for side in (OURS, THEIRS)}
        compare(bench, what, lambda side, homes=homes: homes[side].url, count, "growing", "dicts", bar=bar, hands=2)


def compare(
    bench: Bench, what: str, urls: Urls, count: int, shape: str, kind: str, *, bar: float, command: str = "turn",
    hands: int = 1,
) -> None:  # fmt: skip
    """One row: both sides take turns, with as many processes (`hands`) each."""
    what = f"{what}: times faster than LangGraph's get and put"
    if not is_ready():
        bench.found(Figure(name=what, value=None, note=NO_PEER))
        return
    with ExitStack() as ending:
        sides: dict[str, Step] = {}
        for side in (OURS, THEIRS):
            url = urls(side)
            peers = [_started(side, url, count, shape, kind) for _ in range(hands)]
            for peer in peers:
                ending.callback(peer.close)
            sides[side] = _turns(peers, count, command)
        samples = interleave(what, bench.scale.repeats, sides)
    bench.found(compared(what, THEIRS, OURS, samples, bar=bar, sense="≥", judged=not bench.scale.quick))


def _started(side: str, url: str, count: int, shape: str, kind: str) -> Peer:
    module = "benchmarks.peers.requests"
    compiled = ["env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPATH={ROOT}"]
    peer = Peer([*compiled, str(python()), "-m", module, side, url, str(count), shape, kind])
    peer.ask("open")
    return peer


def _turns(peers: Sequence[Peer], count: int, command: str) -> Step:
    """Turns of a thread that has about `count` messages: after a while of growing another one begins."""
    stretch = max(6, count // 4)

    def turn(at: int) -> float:
        if at % stretch == 0:
            peers[0].ask(f"seed {at // stretch}")
            for peer in peers:  # one that is not counted: code is warm, and a second process knows the thread
                peer.ask(f"turn {at // stretch}")
        return peers[at % len(peers)].ask(f"{command} {at // stretch}")

    return turn
