"""Damage a closed store in one place, and see what each of its answers is then.

python -m tests.faults.damages --faults 1500 [--backend sqlite] [--seed N]

A fault is a flipped bit, a cut, two pages swapped, a page copied over another, or a sector of zeros or noise; or a row
of one thread is changed. States, logs and conversations have to be right or a typed error. What is listed from an index
beside the log (checkpoints, lines of messages, the directory, words) may be wrong, and then `verify` finds it. It finds
whatever is not right, and what is done to the rows of one thread is not noticed by another.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import sync
from perdure.testing.clock import ManualClock, SeededRandomness
from tests.faults.places import is_typed, url_of

SECTOR = 512
THREADS = (("talk", "ann"), ("talk", "bob"), ("branch", "ann"), ("plain", "carol"))
OF_AN_INDEX = ("history", "message_lines", "timeline", "threads of", "search of", "load('@-2')")
WORDS = ("harbour", "lantern", "meadow", "orchid")
Answers = dict[str, Any]  # what was asked → what was answered, or the error


@dataclass
class Tally:
    """What the faults led to."""

    faults: int = 0
    unharmed: int = 0  # every answer was right
    told: int = 0  # some answer was a typed error, and all others were right
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # answers that were neither right nor a typed error
    unseen: list[str] = field(default_factory=list)  # `verify` found nothing though an answer was not right
    spread: list[str] = field(default_factory=list)  # what a damaged row did to other threads
    seconds: float = 0.0


def prepare(folder: Path) -> None:
    """A store with conversations of two users under one id, a fork, snapshots, large values, tags and a rewind."""
    rng = random.Random(7)
    with sync.Perdure.open(url_of("sqlite", folder), clock=ManualClock(), randomness=SeededRandomness(7)) as store:
        for user in ("ann", "bob"):
            _talk(store.thread("talk", user=user, agent="scribe"), user, rng)
        branch = store.thread("talk", user="ann").fork("@9", to="branch")
        branch.save({"of": "branch", "owner": "ann"}, note="of the branch")
        branch.add_messages([{"role": "user", "content": "of the branch"}])
        store.thread("plain", user="carol").save({"owner": "carol"})


def _talk(thread: sync.Thread, user: str, rng: random.Random) -> None:
    state: dict[str, Any] = {"owner": user, "items": []}
    for number in range(24):
        state["items"].append({"number": number, "text": rng.randbytes(60).hex()})
        state["scratch"] = rng.randbytes(1200).hex()
        if number == 11:
            state["large"] = rng.randbytes(40_000).hex()
        thread.save(state, note=f"{user} {number}", kind="routine", key=f"save {number}")
        thread.add_messages([{"role": "user", "content": f"{user} {WORDS[number % 4]} {number}", "id": f"m{number}"}])
    thread.rewind("@9")
    thread.update(set={"after": True}, checkpoint=True)


def ask(url: str) -> Answers:
    """Everything that a user may ask, each answer as a value or as its error."""
    try:
        store = sync.Perdure.open(url)
    except Exception as exc:
        return {"open": exc}
    found: Answers = {}
    for name, call in _questions(store):
        try:
            found[name] = call()
        except Exception as exc:
            found[name] = exc
    return found


def _questions(store: sync.Perdure) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, user in THREADS:
        whose, thread = f"{name} of {user}", store.thread(name, user=user)
        for ref in (None, "@1", "@9", "@20", "@-2"):
            yield f"{whose}: load({ref!r})", lambda thread=thread, ref=ref: thread.load(ref, default="absent")
        for method in ("entries", "messages", "message_lines", "timeline"):
            yield f"{whose}: {method}", getattr(thread, method)
        yield f"{whose}: history", lambda thread=thread: thread.history(limit=500, everything=True)
        yield f"{whose}: compare", lambda thread=thread: str(thread.compare("@1", None))
    for user in ("ann", "bob", "carol"):
        yield f"threads of {user}", lambda user=user: _listed(store, user)
        yield f"search of {user}", lambda user=user: repr(store.search("lantern", user=user, limit=50))


def _listed(store: sync.Perdure, user: str) -> list[tuple[str, Any]]:
    return [(each.id, each.user) for each in store.threads(user=user)]


def verified(url: str) -> bool | None:
    """Whether `verify` finds nothing; a typed error of its own is a finding, None for any other."""
    try:
        with sync.Perdure.open(url) as store:
            return store.verify(restore=True).ok
    except Exception as exc:
        if not is_typed(exc):
            return None
        return False


Fault = Callable[[bytearray, random.Random], str]


def _flip(data: bytearray, rng: random.Random) -> str:
    at, bit = rng.choice([at for at, byte in enumerate(data) if byte]), rng.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at}"


def _cut(data: bytearray, rng: random.Random) -> str:
    # At least a byte is left: an empty file is a database that nobody has made yet, to SQLite too.
    size = rng.choice((rng.randrange(1, len(data)), rng.randrange(1, len(data) // SECTOR) * SECTOR))
    del data[size:]
    return f"cut to {size} bytes"


def _pages(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    size = int.from_bytes(data[16:18], "big")
    one, two = rng.sample(range(1, len(data) // size), 2)  # the first one holds the header of the file
    return one * size, two * size, size


def _swap(data: bytearray, rng: random.Random) -> str:
    one, two, size = _pages(data, rng)
    data[one : one + size], data[two : two + size] = data[two : two + size], data[one : one + size]
    return f"pages at {one} and {two} swapped"


def _copy(data: bytearray, rng: random.Random) -> str:
    one, two, size = _pages(data, rng)
    data[one : one + size] = data[two : two + size]
    return f"page at {two} copied over {one}"


def _zero(data: bytearray, rng: random.Random) -> str:
    at = rng.randrange(len(data) // SECTOR) * SECTOR
    data[at : at + SECTOR] = bytes(SECTOR)
    return f"sector of zeros at {at}"


def _noise(data: bytearray, rng: random.Random) -> str:
    at = rng.randrange(len(data) // SECTOR) * SECTOR
    data[at : at + SECTOR] = rng.randbytes(SECTOR)
    return f"sector of noise at {at}"


FAULTS: dict[str, Fault] = {
    "bit": _flip, "cut": _cut, "swap": _swap, "copy": _copy, "zeros": _zero, "noise": _noise,
}  # fmt: skip
# Tables whose rows belong to one thread, and how its number is told from a row.
TABLES = {
    "thread": '"row"', "entry": '"row" >> 32', "snapshot": '"row" >> 32', "checkpoint": '"row" >> 32',
    "rewind": '"row" >> 32', "message": '"row" >> 32', "projection": "thread",
}  # fmt: skip


def _spoil_row(path: Path, rng: random.Random) -> str:
    """Change one column of one row of ann's conversation, or remove the row, or put bob's in its place."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA recursive_triggers = ON")
        ((ann,), (bob,)) = database.execute(
            "SELECT \"row\" FROM perdure_thread WHERE id = 'talk' ORDER BY user_id"
        ).fetchall()
        table = rng.choice(list(TABLES))
        columns = [row[1] for row in database.execute(f"PRAGMA table_info(perdure_{table})") if row[1] != "row"]
        key = "thread" if table == "projection" else '"row"'
        named = f"SELECT {key} FROM perdure_{table} WHERE {TABLES[table]} = ?"
        rows = [row for (row,) in database.execute(named, (ann,))]
        at, column = rng.choice(rows), rng.choice([each for each in columns if each != key])
        how = rng.choice(("flip", "flip", "remove", "bob"))
        if how == "remove" and table != "thread":  # of a row that is gone only `verify` finds what it led to
            database.execute(f"DELETE FROM perdure_{table} WHERE {key} = ?", (at,))
        elif how == "bob":
            other = bob if table in ("thread", "projection") else at + ((bob - ann) << 32)
            given = database.execute(f'SELECT "{column}" FROM perdure_{table} WHERE {key} = ?', (other,)).fetchone()
            _set(database, table, key, at, column, given[0] if given else None)
        else:
            (value,) = database.execute(f'SELECT "{column}" FROM perdure_{table} WHERE {key} = ?', (at,)).fetchone()
            _set(database, table, key, at, column, _spoilt(value, rng))
    return f"{how} {column} of {table} {at}"


