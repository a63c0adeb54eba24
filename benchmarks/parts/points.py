"""Points of a thread: forking from one, dropping most of them, comparing two."""

from __future__ import annotations

import itertools
import sys

import msgspec

from benchmarks.databases import OurDatabase, RawCommits, bytes_of
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import fill, handle, open_store
from benchmarks.timing import Step, interleave, timed
from benchmarks.workload import VARIANTS, Variant, final_state
from perdure.sync import Thread

_KEPT = 3
_FORKS = 50  # for the bytes of one
_PLACES = (100, 500, 900)  # messages that differ


def prune(bench: Bench) -> None:
    """The closed file after all but the newest three points were dropped and the space was given back."""
    for variant in VARIANTS:
        _pruned(bench, variant)


def _pruned(bench: Bench, variant: Variant) -> None:
    count, path = bench.scale.turns, bench.path(f"pruned {variant}")
    fill(f"sqlite:///{path}?synchronous=NORMAL", variant, bench.turns(variant)[:count])
    before = bytes_of(path)
    with open_store(f"sqlite:///{path}") as store:
        pruning, compacting = timed(lambda: handle(store).prune(_KEPT)), timed(store.compact)
    after = bytes_of(path)
    encoded = len(msgspec.msgpack.encode(final_state(variant, count)))
    note = f"{after:,} ÷ {encoded:,}, before {before:,}; prune {pruning:.2f} s, compact {compacting:.2f} s"
    # Letters that do not repeat take three quarters of their bytes at best: the bar is about words.
    bar, judged = (0.6 if variant == "words" else None), not bench.scale.quick
    name = f"bytes after keep-last-{_KEPT} and compact ÷ final encoded state at {count} turns, {variant}"
    bench.found(Figure(name=name, value=after / encoded, bar=bar, judged=judged, note=note))


def fork(bench: Bench) -> None:
    """A fork of a long thread with its first append, beside one raw commit; and what one takes on disk."""
    count = bench.scale.turns
    home, raw = OurDatabase(bench.path("fork")), RawCommits(bench.path("raw fork"))
    fill(home.url, "words", bench.turns()[:count])
    with open_store(home.url) as store:
        thread, names = handle(store), itertools.count()
        thread.load()
        sides: dict[str, Step] = {
            "fork": lambda _: timed(lambda: _branch(thread, None, next(names))),
            "fork in the past": lambda _: timed(lambda: _branch(thread, f"@{count // 2}", next(names))),
            "raw": lambda _: raw.commit(1500),
        }
        samples = interleave("fork", bench.scale.repeats, sides)
    for side in ("fork", "fork in the past"):
        name = f"{side} of {count} turns with its first append ÷ raw commit"
        bench.found(compared(name, side, "raw", samples, bar=6, judged=not bench.scale.quick))
    home.close()
    raw.close()
    _bytes_of_a_fork(bench, home.path)


def _branch(thread: Thread, ref: object, number: int) -> None:
    thread.fork(ref, to=f"fork {number}").append("messages", {"role": "user", "content": "and what if"})


def _bytes_of_a_fork(bench: Bench, path: str) -> None:
    before = bytes_of(path)
    with open_store(f"sqlite:///{path}") as store:
        for number in range(_FORKS):
            _branch(handle(store), None, sys.maxsize - number)
    grown = (bytes_of(path) - before) / _FORKS
    bench.found(Figure(name="bytes on disk of a fork with its first append", value=grown, unit=" bytes", bar=4096))


def compare(bench: Bench) -> None:
    """Two states of 1,000 messages that differ in three places, beside loading both."""
    count, path = bench.scale.turns, bench.path("compare")
    fill(f"sqlite:///{path}?synchronous=NORMAL", "words", bench.turns()[:count])
    with open_store(f"sqlite:///{path}") as store:
        thread = handle(store)
        state = thread.load()
        for at in _PLACES:
            state["messages"][at % count]["content"] += " and more"
        thread.save(state)
        sides: dict[str, Step] = {
            "compare": lambda _: timed(lambda: thread.compare("@-2", "@-1")),
            "load both": lambda _: timed(lambda: [thread.load("@-2"), thread.load("@-1")]),
        }
        samples = interleave("compare", bench.scale.repeats, sides)
    name = f"compare two states of {count} messages that differ in {len(_PLACES)} places ÷ loading both"
    bench.found(compared(name, "compare", "load both", samples, bar=3, judged=not bench.scale.quick))
