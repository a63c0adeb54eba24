"""Kill a process in the middle of prune and compact, again and again, and look what is left.

    python -m tests.crash.prune_kills --kills 50 [--backend sqlite|file] [--seed N]

A store is made once: a long thread with messages that were cut from its list, a fork, a tag. Each child is forked,
works on a copy of it, and is killed after a random part of the time that the work takes. Then every point that must
stay loads as it was, the chain is whole, and the work can be finished.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import sync

TURNS = 150
KEEP = 3
KEPT = "kept by its tag"


@dataclass
class Made:
    """A store, and full copies of what has to stay."""

    folder: Path
    backend: str
    states: dict[str, Any] = field(default_factory=dict)  # of points that no prune may drop, by id
    newest: dict[str, Any] = field(default_factory=dict)  # by thread
    said: dict[str, list[Any]] = field(default_factory=dict)

    def url(self, folder: Path) -> str:
        return f"sqlite:///{folder}/store.db" if self.backend == "sqlite" else f"file://{folder}/store"


def make(folder: Path, backend: str) -> Made:
    """A long thread, a fork of it, a tag."""
    made = Made(folder, backend)
    with sync.Perdure.open(made.url(folder)) as store:
        thread, state = store.thread("long"), {"messages": [], "context": {}}
        points: list[tuple[str, Any]] = []
        for turn in range(TURNS):
            _turn(state, turn)
            points.append((thread.save(state).id, copy.deepcopy(state)))
        fork = thread.fork(points[40][0], to="fork")
        fork.append("messages", {"role": "user", "content": "elsewhere"})
        thread.tag(points[20][0], KEPT)
        made.states = dict([points[20], points[40], *points[-KEEP:]])
        for each in (thread, fork):
            made.newest[each.id], made.said[each.id] = each.load(), each.messages()
    return made


def _turn(state: dict[str, Any], turn: int) -> None:
    state["messages"].append({"role": "user", "content": f"turn {turn} " * 60})
    state["context"][f"k{turn % 7}"] = "value " * (turn % 40)
    if turn % 25 == 24:
        del state["messages"][:-3]


def work(url: str) -> None:
    """What is killed."""
    with sync.Perdure.open(url) as store:
        store.thread("long").prune(KEEP)
        store.compact()


def check(made: Made, url: str) -> list[str]:
    """What is wrong with a store, in words."""
    wrong: list[str] = []
    with sync.Perdure.open(url) as store:
        thread = store.thread("long")
        for point, state in made.states.items():
            if thread.load(point) != state:
                wrong.append(f"{point} loads as something else")
        for name, state in made.newest.items():
            if store.thread(name).load() != state or store.thread(name).messages() != made.said[name]:
                wrong.append(f"{name} is another thread now")
        wrong += [str(each) for each in store.verify(restore=True).damaged]
    return wrong


def kill_once(made: Made, rng: random.Random, seconds: float) -> tuple[bool, list[str]]:
    """Whether the child was killed before it was done, and what is wrong afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "copy")
        shutil.copytree(made.folder, place)
        killed = _killed(made.url(place), rng.uniform(0, seconds))
        wrong = check(made, made.url(place))
        work(made.url(place))
        return killed, wrong + check(made, made.url(place))


def _killed(url: str, after: float) -> bool:
    child = os.fork()
    if child == 0:
        work(url)
        os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def _takes(made: Made) -> float:
    """How long the work takes here."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "copy")
        shutil.copytree(made.folder, place)
        began = time.monotonic()
        work(made.url(place))
        return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--backend", choices=["sqlite", "file"], nargs="+", default=["sqlite", "file"])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    return max([campaign(backend, asked.kills, asked.seed) for backend in asked.backend])


def campaign(backend: str, kills: int, seed: int) -> int:
    """Kill so many times; 0 when nothing was lost."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder), backend)
        seconds, inside, tries, wrong = _takes(made), 0, 0, list[str]()
        while inside < kills and tries < 4 * kills:
            killed, found = kill_once(made, rng, seconds)
            inside, tries = inside + killed, tries + 1
            wrong += found
    print(f"{backend}: {inside} of {tries} kills before the work was done, {len(wrong)} things wrong")
    print("\n".join(wrong[:20]), end="")
    return int(bool(wrong) or inside < kills)


if __name__ == "__main__":
    sys.exit(main())
