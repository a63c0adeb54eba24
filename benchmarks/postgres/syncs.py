"""How many times a save waits for the disk, as the server counts them, in a separate short run of each side."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.child import LANGGRAPH_POSTGRES, is_installed, langgraph_postgres
from benchmarks.postgres.lab import Home, Lab, RawInserts
from benchmarks.postgres.whole import PEER
from benchmarks.scale import Bench
from benchmarks.stores import MarkedUpdates, Saves, Side, Updates
from benchmarks.timing import progress
from benchmarks.workload import Turn

_WARM = 10  # saves before the counted ones: opening, set-up and the first write are not a save
_SIDES: dict[str, type[Side]] = {"update": Updates, "update+checkpoint": MarkedUpdates, "save": Saves}
Player = Callable[[Home, int], None]  # play so many turns in a database of one's own, and let go of it


def per_save(bench: Bench) -> dict[str, float]:
    """Syncs per save by side: those of a longer run without those of a shorter one."""
    lab: Lab = bench.server
    counts: dict[str, float] = {}
    players = _players(bench)
    for at, (name, play) in enumerate(players.items()):
        short, long = (counted(lab, play, count) for count in (_WARM, _WARM + bench.scale.traced))
        counts[name] = (long - short) / bench.scale.traced
        progress("fsyncs", at + 1, len(players))
    return counts


def counted(lab: Lab, play: Player, count: int) -> int:
    """Connections tell the server what they did when they end, hence a database and connections for each count."""
    home = lab.home("syncs")
    before = lab.syncs()
    play(home, count)
    home.close()
    lab.settle(home)
    return lab.syncs() - before


def _players(bench: Bench) -> dict[str, Player]:
    turns = bench.turns()
    players: dict[str, Player] = {"raw": _play_raw}
    players |= {name: _player(side, turns) for name, side in _SIDES.items()}
    return players | ({PEER: _play_peer} if is_installed(LANGGRAPH_POSTGRES) else {})


def _play_raw(home: Home, count: int) -> None:
    raw = RawInserts(home)
    for _ in range(count):
        raw.commit(2048)
    raw.close()


def _player(kind: type[Side], turns: list[Turn]) -> Player:
    def play(home: Home, count: int) -> None:
        side = kind(home, "words", turns)
        for at in range(count):
            side.step(at)
        side.close()

    return play


def _play_peer(home: Home, count: int) -> None:
    peer = langgraph_postgres(home.url, "words", count)
    assert peer is not None
    for at in range(count):
        peer.save(at)
    peer.close()
