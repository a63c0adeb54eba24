"""Flip single bits of a closed store, and see what reading it gives.

python -m tests.faults.flips --flips 2000 [--backend sqlite|file] [--seed N]
"""

from __future__ import annotations

import argparse
import copy
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import sync
from perdure.testing.clock import ManualClock, SeededRandomness
from tests.faults.places import DURABLE, is_typed, same, url_of

VERSIONS = 14
_NEWEST = None


@dataclass
class Tally:
    """What the flips led to. Of each read one outcome is counted; of each flip the worst."""

    flips: int = 0
    unharmed: int = 0  # every read gave what was saved
    told: int = 0  # some read gave a typed error, none anything else
    classes: Counter[str] = field(default_factory=Counter)
    other_state: list[str] = field(default_factory=list)
    other_error: list[str] = field(default_factory=list)
    seconds: float = 0.0


Truth = dict[tuple[str, object], Any]  # (thread, ref) → state


def prepare(backend: str, folder: Path, heavy: bool) -> Truth:
    """A store with deltas, checkpoints and a fork; return the state at every ref.

    A heavy one has snapshots and large values, so that most bits are payload; a light one is mostly structure.
    """
    truth: Truth = {}
    rng = random.Random(5)
    with sync.Perdure.open(url_of(backend, folder), clock=ManualClock(), randomness=SeededRandomness(5)) as store:
        thread, state = store.thread("flipped", user="ann"), {"items": [], "deep": {"n": 0}}
        for number in range(1, VERSIONS + 1):
            _change(state, number, rng, heavy)
            point = thread.save(state, note=f"note {number}")
            for ref in (f"@{number}", f"@{point.id}"):
                truth["flipped", ref] = copy.deepcopy(state)
        truth["flipped", _NEWEST] = copy.deepcopy(state)
        branch = thread.fork("@5", to="branch")
        branch.append("items", "of the branch")
        state = truth["flipped", "@5"]
        truth["branch", _NEWEST] = {**state, "items": [*state["items"], "of the branch"]}
        truth["branch", "@5"] = state
    return truth


def _change(state: Any, number: int, rng: random.Random, heavy: bool) -> None:
    state["items"].append({"role": "user", "content": rng.randbytes(9).hex(), "number": number})
    state["items"][rng.randrange(number)]["number"] = -number
    state["deep"]["n"] = [number, True, 1.0, None][number % 4]
    if heavy:
        state["scratch"] = rng.randbytes(2500).hex()
    if heavy and number in (9, 12):
        state["document"] = rng.randbytes(1000).hex() * 40  # large, and it compresses


class Template:
    """A closed store, and what is in it."""

    def __init__(self, backend: str, folder: Path, heavy: bool) -> None:
        folder.mkdir()
        self.folder = folder
        self.truth = prepare(backend, folder, heavy)
        self._heavy = heavy
        self._files = [path for path in sorted(folder.rglob("*")) if path.is_file()]

    def flipped(self, folder: Path, rng: random.Random) -> str:
        """Copy it with one bit changed. In a light one only bytes that are not zero are taken: most are free space."""
        shutil.copytree(self.folder, folder)
        name = rng.choices(self._files, [path.stat().st_size for path in self._files])[0].relative_to(self.folder)
        data = bytearray((folder / name).read_bytes())
        at = rng.randrange(len(data)) if self._heavy else rng.choice([at for at, byte in enumerate(data) if byte])
        bit = rng.randrange(8)
        data[at] ^= 1 << bit
        (folder / name).write_bytes(data)
        return f"{'heavy' if self._heavy else 'light'}: bit {bit} of byte {at} of {name}"


def run(backend: str, flips: int, seed: int) -> Tally:
    """Flip so many bits, one at a time, by turns in a heavy and in a light store."""
    tally, rng, begun = Tally(), random.Random(f"{backend} {seed}"), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-flips-") as root:
        templates = [Template(backend, Path(root) / f"template-{heavy}", heavy) for heavy in (True, False)]
        for number in range(flips):
            template, folder = templates[number % 2], Path(root) / f"flip-{number}"
            what = template.flipped(folder, rng)
            _judge(tally, what, read_all(url_of(backend, folder), template.truth))
            shutil.rmtree(folder)
    tally.seconds = time.monotonic() - begun
    return tally


def read_all(url: str, truth: Truth) -> list[tuple[str, str]]:
    """Read everything as a user would; return (outcome, words) of each read: right, typed, state or error."""
    store = sync.Perdure.open(url)
    found = [_read(store, thread, ref, state) for (thread, ref), state in truth.items()]
    for thread in ("flipped", "branch"):
        handle = store.thread(thread, user="ann")
        found += [_attempt(name, call) for name, call in _listings(handle)]
    found.append(_attempt("close", store.close))
    return found


def _read(store: sync.Perdure, thread: str, ref: object, state: Any) -> tuple[str, str]:
    got: list[Any] = []
    outcome = _attempt(f"load({ref!r}) of {thread}", lambda: got.append(store.thread(thread, user="ann").load(ref)))
    return ("state", f"load({ref!r}) of {thread} gave another state") if got and not same(got[0], state) else outcome


def _listings(handle: sync.Thread) -> list[tuple[str, Callable[[], object]]]:
    return [
        ("history", handle.history),
        ("info", handle.info),
        ("entries", handle.entries),
        ("messages", handle.messages),
    ]


def _attempt(name: str, call: Callable[[], object]) -> tuple[str, str]:
    try:
        call()
    except Exception as exc:
        return ("typed", type(exc).__name__) if is_typed(exc) else ("error", f"{name}: {type(exc).__name__}: {exc}")
    return "right", ""


def _judge(tally: Tally, what: str, found: list[tuple[str, str]]) -> None:
    tally.flips += 1
    kinds = {kind for kind, _ in found}
    tally.classes.update({words for kind, words in found if kind == "typed"})
    tally.other_state += [f"{what}: {words}" for kind, words in found if kind == "state"]
    tally.other_error += [f"{what}: {words}" for kind, words in found if kind == "error"][:1]
    tally.unharmed += kinds == {"right"}
    tally.told += kinds in ({"typed"}, {"right", "typed"})


def table(tallies: dict[str, Tally]) -> str:
    """One line per backend."""
    names = ("flips", "unharmed", "typed error", "another state", "other error", "took (s)")
    lines = [" " * 8 + "".join(f"{name:>15}" for name in names)]
    for name, each in tallies.items():
        wrong = (len(each.other_state), len(each.other_error))
        figures = (each.flips, each.unharmed, each.told, *wrong, round(each.seconds, 1))
        lines.append(f"{name:<8}" + "".join(f"{figure:>15}" for figure in figures) + f"  {dict(each.classes)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--backend", choices=DURABLE, action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    tallies = {name: run(name, asked.flips, asked.seed) for name in asked.backend or DURABLE}
    print(table(tallies))
    words = [f"{name}: {word}" for name, each in tallies.items() for word in (*each.other_state, *each.other_error)]
    print("\n".join(words[:60]))
    return int(bool(words))


if __name__ == "__main__":
    sys.exit(main())
