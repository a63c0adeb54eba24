"""How well and how fast the memory of a user is searched: `python -m benchmarks.memory [FACTS] [URL]`.

A generated corpus of 2,400 turns and 480 questions: one fact, two facts, what held at a time, corrected facts, deleted
facts. Names tell its facts apart, so it is easier than real conversations: it shows that nothing is missed and nothing
that was corrected or deleted comes back. With FACTS, a search among that many facts of one user is timed too.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from datetime import timedelta
from typing import NamedTuple

from perdure import Perdure
from perdure.core.times import to_datetime
from perdure.memory import MemoryManager
from perdure.testing.clock import ManualClock

SEED = 20_261
_TOPICS = [
    "kitchen",
    "garden",
    "office",
    "garage",
    "holiday",
    "wedding",
    "dentist",
    "choir",
    "marathon",
    "tax",
    "boat",
    "school",
    "piano",
    "budget",
    "roof",
]
_VERBS = [
    "planned",
    "discussed",
    "finished",
    "postponed",
    "started",
    "checked",
    "painted",
    "measured",
    "ordered",
    "cleaned",
]
_THINGS = [
    "invoice",
    "ladder",
    "chair",
    "ticket",
    "blanket",
    "recipe",
    "window",
    "cable",
    "poster",
    "lamp",
    "bottle",
    "carpet",
    "shelf",
    "mirror",
    "basket",
]
_NAMES = [
    a + b
    for a in ["Al", "Be", "Ca", "Do", "El", "Fi", "Ga", "Hu"]
    for b in ["bin", "dor", "fan", "gus", "lia", "mon", "ras", "tov"]
]
_CITIES = [
    "Oslo",
    "Bergen",
    "Rome",
    "Lyon",
    "Porto",
    "Turin",
    "Ghent",
    "Basel",
    "Krakow",
    "Malmo",
    "Seville",
    "Bilbao",
    "Graz",
    "Brno",
    "Riga",
    "Vilnius",
]
_KINDS = ("one fact", "two facts", "as of a time", "corrected", "deleted")


class Question(NamedTuple):
    """What is asked, the facts that answer it, and when."""

    kind: str
    text: str
    answers: frozenset[str]
    micros: int | None = None
    wrong: frozenset[str] = frozenset()  # must not be found


async def corpus(memory: MemoryManager, clock: ManualClock, rng: random.Random) -> list[Question]:
    """Fill a memory, and return what is asked of it."""
    questions: list[Question] = []
    for at in range(96):
        clock.advance(timedelta(hours=3))
        name, thing, other = f"{rng.choice(_NAMES)}{at}", rng.choice(_THINGS), rng.choice(_THINGS)
        city, moved = rng.sample(_CITIES, 2)
        gift = await memory.add_text(f"{name} gave me a {thing} for my birthday")
        questions.append(Question("one fact", f"which present was given to me by {name}?", frozenset({gift.id})))
        loan = await memory.add_text(f"I lent a {other} to the sister of {name}")
        both = frozenset({gift.id, loan.id})
        questions.append(Question("two facts", f"what did {name} give, and what did I lend to {name}'s sister?", both))
        home = await memory.add_text(f"{name} lives in {city}")
        then = clock.now()
        clock.advance(timedelta(hours=3))
        new = await memory.update(home.id, f"{name} moved to {moved}")
        old = frozenset({home.id})
        questions.append(Question("as of a time", f"where was {name} living?", old, then, frozenset({new.id})))
        questions.append(Question("corrected", f"in which city does {name} live?", frozenset({new.id}), None, old))
        secret = await memory.add_text(f"the locker code of {name} is {rng.randrange(9999)}")
        await memory.delete(secret.id)
        gone = frozenset({secret.id})
        questions.append(Question("deleted", f"what is the locker code of {name}?", frozenset(), None, gone))
        await memory.add_messages([{"role": "user", "content": _chatter(rng)} for _ in range(21)])
    return questions


def _chatter(rng: random.Random) -> str:
    return (
        f"I {rng.choice(_VERBS)} the {rng.choice(_THINGS)} for the {rng.choice(_TOPICS)} with {rng.choice(_NAMES)}"
        f"{rng.randrange(96)} in {rng.choice(_CITIES)} and {rng.choice(_VERBS)} a {rng.choice(_THINGS)}"
    )


async def quality(url: str) -> None:
    """Recall at 5 and 10, mean reciprocal rank, and what must not be found."""
    clock = ManualClock()
    async with Perdure.open(url, clock=clock) as store:
        memory = MemoryManager(store, user="alice")
        questions = await corpus(memory, clock, random.Random(SEED))
        print(f"{'':14} {'n':>4} {'recall@5':>9} {'recall@10':>9} {'MRR':>6} {'wrong':>6}")
        for kind in (*_KINDS, "all"):
            asked = [each for each in questions if kind in (each.kind, "all")]
            rows = [await _asked(memory, each) for each in asked]
            known = [row for row, each in zip(rows, asked, strict=True) if each.answers]
            figures = [f"{statistics.mean(row[at] for row in known):.3f}" if known else "-" for at in range(3)]
            wrong = sum(row[3] for row in rows)
            print(f"{kind:14} {len(asked):4} {figures[0]:>9} {figures[1]:>9} {figures[2]:>6} {wrong:6}")


async def _asked(memory: MemoryManager, question: Question) -> tuple[float, float, float, int]:
    when = None if question.micros is None else to_datetime(question.micros)
    ids = [hit.id for hit in await memory.search(question.text, 10, as_of=when)]
    first = next((1 / place for place, id in enumerate(ids, 1) if id in question.answers), 0.0)
    recalls = [len(question.answers & set(ids[:k])) / max(len(question.answers), 1) for k in (5, 10)]
    return recalls[0], recalls[1], first, len(question.wrong & set(ids))


async def speed(url: str, facts: int) -> None:
    """The time of searches among many facts of one user, as a caller sees it and as the processor does."""
    rng = random.Random(SEED)
    async with Perdure.open(url) as store:
        memory = MemoryManager(store, user="many")
        written = 0
        while written < facts:
            batch = min(1000, facts - written)
            said = [f"{_chatter(rng)} no {written + at}" for at in range(batch)]
            await memory.add_messages([{"role": "user", "content": each} for each in said])
            written += batch
        await memory.search("warm up")
        wall: list[float] = []
        cpu: list[float] = []
        for _ in range(200):
            query = f"when did I order the {rng.choice(_THINGS)} with {rng.choice(_NAMES)}{rng.randrange(96)}?"
            begun, used = time.perf_counter(), time.process_time()
            await memory.search(query, 10)
            wall.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - used)
        both = [statistics.median(each) * 1000 for each in (wall, cpu)]
        print(f"search among {facts:,} facts: p50 {both[0]:.1f} ms, of which the processor works {both[1]:.1f} ms")


def main() -> None:
    """Measure."""
    facts, url = int(sys.argv[1]) if sys.argv[1:] else 0, sys.argv[2] if sys.argv[2:] else "memory://"
    asyncio.run(quality("memory://"))
    if facts:
        asyncio.run(speed(url, facts))


if __name__ == "__main__":
    main()
