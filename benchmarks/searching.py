"""Conversations to search in: a long one and many short ones of the same user, and a word that few messages have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from benchmarks.report import compared
from benchmarks.scale import Bench
from benchmarks.stores import USER
from benchmarks.timing import Step, interleave, progress, timed
from benchmarks.workload import SEED, text
from perdure.sync import Perdure

WORD = "zephyr"  # nobody's text has it by itself
LISTED = 50
_RARE = 100  # one of so many messages has the word
_LONG, _SHORT = 400, 100  # messages of a round: for the long conversation, and for a new short one
_TEXT = 300  # characters
_START = 1_767_000_000_000_000  # microseconds


class RawRow(NamedTuple):
    """A message as somebody would keep it who only lists messages by time; as wide as a line of ours."""

    owner: int
    at: int
    id: str
    role: str
    node: str | None
    run: str | None
    tool_calls: int
    error: int
    tokens: int
    duration: int
    digest: bytes
    body: bytes


RAW_COLUMNS = ", ".join(RawRow._fields)


@dataclass(frozen=True, slots=True)
class Talk:
    """What is said: in the order of time, and which of it is in the long conversation."""

    messages: list[dict[str, Any]]

    def rounds(self) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        """What the long conversation gets and then a short one, again and again."""
        for at in range(0, len(self.messages), _LONG + _SHORT):
            some = self.messages[at : at + _LONG + _SHORT]
            yield some[:_LONG], some[_LONG:]

    def raw_rows(self) -> Iterator[RawRow]:
        """The same messages, each with a body as long as ours."""
        for at, message in enumerate(self.messages):
            body = msgspec.msgpack.encode(message)
            known = message["id"], message["role"]
            yield RawRow(1, _START + at, *known, None, None, 0, 0, 0, 0, sha256(body).digest(), b"\1\0\0" + body)

    def expected(self, *, long_only: bool) -> list[str]:
        """The ids of the messages that a search has to find, newest first."""
        said = [each for one, other in self.rounds() for each in (one if long_only else [*one, *other])]
        return [each["id"] for each in reversed(said) if WORD in each["content"]][:LISTED]


def talk(count: int) -> Talk:
    """The same messages for the same count, in every process."""
    rng = random.Random(f"{SEED} search")
    rare = {at + rng.randrange(_RARE) for at in range(0, count, _RARE)}
    return Talk([_message(rng, at, at in rare) for at in range(count)])


def _message(rng: random.Random, at: int, is_rare: bool) -> dict[str, Any]:
    said = f"{text(rng, 'words', _TEXT)} case {at}"
    content = f"{WORD} {said}" if is_rare else said
    return {"role": ("user", "assistant")[at % 2], "content": content, "id": f"msg_{rng.getrandbits(64):016x}"}


def fill(store: Perdure, said: Talk) -> None:
    """Say everything, and let the index be made."""
    thread, rounds = store.thread("long", user=USER), list(said.rounds())
    for at, (some, others) in enumerate(rounds):
        thread.add_messages(*some)
        store.thread(f"short-{at}", user=USER).add_messages(*others)
        progress("messages", at + 1, len(rounds))
    thread.messages(1, search=WORD)
    store.search(WORD, user=USER, limit=1)


def measure(bench: Bench, store: Perdure, said: Talk, select: Callable[[], list[Any]]) -> None:
    """Search one thread and all of them, beside a raw SELECT of as many rows by an index."""
    thread = store.thread("long", user=USER)
    _check(said, store, select())
    sides: dict[str, Step] = {
        "thread.messages": lambda _: timed(lambda: thread.messages(LISTED, search=WORD)),
        "store.search": lambda _: timed(lambda: store.search(WORD, user=USER, limit=LISTED)),
        "raw SELECT": lambda _: timed(select),
    }
    samples = interleave("search", bench.scale.repeats * 4, sides)
    count, judged = len(said.messages), not bench.scale.quick
    threads = sum(1 for _ in said.rounds()) + 1
    places = {"thread.messages": "the longest thread", "store.search": f"{threads:,} threads"}
    for side, place in places.items():
        name = f"newest {LISTED} of {count:,} messages with a rare word, {place}, ÷ raw SELECT of {LISTED} rows"
        bench.found(compared(name, side, "raw SELECT", samples, bar=10, judged=judged))


def _check(said: Talk, store: Perdure, rows: list[Any]) -> None:
    """A quick answer that is not the right one is no figure."""
    thread = store.thread("long", user=USER)
    one = [each["id"] for each in reversed(thread.messages(LISTED, search=WORD))]
    several = [each.id for each in store.search(WORD, user=USER, limit=LISTED)]
    wanted = said.expected(long_only=True), said.expected(long_only=False)
    if (one, several) != wanted or len(rows) != LISTED:
        raise AssertionError("a search did not find what was said")
