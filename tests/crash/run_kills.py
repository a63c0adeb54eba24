"""Kill the process of an agent again and again, and look whether anything was lost, done twice, or asked needlessly.

    python -m tests.crash.run_kills --kills 200 [--backend sqlite|postgres] [--seed N]

Two runs of twelve calls are under way at any time. Of five deaths three come at a random moment, one between the intent
and the effect of a tool, one between the effect and its record. After each the next process goes on. Questions are
answered as a person would who looks at the world: "it ran" (denied, with the result) or "it did not" (approved).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import EntryKind, sync
from perdure.core.calls import decode_intent, decode_outcome, shown, told
from perdure.core.pauses import decode_opened
from perdure.testing.servers import PostgresServer
from tests.crash.run_agent import CALLS, Death, World, live, result

AT_ONCE = 2
TRIES = 10  # lives per kill that is wanted, at most


@dataclass
class Tally:
    """What happened, and what is wrong with it."""

    kills: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    runs: int = 0
    questions: Counter[str] = field(default_factory=Counter)  # by their answer
    left_open: set[tuple[str, str, int]] = field(default_factory=set)  # (thread, call, attempt) that a kill cut off
    wrong: list[str] = field(default_factory=list)


class Campaign:
    """One backend."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self._url = url
        self._world = World(folder)
        self._rng = random.Random(seed)
        self._life = 0.0  # seconds that a process needs when nobody kills it
        self.tally = Tally()

    def run(self, kills: int) -> Tally:
        self._start_runs()
        began = time.monotonic()
        self._lived(None, None)
        self._life = time.monotonic() - began
        while self.tally.kills.total() < kills and self.tally.lives < TRIES * kills and not self.tally.wrong:
            self._start_runs()
            self._kill_once()
            self._answer()
        self._finish()
        self._look()
        return self.tally

    def _start_runs(self) -> None:
        with sync.Perdure.open(self._url) as store:
            unfinished = [info for info in store.runs(AT_ONCE) if info.status != "finished"]
            for _ in range(AT_ONCE - len(unfinished)):
                self.tally.runs += 1
                store.start("agent", thread=f"t{self.tally.runs}")

    def _kill_once(self) -> None:
        kind = self._rng.choice(["random", "random", "random", "before", "after"])
        if kind == "random":
            killed = self._lived(None, self._rng.uniform(0, self._life))
        else:
            killed = self._lived(Death(kind, self._rng.randint(1, 4)), None)
        if killed:
            self.tally.kills[kind] += 1
            self._note_open()

    def _lived(self, death: Death | None, after: float | None) -> bool:
        """Let a process live; say whether it was killed."""
        self.tally.lives += 1
        child = os.fork()
        if child == 0:
            asyncio.run(live(self._url, self._world, death))
            os._exit(0)
        if after is not None:
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, -signal.SIGKILL):
            self.tally.wrong.append(f"a process ended with {code}")
        return code == -signal.SIGKILL

    def _note_open(self) -> None:
        """What the dead process left open has to be asked about."""
        with sync.Perdure.open(self._url) as store:
            for info in store.runs(AT_ONCE):
                log = Log(store, info.thread)
                self.tally.left_open |= {(info.thread, *each) for each in log.unfinished()}

    def _answer(self) -> None:
        """Answer as somebody does who looks at the world."""
        with sync.Perdure.open(self._url) as store:
            for pause in store.pauses():
                tool = pause.name.removeprefix("unverified ")
                ran = self._world.effects()[pause.run, tool] > 0
                answer = result(tool) if ran else None
                store.decide(pause, approved=not ran, by="the driver", answer=answer)
                self.tally.questions["it ran" if ran else "it did not run"] += 1

    def _finish(self) -> None:
        for _ in range(4 * len(CALLS)):
            self._lived(None, None)
            self._answer()
            with sync.Perdure.open(self._url) as store:
                if all(info.status == "finished" for info in store.runs(AT_ONCE)):
                    return

    def _look(self) -> None:
        wrong, effects, asked = self.tally.wrong, self._world.effects(), set[tuple[str, str, int]]()
        with sync.Perdure.open(self._url) as store:
            wrong += [str(each) for each in store.verify().damaged]
            for info in store.runs(self.tally.runs + 1):
                log = Log(store, info.thread)
                wrong += [f"{info.thread}: {each}" for each in _faults(info, log, effects)]
                asked |= {(info.thread, *each) for each in log.questions}
        wrong += [f"asked about {each}, which no kill cut off" for each in asked - self.tally.left_open]
        wrong += [f"not asked about {each}, which a kill cut off" for each in self.tally.left_open - asked]