def _set(database: sqlite3.Connection, table: str, key: str, at: int, column: str, value: Any) -> None:
    with suppress(sqlite3.IntegrityError):  # the database itself refuses it
        database.execute(f'UPDATE perdure_{table} SET "{column}" = ? WHERE {key} = ?', (value, at))


def _spoilt(value: Any, rng: random.Random) -> Any:
    if isinstance(value, int):
        return rng.choice((value ^ (1 << rng.randrange(40)), -1, "text", None))
    if isinstance(value, bytes) and value:
        at = rng.randrange(len(value))
        return value[:at] + bytes([value[at] ^ (1 << rng.randrange(8))]) + value[at + 1 :]
    if isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    return rng.choice((7, "text", b"\xff"))


class Campaign:
    """Faults of one template."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._rng = random.Random(seed)
        self._template = root / "template"
        self._template.mkdir()
        prepare(self._template)
        ask(self._copied("first"))  # messages are read off the logs when somebody asks for them
        shutil.copy(root / "first" / "agents.db", self._template / "agents.db")
        self.truth = ask(self._copied("truth"))
        self.tally = Tally()

    def _copied(self, name: str) -> str:
        folder = self._root / name
        folder.mkdir()
        shutil.copy(self._template / "agents.db", folder / "agents.db")
        return url_of("sqlite", folder)

    def pages(self, number: int) -> None:
        """One fault of the file."""
        name = list(FAULTS)[number % len(FAULTS)]
        url = self._copied(f"page-{number}")
        path = self._root / f"page-{number}" / "agents.db"
        data = bytearray(path.read_bytes())
        what = FAULTS[name](data, self._rng)
        path.write_bytes(data)
        self._judge(name, what, url)
        shutil.rmtree(path.parent)

    def rows(self, number: int) -> None:
        """One fault of the rows of one thread."""
        url = self._copied(f"row-{number}")
        path = self._root / f"row-{number}" / "agents.db"
        what = _spoil_row(path, self._rng)
        harmed = self._judge("row", what, url)
        others = [name for name in harmed if "ann" not in name]
        self.tally.spread += [f"{what}: {name}: {harmed[name]!r}" for name in others]
        shutil.rmtree(path.parent)

    def _judge(self, kind: str, what: str, url: str) -> Answers:
        tally, found = self.tally, ask(url)
        tally.faults += 1
        harmed = {name: answer for name, answer in found.items() if not _same(answer, self.truth.get(name))}
        wrong = [name for name, answer in harmed.items() if not _is_allowed(name, answer)]
        tally.wrong += [f"{kind} {what}: {name}: {harmed[name]!r:.300}" for name in wrong]
        clean = verified(url) if harmed else False
        tally.wrong += [f"{kind} {what}: verify raises"] if clean is None else []
        if clean:
            tally.unseen.append(f"{kind} {what}: {next(iter(harmed.items()))!r:.300}")
        tally.unharmed += not harmed
        tally.told += bool(harmed) and not wrong
        tally.kinds[f"{kind}, {'right' if not harmed else 'wrong' if wrong else 'told'}"] += 1
        return harmed


def _is_allowed(name: str, answer: Any) -> bool:
    if isinstance(answer, Exception):
        return is_typed(answer)
    return any(words in name for words in OF_AN_INDEX)


def _same(one: Any, other: Any) -> bool:
    return not isinstance(one, Exception) and repr(one) == repr(other)


def run(faults: int, seed: int) -> Tally:
    """So many faults, three of the file to one of a row."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-damages-") as root:
        campaign = Campaign(Path(root), seed)
        for number in range(faults):
            campaign.rows(number) if number % 4 == 3 else campaign.pages(number - number // 4)
        campaign.tally.seconds = time.monotonic() - begun
        return campaign.tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    tally = run(asked.faults, asked.seed)
    print(f"{tally.faults} faults in {tally.seconds:.0f} s: {tally.unharmed} unharmed, {tally.told} told")
    print(dict(sorted(tally.kinds.items())))
    problems = {"wrong": tally.wrong, "not seen by verify": tally.unseen, "spread to others": tally.spread}
    for name, found in problems.items():
        print(f"{name}: {len(found)}")
        print("\n".join(f"  {each}" for each in found[:40]))
    return int(any(problems.values()))


if __name__ == "__main__":
    sys.exit(main())
