"""How long a run is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import Figure
from benchmarks.workload import Turn, Variant, turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Counts of one run."""

    quick: bool
    updates: int
    marks: tuple[int, ...]  # turns at which whole-state saves are looked at; the last is the length of the run
    width: int  # samples looked at before a mark
    grown: int  # the length of the second size, three times the first in a full run
    repeats: int  # samples of restore, list and start-up
    rounds: int  # rounds of the asynchronous clients
    each: int  # updates of one client in a round
    traced: int  # saves whose syncs are counted
    slow: int = 300  # turns of a peer that is slow
    lengths: tuple[int, ...] = (10, 100, 1000)  # messages of the threads that the hot layer is read with
    messages: int = 100_000  # that are searched
    steps: int = 300  # of a run beside DBOS
    recorded: int = 1000  # steps of a run that is resumed
    interrupted: int = 100  # runs
    waiting: int = 1000  # runs
    threads: int = 10_000  # of a folder of files
    entries: int = 100_000  # of one log in it
    wal_megabytes: int = 0  # of WAL that a server has before the first turn

    @property
    def turns(self) -> int:
        return self.marks[-1]


FULL = Scale(
    quick=False, updates=3000, marks=(100, 300, 1000), width=60, grown=3000, repeats=60, rounds=40, each=4, traced=100
)
QUICK = Scale(
    quick=True, updates=300, marks=(100, 300), width=40, grown=600, repeats=30, rounds=30, each=2, traced=20,
    messages=5_000, threads=1000, entries=10_000, steps=100, recorded=200, interrupted=20, waiting=50,
)  # fmt: skip


@dataclass(slots=True)
class Bench:
    """One run: its length, a folder for databases, and what it finds."""

    scale: Scale
    folder: Path
    found: Callable[[Figure], None]
    note: Callable[[str], None]
    server: Any = None  # the running server, where the backend needs one
    fsyncs: dict[str, float] = field(default_factory=dict)  # per save, of parts that count them themselves
    _turns: dict[Variant, list[Turn]] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """A place for a database that no other part uses."""
        return str(Path(tempfile.mkdtemp(dir=self.folder)) / f"{name}.db")

    def turns(self, variant: Variant = "words") -> list[Turn]:
        """The turns of W, made once."""
        if variant not in self._turns:
            self._turns[variant] = turns(variant, max(self.scale.updates, self.scale.grown))
        return self._turns[variant]