class Log:
    """The journal of a thread's run, read by its entries alone."""

    def __init__(self, store: Any, thread: str) -> None:
        self.results: Counter[str] = Counter()  # by call
        self.intents: set[tuple[str, int]] = set()  # (call, attempt)
        self.ended: set[tuple[str, int]] = set()
        self.questions: list[tuple[str, int]] = []
        for entry in store.thread(thread).entries():
            self._read(thread, entry)

    def _read(self, thread: str, entry: Any) -> None:
        if entry.kind in (EntryKind.STEP_FINISHED, EntryKind.TOOL_FINISHED):
            outcome = told(thread, entry, decode_outcome)
            self.results[shown(outcome.call.id)] += 1
            if outcome.by is None:
                self.ended.add((shown(outcome.call.id), outcome.attempt))
        elif entry.kind is EntryKind.TOOL_STARTED:
            intent = told(thread, entry, decode_intent)
            self.intents.add((shown(intent.call.id), intent.attempt))
        elif entry.kind is EntryKind.PAUSE_OPENED:
            parent = shown(told(thread, entry, decode_opened).call.parent)
            self.questions.append((parent, max(attempt for call, attempt in self.intents if call == parent)))

    def unfinished(self) -> set[tuple[str, int]]:
        """Tools that started, and nothing more."""
        return self.intents - self.ended


def _faults(info: Any, log: Log, effects: Counter[tuple[str, str]]) -> list[str]:
    """What is wrong with one run."""
    found: list[str] = []
    if info.status != "finished" or info.result != [result(name) for name in CALLS]:
        found.append(f"is {info.status} with {info.result}: {info.error}")
    if sorted(log.results.values()) != [1] * len(CALLS):
        found.append(f"results are recorded {sorted(log.results.values())} times")
    for tool in (name for name in CALLS if name.startswith("t")):
        if effects[info.id, tool] != 1:
            found.append(f"{tool} ran {effects[info.id, tool]} times")
    if len(log.questions) != len(set(log.questions)):
        found.append("was asked twice about the same attempt")
    return found


def table(tally: Tally) -> str:
    """The figures."""
    rows: list[tuple[str, object]] = [("kills", tally.kills.total())]
    rows += [(f"  {kind}", count) for kind, count in sorted(tally.kills.items())]
    rows += [("lives of processes", tally.lives), ("runs, all finished", tally.runs)]
    rows += [("results recorded, each once", tally.runs * len(CALLS)), ("effects, each once", tally.runs * 4)]
    rows += [("unverified tools, each asked about once", len(tally.left_open))]
    rows += [(f"  answered: {word}", count) for word, count in sorted(tally.questions.items())]
    rows += [("things wrong", len(tally.wrong))]
    return "\n".join(f"{name:<42}{value!s:>8}" for name, value in rows)


def campaign(backend: str, kills: int, seed: int) -> Tally:
    """Kill so many times on a storage of its own."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-runs-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if backend == "postgres":
            url = stack.enter_context(PostgresServer()).database("runs")
        else:
            url = f"sqlite:///{folder}/store.db"
        return Campaign(url, folder, seed).run(kills)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--backend", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    asked = parser.parse_args(words)
    print(f"{asked.backend}, seed {asked.seed}", flush=True)
    tally = campaign(asked.backend, asked.kills, asked.seed)
    print(table(tally))
    print("\n".join(tally.wrong[:40]), end="")
    return int(bool(tally.wrong) or tally.kills.total() < asked.kills)


if __name__ == "__main__":
    sys.exit(main())
