"""Kill a writing process again and again, and look what is left.

    python -m tests.crash.campaign --kills 1000 [--backend sqlite|file] [--seed N]

Each child is forked from this process, which has imported everything and opened nothing. A third of the kills come
after a random delay, a third when the child is seen inside a transaction, a third at a random mark of the child.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.child import become
from tests.crash.marks import PHASES, Page
from tests.crash.verify import Verdict, verify
from tests.crash.workload import Model, Op, plan

OPS = 14
KILLS_PER_PLACE = 20
PATIENCE = 30.0  # seconds after which a child that does nothing is a finding
MANNERS = ("delay", "watch", "mark")


@dataclass
class Tally:
    """The figures of a campaign."""

    kills: int = 0
    inside: int = 0
    acknowledged: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    manners: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0


@dataclass
class Place:
    """One storage that children work on in turn."""

    url: str
    folder: Path
    model: Model = field(default_factory=Model)
    kills: int = 0


class Campaign:
    """Kills children of one backend."""

    def __init__(self, backend: str, seed: int) -> None:
        self._backend = backend
        self._rng = random.Random(f"{backend} {seed}")
        self._page = Page()
        self._marks, self._seconds = 300, 0.2  # what a child takes when it is left alone, as last seen
        self._root = Path(tempfile.mkdtemp(prefix="perdure-crash-"))
        self._place = self._fresh()
        self.tally = Tally()

    def run(self, kills: int) -> Tally:
        begun = time.monotonic()
        self._rehearse()
        while self.tally.kills < kills:
            if self._place.kills >= KILLS_PER_PLACE or (self._place.kills and self._rng.random() < 0.06):
                self._retire()
            self._kill_one()
        self._retire()
        shutil.rmtree(self._root, ignore_errors=True)
        self.tally.seconds = time.monotonic() - begun
        return self.tally

    def _fresh(self) -> Place:
        folder = Path(tempfile.mkdtemp(dir=self._root))
        url = f"sqlite:///{folder}/agents.db" if self._backend == "sqlite" else f"file:{folder}/place"
        return Place(url, folder)

    def _retire(self) -> None:
        """Look at every version once more, cold, and begin anew."""
        self.tally.verdict.add(verify(self._place.url, self._place.model, ()))
        shutil.rmtree(self._place.folder, ignore_errors=True)
        self._place = self._fresh()

    def _rehearse(self) -> None:
        """One child that is left alone until it is done, to know how long that takes."""
        ops = plan(self._place.model, self._rng, OPS)
        self._read(self._child(self._place, ops, "never"), ops)
        self._retire()

    def _kill_one(self) -> None:
        place, rng = self._place, self._rng
        ops = plan(place.model, rng, OPS)
        manner = "mark" if not place.kills else rng.choice(MANNERS)
        report = self._child(place, ops, manner)
        flying = self._read(report, ops)
        self._count(manner)
        verdict = verify(place.url, place.model, flying, [rng.randrange(1000) for _ in range(2)])
        verdict.words = [f"kill {self.tally.kills} ({manner}): {words}" for words in verdict.words]
        self.tally.verdict.add(verdict)
        place.kills += 1

    def _child(self, place: Place, ops: list[Op], manner: str) -> str:
        """Fork, let it work, kill it; return what it reported."""
        rng = self._rng
        early = not place.kills
        self._page.clear(rng.randint(1, 60 if early else self._marks) if manner == "mark" else 0)
        reading, writing = os.pipe()
        mode = rng.choice(("sync", "async"))
        pid = os.fork()
        if not pid:
            os.close(reading)
            become(place.url, mode, ops, place.model, self._page, writing)
        os.close(writing)
        self._wait(manner, pid)
        with os.fdopen(reading, "rb") as pipe:
            return pipe.read().decode()

    def _wait(self, manner: str, pid: int) -> None:
        """Wait for the moment, and kill."""
        begun = time.monotonic()
        wanted = self._rng.randint(1, self._marks)
        moment = begun + self._rng.uniform(0, 1.05 * self._seconds)
        extra = self._rng.uniform(0, 0.0008)
        phase = self._rng.choice(("", "", "snapshot", "blob"))
        while not self._is_due(manner, wanted, moment, phase):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            if time.monotonic() - begun > PATIENCE:
                self.tally.verdict.wrong("half", f"kill {self.tally.kills + 1}: the child hangs in {self._page.phase}")
                break
        if manner == "watch":
            _spin(extra)
        if self._page.done:
            self._marks, self._seconds = max(self._page.count, 20), time.monotonic() - begun
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def _is_due(self, manner: str, wanted: int, moment: float, phase: str) -> bool:
        if self._page.done:
            return True
        if manner == "delay":
            time.sleep(max(0.0, min(0.0002, moment - time.monotonic())))
            return time.monotonic() >= moment
        if manner == "watch":
            return self._page.inside and (self._page.phase == phase if phase else self._page.count >= wanted)
        time.sleep(0.0005)
        return False

    def _read(self, report: str, ops: list[Op]) -> list[Op]:
        """Take over what was acknowledged, and return what had begun and was not."""
        known = {op.number: op for op in ops}
        flying: dict[int, Op] = {}
        for line in report.splitlines():
            word, _, rest = line.partition(" ")
            if word == "x":
                self.tally.verdict.wrong("half", f"kill {self.tally.kills + 1}: the child failed: {rest}")
                continue
            number, _, point = rest.partition(" ")
            if word == "b":
                flying[int(number)] = known[int(number)]
            else:
                self._place.model.accept(flying.pop(int(number)), point)
                self.tally.acknowledged += 1
        return list(flying.values())

    def _count(self, manner: str) -> None:
        self.tally.kills += 1
        self.tally.manners[manner] += 1
        self.tally.phases[self._page.phase] += 1
        self.tally.inside += self._page.inside


def _spin(seconds: float) -> None:
    """Wait more exactly than sleeping does."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def table(tallies: dict[str, Tally]) -> str:
    """The figures of all backends, side by side."""
    rows: list[tuple[str, list[object]]] = [("kills", [tally.kills for tally in tallies.values()])]
    for phase in PHASES:
        rows.append((f"  during {phase}", [tally.phases[phase] for tally in tallies.values()]))
    for manner in MANNERS:
        rows.append((f"  by {manner}", [tally.manners[manner] for tally in tallies.values()]))
    shares = [f"{tally.inside} ({tally.inside / max(tally.kills, 1):.0%})" for tally in tallies.values()]
    rows.append(("inside a transaction", list(shares)))
    rows.append(("acknowledged operations", [tally.acknowledged for tally in tallies.values()]))
    for name, words in _FIGURES.items():
        rows.append((words, [getattr(tally.verdict, name) for tally in tallies.values()]))
    rows.append(("took (s)", [f"{tally.seconds:.1f}" for tally in tallies.values()]))
    head = ("", list(tallies))
    return "\n".join(f"{name:<28}" + "".join(f"{value!s:>14}" for value in values) for name, values in (head, *rows))


_FIGURES = {
    "landed": "in flight, found whole",
    "absent": "in flight, not there",
    "lost": "acknowledged lost",
    "half": "half-written",
    "duplicates": "duplicates",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--backend", choices=("sqlite", "file"), action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    tallies = {name: Campaign(name, asked.seed).run(asked.kills) for name in asked.backend or ("sqlite", "file")}
    print(table(tallies))
    words = [f"{name}: {each}" for name, tally in tallies.items() for each in tally.verdict.words]
    print("\n".join(words[:40]))
    few = [name for name, tally in tallies.items() if tally.kills >= 100 and tally.inside < 0.3 * tally.kills]
    print("".join(f"{name}: fewer than 30 % of the kills were inside a transaction\n" for name in few), end="")
    return 1 if words or few else 0


if __name__ == "__main__":
    sys.exit(main())
