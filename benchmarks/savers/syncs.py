"""How many times a put waits for the disk, in a separate short run of each saver."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import fsyncs
from benchmarks.databases import Database
from benchmarks.peers.child import Peer
from benchmarks.postgres.lab import Home
from benchmarks.postgres.syncs import counted
from benchmarks.savers.children import OURS, THEIRS, command, started
from benchmarks.scale import Bench

_WARM = 10  # puts before the counted ones


def per_put(bench: Bench) -> dict[str, float]:
    """Syncs per put by side; empty when strace cannot show them."""
    puts = bench.scale.traced
    if bench.server is not None:
        return {side: _on_postgres(bench, side, puts) for side in (OURS, THEIRS)}
    return {side: _on_sqlite(side, puts) for side in (OURS, THEIRS)} if fsyncs.can_trace() else {}


def _on_postgres(bench: Bench, side: str, puts: int) -> float:
    def play(home: Home, count: int) -> None:
        peer = started(side, home.url, "dicts", count)
        for at in range(count):
            peer.save(at)
        peer.close()

    short, long = (counted(bench.server, play, count) for count in (_WARM, _WARM + puts))
    return (long - short) / puts


def _on_sqlite(side: str, puts: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out, home = Path(folder) / "syncs", Database(str(Path(folder) / "traced.db"))
        peer = Peer([*fsyncs.trace(str(out)), *command(side, home.url, "dicts", _WARM + puts)])
        peer.ask("open")
        fsyncs.play_peer(peer, puts)
        home.close()
        return fsyncs.between_marks(out.read_text().splitlines()) / puts
