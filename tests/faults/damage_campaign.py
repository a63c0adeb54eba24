"""Damage a store in many ways, and judge what it then says: right answers or typed errors, and others untouched.

python -m tests.faults.damage_campaign --faults 3000 [--backend file] [--seed N]

The judge knows nothing of a backend: it asks a store, undamaged and damaged, the same questions. A backend brings the
places that can be harmed and says whose each is (`harms_of_files`).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from perdure import sync
from perdure.testing.clock import ManualClock, SeededRandomness
from tests.faults.places import is_typed, url_of

SECTOR = 512
Owner = tuple[str, str]  # the user and the id of a thread
Answers = dict[tuple[Owner | None, str], str]  # of a thread, or of the store as a whole


class Harm(NamedTuple):
    """Something that was done to a store."""

    what: str
    affected: frozenset[Owner]  # the threads that may notice
    is_truth: bool  # what cannot be made again was changed: `verify` has to say so
    is_known: bool = True  # … and whose it is can still be told


@dataclass
class Tally:
    """What a campaign found."""

    faults: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


THREADS = (("ann", "talk"), ("ann", "small"), ("ann", "branch"), ("bob", "talk"), ("bob", "run"))
_FAMILY = frozenset({("ann", "talk"), ("ann", "branch")})  # a fork has its parent's history


def fill(url: str) -> None:
    """A few threads of two users: snapshots, a fork, a large value, a rewind, a run that waits."""
    rng = random.Random(3)
    with sync.Perdure.open(url, clock=ManualClock(), randomness=SeededRandomness(4)) as store:
        for user in ("ann", "bob"):
            thread, state = store.thread("talk", user=user), dict[str, Any](messages=[], notes={})
            for number in range(1, 15):
                state["messages"].append(
                    {"role": "user", "content": f"{user} says {number}: {rng.randbytes(600).hex()}"}
                )
                state["notes"][f"k{number % 4}"] = number
                thread.save(state, note=f"{user} {number}")
            thread.update(set={"picture": "x" * 80_000 + user})
        store.thread("small", user="ann").save({"n": 1})
        store.thread("small", user="ann").append("list", 1, 2, 3)
        store.thread("talk", user="ann").fork("@9", to="branch").append(
            "messages", {"role": "user", "content": "branch"}
        )
        store.handler("work")(lambda run: run.pause("go on", ask="Go on?"))
        store.start("work", {"n": 1}, thread="run", user="bob")
        store.recover()


def ask(url: str) -> Answers:
    """Every question a user may ask, with what it was answered."""
    found: Answers = {}
    with sync.Perdure.open(url) as store:
        for user, name in THREADS:
            handle = store.thread(name, user=user)
            questions: dict[str, Callable[[], object]] = {
                "load": lambda handle=handle: handle.load(),
                **{f"load @{at}": lambda at=at, handle=handle: handle.load(f"@{at}") for at in (1, 2, 8, 14)},
                "entries": lambda handle=handle: [(each.version, each.digest) for each in handle.entries(limit=99)],
                "history": lambda handle=handle: [(each.id, each.version, each.note) for each in handle.history()],
                "messages": lambda handle=handle: handle.messages(),
                "info": lambda handle=handle: (handle.info().version, handle.info().status),
            }  # fmt: skip
            for question, call in questions.items():
                found[(user, name), question] = answered(call)
        lists: dict[str, Callable[[], object]] = {
            "threads": lambda: {(each.user, each.id): each.version for each in store.threads(99)},
            "runs": lambda: {(each.user, each.thread): each.status for each in store.runs()},
            "pauses": lambda: {(each.user, each.thread): each.name for each in store.pauses()},
            "search": lambda: {(each.user, each.thread_id): "found" for each in store.search("says")},
            "recover": lambda: {},
        }
        for question, call in lists.items():
            found[None, question] = answered(call)
        store.recover()
        found[None, "damaged"] = answered(lambda: sorted((each.user, each.thread_id) for each in store.damaged()))
        found[None, "verify"] = answered(lambda: store.verify().ok)
    return found


def answered(call: Callable[[], object]) -> str:
    """An answer in words, or the error."""
    try:
        return repr(call())
    except Exception as exc:
        kind = "typed" if is_typed(exc) else "absent" if type(exc).__name__ == "NotFoundError" else "untyped"
        return f"!{kind} {type(exc).__name__}: {exc}"


def judge(harm: Harm, truth: Answers, answers: Answers, tally: Tally) -> None:
    """Compare what a damaged store says with what it said before."""
    wrong: list[str] = []
    noticed = False
    for (owner, question), answer in answers.items():
        right = truth[owner, question]
        if owner is None and question in ("damaged", "verify"):
            continue
        if answer == right:
            continue
        noticed = True
        if owner is None:
            wrong += _lists(harm, question, right, answer)
        elif owner not in harm.affected:
            wrong.append(f"{owner} {question} of an untouched thread: {answer[:160]}")
        elif not answer.startswith("!typed"):
            wrong.append(f"{owner} {question}: {answer[:160]}")
    told = answers[None, "verify"] != "True" or answers[None, "damaged"] != "[]"
    if (noticed or harm.is_truth) and not told:
        wrong.append(f"verify calls it clean ({'noticed' if noticed else 'not noticed'})")
    if harm.is_truth and answers[None, "verify"] == "True":
        wrong.append("verify calls it clean")
    tally.faults += 1
    tally.outcomes["wrong" if wrong else "told" if told else "unharmed"] += 1
    tally.wrong += [f"{harm.what}: {each}" for each in wrong]


def _lists(harm: Harm, question: str, right: str, answer: str) -> Iterator[str]:
    """A list may leave out the threads that were harmed, and nothing else."""
    if answer.startswith("!"):
        yield f"{question} fails for everybody: {answer[:160]}"
        return
    before, after = eval(right), eval(answer)  # our own repr of dicts of plain values
    for owner, value in before.items():
        if owner not in harm.affected and after.get(owner) != value:
            yield f"{question} of {owner}, who was not touched: {after.get(owner)}"
    for owner in after.keys() - before.keys():
        yield f"{question} shows {owner}, who is not there"


# ── harms of a folder of files ────────────────────────────────────────────────────────────────────────────────────────


def harms_of_files(root: Path, rng: random.Random) -> Harm:
    """Harm one file, or two, of a folder, at random."""
    folders = {_owner(each): each for each in sorted((root / "threads").iterdir())}
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    path = rng.choice([each for each in files if each.suffix in (".json", ".jsonl") or each.parent.name == "forks"])
    while path.name in ("perdure.json", "lock"):
        path = rng.choice(files)
    kind = rng.choice(("bit", "bit", "cut", "sector", "delete", "empty", "copy", "swap folders", "copy folder", "grow"))
    if kind in ("swap folders", "copy folder"):
        return _mix_folders(kind, folders, rng)
    affected = _affected(root, path, folders)
    before = path.read_bytes()
    _harm(kind, path, before, files, rng)
    is_changed = not path.exists() or path.read_bytes() != before
    is_truth = is_changed and _is_truth(path, kind)
    return Harm(f"{kind} {path.relative_to(root)}", affected, is_truth)


def _owner(folder: Path) -> Owner:
    key = json.loads((folder / "log.jsonl").read_text().split("\n", 1)[0])["changed"]["key"]
    return key["user"], key["id"]


def _harm(kind: str, path: Path, data: bytes, files: list[Path], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    if kind == "delete":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(data[:at])
    elif kind == "grow":
        path.write_bytes(data + rng.choice((b"\n", bytes(40), b'{"entries":[]}\n', data[-200:])))
    elif kind == "sector":
        start = at - at % SECTOR
        path.write_bytes(data[:start] + bytes(min(SECTOR, len(data) - start)) + data[start + SECTOR :])
    elif kind == "copy":
        path.write_bytes(rng.choice([each for each in files if each.name == path.name]).read_bytes())
    else:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])


def _mix_folders(kind: str, folders: dict[Owner, Path], rng: random.Random) -> Harm:
    one, other = rng.sample(sorted(folders), 2)
    source, target = folders[one], folders[other]
    if kind == "copy folder":
        shutil.rmtree(target)
        shutil.copytree(source, target)
        return Harm(f"{kind} {one} over {other}", _with_forks({other}), True)
    spare = target.with_name("spare")
    source.rename(spare)
    target.rename(source)
    spare.rename(target)
    return Harm(f"{kind} {one} and {other}", _with_forks({one, other}), True)


def _affected(root: Path, path: Path, folders: dict[Owner, Path]) -> frozenset[Owner]:
    """Whose answers may change: those of the thread, its forks, and for large values of everybody with that user."""
    parts = path.relative_to(root).parts
    if parts[0] == "blobs":
        return frozenset(THREADS)
    return _with_forks({owner for owner, folder in folders.items() if folder in path.parents})


def _with_forks(owners: set[Owner]) -> frozenset[Owner]:
    return frozenset(owners | (_FAMILY if ("ann", "talk") in owners else set()))


def _is_truth(path: Path, kind: str) -> bool:
    """Whether nothing else has what was in these bytes. What stands behind the end of a log was never committed."""
    if path.name == "log.jsonl" or "blobs" in path.parts:
        return kind != "grow"
    return path.name == "lease.json" and kind in ("bit", "cut", "sector", "empty")


HARMS: dict[str, Callable[[Path, random.Random], Harm]] = {"file": harms_of_files}


def run(backend: str, faults: int, seed: int) -> Tally:
    """So many faults, each on a store that is as it was before."""
    tally, rng = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="perdure-damage-") as name:
        folder = Path(name)
        template, place = folder / "template", folder / "harmed"
        fill(url_of(backend, template))
        truth = ask(url_of(backend, template))
        assert not [answer for answer in truth.values() if answer.startswith("!un")]
        for number in range(faults):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(template, place)
            if number % 2:
                with sync.Perdure.open(url_of(backend, place)) as store:
                    store.threads()  # what is derived knows the copies as they are
            harm = HARMS[backend](place / "place", rng)
            judge(harm, truth, ask(url_of(backend, place)), tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=3000)
    parser.add_argument("--backend", choices=HARMS, default="file")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    began = time.monotonic()
    print(f"seed {asked.seed}", flush=True)
    tally = run(asked.backend, asked.faults, asked.seed)
    print(f"{tally.faults} faults in {time.monotonic() - began:.0f} s: {dict(tally.outcomes)}")
    print("\n".join(tally.wrong[:60]))
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
