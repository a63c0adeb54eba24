"""Eight writers at once, each with a thread of its own: threads and tasks of one store beside LangGraph's savers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.peers.child import Peer, langgraph_postgres
from benchmarks.postgres.lab import Lab
from benchmarks.postgres.whole import NO_PEER
from benchmarks.report import Figure
from benchmarks.scale import Bench
from benchmarks.stores import USER, open_store
from benchmarks.timing import progress, summary, timed
from benchmarks.workload import State, Turn, opening_context
from perdure import Perdure, Thread, sync

WRITERS = 8
_BAR = 4
Round = Callable[[int, int], float]  # all writers play turns from … to …; the seconds of it


def run(bench: Bench) -> None:
    """Rounds of ours and of theirs take turns; every writer plays W through the whole-state door."""
    lab: Lab = bench.server
    for kind, opened in (("threads", _threads), ("tasks", _tasks)):
        peer = langgraph_postgres(lab.home("langgraph").url, "words", bench.scale.rounds * bench.scale.each)
        with opened(lab.home(kind).url, bench.turns()) as ours:
            _compare(bench, kind, ours, peer)
        if peer is not None:
            peer.close()


def _compare(bench: Bench, kind: str, ours: Round, peer: Peer | None) -> None:
    saver = "PostgresSaver" if kind == "threads" else "AsyncPostgresSaver"
    name = f"{WRITERS} writers ({kind} of one store): saves/s ÷ LangGraph's {saver} on a pool of {WRITERS}"
    if peer is None:
        bench.found(Figure(name=name, value=None, note=NO_PEER))
        return
    sides: dict[str, Round] = {"save": ours, "LangGraph put": lambda one, end: peer.ask(f"{kind} {one} {end}")}
    samples = _rounds(bench, kind, sides)
    mine, theirs = samples.values()
    found = {each: summary([seconds / (WRITERS * bench.scale.each) for seconds in samples[each]]) for each in samples}
    total = WRITERS * bench.scale.each * bench.scale.rounds
    turns = f"{bench.scale.each * bench.scale.rounds} turns each"
    note = f"{turns}, the first on; {total / sum(mine):.0f} saves/s beside {total / sum(theirs):.0f}"
    value = sum(theirs) / sum(mine)
    judged = not bench.scale.quick
    bench.found(Figure(name=name, value=value, bar=_BAR, sense="≥", judged=judged, note=note, sides=found))


def _rounds(bench: Bench, kind: str, sides: dict[str, Round]) -> dict[str, list[float]]:
    rng, each = random.Random(WRITERS), bench.scale.each
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for at in range(bench.scale.rounds):
        for name in rng.sample(list(sides), len(sides)):
            samples[name].append(sides[name](at * each, (at + 1) * each))
        progress(f"{WRITERS} {kind}", at + 1, bench.scale.rounds)
    return samples


@contextmanager
def _threads(url: str, turns: list[Turn]) -> Iterator[Round]:
    store = open_store(url)
    plays = [(store.thread(f"writer-{at}", user=USER), State(opening_context("words"))) for at in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as hands:

        def play(one: int, end: int) -> float:
            def write(each: tuple[sync.Thread, State]) -> None:
                thread, state = each
                for turn in turns[one:end]:
                    thread.save(state.take(turn))

            return timed(lambda: list(hands.map(write, plays)))

        yield play
    store.close()


@contextmanager
def _tasks(url: str, turns: list[Turn]) -> Iterator[Round]:
    with asyncio.Runner() as runner:
        store = Perdure.open(url)
        runner.run(store.__aenter__())
        plays = [(store.thread(f"writer-{at}", user=USER), State(opening_context("words"))) for at in range(WRITERS)]

        async def write(thread: Thread, state: State, one: int, end: int) -> None:
            for turn in turns[one:end]:
                await thread.save(state.take(turn))

        async def write_all(one: int, end: int) -> None:
            await asyncio.gather(*(write(thread, state, one, end) for thread, state in plays))

        yield lambda one, end: timed(lambda: runner.run(write_all(one, end)))
        runner.run(store.close())
