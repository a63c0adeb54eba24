"""Crash the server under writers again and again, and look what is left.

    python -m tests.crash.outage_campaign --backend postgres|mysql [--crashes 100] [--seed N] [--patient]

Eight writers: three threads on one synchronous store, one alone, four tasks on one asynchronous store. They never stop
for a crash; within RECOVERY seconds of the server's return each of them must have ended a whole operation (not so with
`--patient`, for machines that are busy).
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from perdure import sync
from tests.crash import outage_doubts
from tests.crash.outage_doubts import ABSENT, LOST, STANDS
from tests.crash.outage_journal import DONE, UNKNOWN, Board, Line, read
from tests.crash.outage_verify import Verdict, verify
from tests.crash.outage_writers import LEASED
from tests.crash.outages import CLEAN, VICTIMS

ROOT = Path(__file__).parents[2]
WRITERS = {"sync": [(0, 1, 2), (3,)], "async": [(4, 5, 6, 7)]}
COUNT = 8
RECOVERY = 5.0
PATIENCE = 60.0  # seconds after which a writer that got no answer, or does not end, is a finding of its own
WORK = (0.1, 0.8)  # seconds of work between an outage and the next


@dataclass
class Outage:
    """One crash."""

    way: str
    at: float
    back: float
    answered: list[float] = field(default_factory=list)  # seconds from the return to the first answer, by writer
    recovered: list[float] = field(default_factory=list)  # … and to the end of a whole operation


@dataclass
class Tally:
    """The figures of a campaign."""

    outages: list[Outage] = field(default_factory=list)
    journals: dict[str, list[Line]] = field(default_factory=dict)
    doubts: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0

    @property
    def lines(self) -> list[Line]:
        return [line for lines in self.journals.values() for line in lines]

    @property
    def crashes(self) -> int:
        """A clean stop is an outage, but no crash."""
        return sum(outage.way != CLEAN for outage in self.outages)

    @property
    def slowest(self) -> float:
        return max((seconds for outage in self.outages for seconds in outage.recovered), default=0.0)


class Campaign:
    """Crashes one server."""

    def __init__(self, backend: str, seed: int) -> None:
        self._rng = random.Random(f"{backend} {seed}")
        self._victim = VICTIMS[backend](self._rng)
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-outage-"))
        self._board = Board(self._folder)
        self._processes: list[subprocess.Popen[str]] = []
        self.tally = Tally()

    def run(self, crashes: int) -> Tally:
        begun = time.monotonic()
        try:
            url = self._victim.open()
            self._prepare(url)
            self._start_writers(url)
            while self.tally.crashes < crashes and not self.tally.verdict.words:
                self._crash_once()
            self._stop_writers()
            self._look(url)
        finally:
            self._end()
        self.tally.seconds = time.monotonic() - begun
        return self.tally

    def _prepare(self, url: str) -> None:
        with sync.Perdure.open(url) as store:
            store.thread(LEASED, user="crash").append("tokens", "made")

    def _start_writers(self, url: str) -> None:
        for mode, groups in WRITERS.items():
            for numbers in groups:
                words = [str(self._folder), url, mode, *map(str, numbers)]
                command = [sys.executable, "-m", "tests.crash.outage_writers", *words]
                self._processes.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        self._await(self._board.last_answer, time.monotonic())

    def _crash_once(self) -> None:
        time.sleep(self._rng.uniform(*WORK))
        ways = list(self._victim.ways)
        way = ways[self._board.crashes % len(ways)]
        at = time.monotonic()
        self._victim.ways[way]()
        outage = Outage(way, at, time.monotonic())
        outage.answered = self._await(self._board.last_answer, outage.back)
        outage.recovered = self._await(self._board.last_end, outage.back)
        self.tally.outages.append(outage)
        self._board.crashes += 1

    def _await(self, last: Callable[[int], float], since: float) -> list[float]:
        """How long after a moment each writer was answered, or ended an operation."""
        first = [0.0] * COUNT
        while not all(first) and time.monotonic() < since + PATIENCE and self._all_run():
            for writer in range(COUNT):
                if not first[writer] and (at := last(writer)) > since:
                    first[writer] = at
            time.sleep(0.002)
        for writer in range(COUNT):
            if not first[writer]:
                self.tally.verdict.wrong("answers", f"writer {writer} got no answer")
        return [at - since if at else PATIENCE for at in first]

    def _all_run(self) -> bool:
        return all(process.poll() is None for process in self._processes)

    def _stop_writers(self) -> None:
        self._board.stop()
        for process in self._processes:
            try:
                _, errors = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                errors = "it does not end"
            if process.returncode or errors:
                self.tally.verdict.wrong("answers", f"a writer ended with {process.returncode}: {errors[-2000:]}")

    def _look(self, url: str) -> None:
        self.tally.journals = read(self._folder)
        self.tally.doubts = outage_doubts.read(self._folder)
        found = verify(url, self.tally.journals)
        found.words = self.tally.verdict.words + found.words
        found.answers += self.tally.verdict.answers
        self.tally.verdict = found

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._victim.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def table(tally: Tally) -> str:
    """The figures."""
    ways = Counter(outage.way for outage in tally.outages)
    flying = [line for outage in tally.outages for line in tally.lines if line.began < outage.at < line.ended]
    phases = Counter(line.kind for line in flying)
    outcomes = Counter(line.outcome for line in tally.lines)
    times = sorted(seconds for outage in tally.outages for seconds in outage.recovered)
    answers = [seconds for outage in tally.outages for seconds in outage.answered]
    rows: list[tuple[str, object]] = [("outages", len(tally.outages)), ("crashes among them", tally.crashes)]
    rows += [(f"  by {way}", count) for way, count in ways.items()]
    rows += [("operations in flight at a crash", len(flying))]
    rows += [(f"  {phase}", count) for phase, count in phases.most_common()]
    rows += [("acknowledged operations", outcomes[DONE]), ("calls that gave up", outcomes[UNKNOWN])]
    rows += [(f"ambiguous commits ({word})", tally.doubts[word]) for word in (LOST, STANDS, ABSENT)]
    rows += [(words, getattr(tally.verdict, name)) for name, words in _FIGURES.items()]
    rows += [("first answer, slowest (s)", f"{max(answers, default=0.0):.2f}")]
    rows += [("recovery, median (s)", f"{times[len(times) // 2]:.2f}" if times else "-")]
    rows += [("recovery, slowest (s)", f"{tally.slowest:.2f}")]
    rows += [(f"  after {way}", f"{_slowest(tally, way):.2f}") for way in ways]
    rows += [("slowest call beside outages (s)", f"{_slowest_beside(tally):.2f}")]
    rows += [("took (s)", f"{tally.seconds:.1f}")]
    return "\n".join(f"{name:<34}{value!s:>10}" for name, value in rows)


def _slowest(tally: Tally, way: str) -> float:
    return max(max(outage.recovered) for outage in tally.outages if outage.way == way)


def _slowest_beside(tally: Tally) -> float:
    """The longest operation while the server was up: those of one thread have to take turns."""
    undisturbed = (
        line.ended - line.began
        for line in tally.lines
        if line.ended and not any(line.began < outage.back and outage.at < line.ended for outage in tally.outages)
    )
    return max(undisturbed, default=0.0)


_FIGURES = {"lost": "acknowledged lost", "duplicates": "duplicates", "half": "half-written", "answers": "wrong answers"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=VICTIMS, required=True)
    parser.add_argument("--crashes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--patient", action="store_true", help="any time to recover will do")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    tally = Campaign(asked.backend, asked.seed).run(asked.crashes)
    print(table(tally))
    words = list(tally.verdict.words)
    if tally.slowest > RECOVERY and not asked.patient:
        words.append(f"a writer took {tally.slowest:.1f} s after the server's return, more than {RECOVERY}")
    print("\n".join(words[:40]))
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main())
