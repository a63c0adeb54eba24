"""W through the whole-state door: warm, cold, and the savers of LangGraph and Agentflow, all in one run."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from benchmarks.peers.child import Peer, agentflow_postgres, langgraph_postgres
from benchmarks.postgres import reads
from benchmarks.postgres.lab import Home, Lab, RawInserts
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import ColdSaves, Saves
from benchmarks.timing import Step, calm_sum, interleave, ratio, summary, window
from benchmarks.workload import final_state

PEER, SLOW = "LangGraph put", "Agentflow aput_state"
NO_PEER = "no environment with LangGraph: make .venv-peers/.ready"
_NO_SLOW = "no environment with Agentflow (Python 3.12 or newer: make .venv-peers-312/.ready), or no Redis"
_MARK, _BAR = 300, 2.2  # the bar for whole-state saves is over so many turns
Samples = dict[str, list[float]]


@dataclass(slots=True)
class Table:
    """The sides of W, each with its database."""

    save: Saves
    cold: ColdSaves
    raw: RawInserts
    peers: dict[str, Peer]
    homes: dict[str, Home]

    def steps(self) -> dict[str, Step]:
        """What each side does in a turn."""
        ours: dict[str, Step] = {
            "save": self.save.step,
            "cold save": self.cold.step,
            "raw": lambda _: self.raw.commit(self.save.size),
        }
        return ours | {name: peer.save for name, peer in self.peers.items()}

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()
        for side in (self.save, self.cold, self.raw):
            side.close()


def run(bench: Bench) -> None:
    """Play W on all sides, then look at the turns before each mark, at the bytes, and read everything back."""
    table = _laid(bench)
    samples = _played(bench, table)
    if bench.server.wal_grew():
        bench.note("save: the WAL grew during the run, the figures are a little too high")
    _saves(bench, samples)
    _cold(bench, samples, max(table.cold.home.snapshots(), default=0))
    _against(bench, samples, PEER, bench.scale.turns, NO_PEER, bar=12)
    bench.found(_fewer(bench, table, PEER, NO_PEER, bar=100))
    _against(bench, samples, SLOW, min(bench.scale.slow, bench.scale.turns), _NO_SLOW)
    for home in (table.save.home, *table.homes.values()):
        home.analyze()
    reads.run(bench, table.save.home.url, table.raw, table.peers.get(PEER))
    _bytes(bench, table)
    table.close()


def _laid(bench: Bench) -> Table:
    lab: Lab = bench.server
    turns, count = bench.turns(), bench.scale.turns
    homes = {PEER: lab.home("langgraph"), SLOW: lab.home("agentflow")}
    redis = lab.redis()
    peers = {
        PEER: langgraph_postgres(homes[PEER].url, "words", count),
        SLOW: agentflow_postgres(homes[SLOW].url, redis, "words", count) if redis else None,
    }
    return Table(
        Saves(lab.home("save"), "words", turns),
        ColdSaves(lab.home("cold"), "words", turns),
        RawInserts(lab.home("raw")),
        {name: peer for name, peer in peers.items() if peer is not None},
        homes,
    )


def _played(bench: Bench, table: Table) -> Samples:
    """All sides for as many turns as the slow peer takes part in, then the others alone."""
    both = min(bench.scale.slow, bench.scale.turns)
    steps = table.steps()
    samples = interleave("save", both, steps)
    rest = {name: step for name, step in steps.items() if name != SLOW}
    for name, more in interleave("save", bench.scale.turns, rest, start=both).items():
        samples[name] += more
    return samples


def _at(bench: Bench, samples: Samples, mark: int) -> Samples:
    """The samples of every side just before a mark."""
    return {name: list(window(each, mark, bench.scale.width)) for name, each in samples.items()}


def _saves(bench: Bench, samples: Samples) -> None:
    over = min(_MARK, bench.scale.turns)
    here = {name: each[:over] for name, each in samples.items()}
    name = f"whole-state save over {over} turns ÷ raw INSERT, peers in between"
    bench.found(compared(name, "save", "raw", here, bar=_BAR, judged=over == _MARK))
    for mark in bench.scale.marks:
        name = f"whole-state save ÷ raw INSERT at {mark} turns"
        bench.found(compared(name, "save", "raw", _at(bench, samples, mark)))


def _cold(bench: Bench, samples: Samples, newest_snapshot: int) -> None:
    for mark in (bench.scale.marks[0], bench.scale.turns):
        name = f"cold save ÷ LangGraph's put at {mark} turns"
        if PEER not in samples:
            bench.found(Figure(name=name, value=None, note=NO_PEER))
            continue
        is_last, here = mark == bench.scale.turns, _at(bench, samples, mark)
        note = f"{mark - newest_snapshot} entries after the newest snapshot" if is_last else ""
        bar, judged = 1.0 if is_last else None, not bench.scale.quick
        bench.found(compared(name, "cold save", PEER, here, bar=bar, judged=judged, note=note, beside=["raw"]))


def _against(bench: Bench, samples: Samples, peer: str, count: int, missing: str, bar: float | None = None) -> None:
    whose = "LangGraph's PostgresSaver" if peer == PEER else "Agentflow's PgCheckpointer"
    name = f"W of {count} turns: times faster than {whose}"
    if peer not in samples:
        bench.found(Figure(name=name, value=None, note=missing))
        return
    mine, theirs = samples["save"][:count], samples[peer][:count]
    bench.found(
        Figure(
            name=name,
            value=sum(theirs) / sum(mine),
            calm=calm_sum(theirs) / calm_sum(mine),
            bar=bar,
            sense="≥",
            judged=not bench.scale.quick,
            note=f"the sum of all saves; medians {ratio(theirs, mine):.2f}×",
            sides={"save": summary(mine), peer: summary(theirs)},
        )
    )


def _fewer(bench: Bench, table: Table, peer: str, missing: str, bar: float) -> Figure:
    name = f"W of {bench.scale.turns} turns: times fewer bytes than LangGraph's PostgresSaver"
    if peer not in table.peers:
        return Figure(name=name, value=None, note=missing)
    mine, theirs = table.save.home.bytes(), table.homes[peer].bytes()
    note = f"{mine / 1e6:.2f} MB beside {theirs / 1e6:.2f} MB"
    return Figure(name=name, value=theirs / mine, bar=bar, sense="≥", judged=not bench.scale.quick, note=note)


def _bytes(bench: Bench, table: Table) -> None:
    home, count = table.save.home, bench.scale.turns
    size, encoded = home.bytes(), len(msgspec.msgpack.encode(final_state("words", count)))
    note = f"{size:,} ÷ {encoded:,}"
    bench.found(Figure(name=f"bytes ÷ final encoded state at {count} turns", value=size / encoded, note=note))
    bench.found(Figure(name="bytes per entry, everything counted", value=size / home.entries(), unit="bytes"))
    _slow_bytes(bench, table)
    small = home.vacuumed()
    name = f"bytes ÷ final encoded state at {count} turns, after VACUUM FULL"
    bench.found(Figure(name=name, value=small / encoded, note=f"{small:,} ÷ {encoded:,}"))


def _slow_bytes(bench: Bench, table: Table) -> None:
    if SLOW in table.peers:
        count, theirs = min(bench.scale.slow, bench.scale.turns), table.homes[SLOW].bytes()
        left = table.homes[SLOW].vacuumed()
        note = f"{left / 1e6:.2f} MB after VACUUM FULL: the newest 20 states"
        bench.found(Figure(name=f"Agentflow's bytes after {count} turns", value=theirs / 1e6, unit="MB", note=note))
