"""What a folder of files costs as it grows: threads in it, entries of a log, bytes, memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.scale import Bench
from benchmarks.stores import USER
from benchmarks.timing import progress, summary, timed
from benchmarks.workload import State, final_state, opening_context
from perdure.core.codec import encode
from perdure.sync import Perdure
from perdure.sync.run import Run

NOTES = (
    "Milliseconds of one call in a process that has the store open; the first call of a process, which reads the"
    " directory, stands beside it. Of 100 threads one waits for an answer and five had a run.",
    "Memory: what a process of its own takes more after it loaded each thread.",
)
_PAGE_MS, _RECOVER_MS = 50.0, 20.0
_MEMORY_THREADS, _MEMORY_ENTRIES = 200, 500
_CHILD = """
import os, sys
from perdure.sync import Perdure

def resident():  # the longest ever, as getrusage gives it, is that of the parent at first
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

store = Perdure.open(sys.argv[1])
store.setup()
before = resident()
for number in range(int(sys.argv[2])):
    store.thread(f"m{number}").load()
    store.thread(f"m{number}").entries(limit=1)
    store.thread(f"m{number}").append("items", "keyed", key="once")
print(resident() - before)
"""


def _url(bench: Bench, name: str) -> str:
    return f"file:{Path(bench.path(name)).with_suffix('')}"


def threads(bench: Bench) -> None:
    """First pages and an idle recovery of a store with many threads."""
    url, count = _url(bench, "threads"), bench.scale.threads
    with Perdure.open(url) as store:
        _fill(store, count)
    calls: dict[str, tuple[Callable[[Perdure], object], float]] = {
        "threads": (lambda store: store.threads(50), _PAGE_MS),
        "runs": (lambda store: store.runs(), _PAGE_MS),
        "pauses": (lambda store: store.pauses(), _PAGE_MS),
        "info by id": (lambda store: store.thread("t1", user="u1").info(), _PAGE_MS),
        "idle recover": (lambda store: store.recover(), _RECOVER_MS),
    }
    for name, (call, bar) in calls.items():
        with Perdure.open(url) as store:
            store.setup()
            store.handler("ask")(_ask)
            first = timed(lambda call=call, store=store: call(store)) * 1000
            times = summary([timed(lambda call=call, store=store: call(store)) for _ in range(bench.scale.repeats)])
        bench.found(
            Figure(
                name=f"{name}, {count:,} threads", value=times.median * 1000, unit="ms", bar=bar,
                note=f"first call of a process {first:.0f} ms", sides={name: times},
            )
        )  # fmt: skip


def _ask(run: Run) -> object:
    return bool(run.pause("go on", ask="Go on?")) if run.input else None


def _fill(store: Perdure, count: int) -> None:
    store.handler("ask")(_ask)
    for number in range(count):
        thread = store.thread(f"t{number}", user=f"u{number % 100}")
        thread.append("messages", {"role": "user", "content": f"hello {number}"})
        if number % 20 == 0:
            store.start("ask", number % 100 == 0, thread=thread)
        progress("threads", number + 1, count)
    store.recover()


def log(bench: Bench) -> None:
    """A cold load of the newest state, of a short and of a long log."""
    url, long = _url(bench, "log"), bench.scale.entries
    short, sides = max(long // 100, 10), {}
    with Perdure.open(url) as store:
        for count, name in ((short, "short"), (long, "long")):
            thread = store.thread(name, user=USER)
            for number in range(count):
                thread.update(set={f"key {number % 50}": f"{number} " * 10})
                progress(f"entries of the {name} log", number + 1, count)
    for name in ("short", "long"):
        sides[name] = summary([_cold(url, name) for _ in range(bench.scale.repeats)])
    value = sides["long"].median / sides["short"].median
    bench.found(Figure(name=f"cold load, {long:,} entries ÷ {short:,}", value=value, bar=2.0, sides=sides))


def _cold(url: str, name: str) -> float:
    with Perdure.open(url) as store:
        store.setup()
        return timed(lambda: store.thread(name, user=USER).load())


def size(bench: Bench) -> None:
    """Bytes of everything after whole-state saves, beside the final state."""
    url, turns = _url(bench, "bytes"), bench.scale.turns
    state = State(opening_context("words"))
    with Perdure.open(url) as store:
        thread = store.thread("t", user=USER)
        for at, turn in enumerate(bench.turns()[:turns]):
            thread.save(state.take(turn))
            progress("saves", at + 1, turns)
    used = sum(path.stat().st_size for path in Path(url.removeprefix("file:")).rglob("*") if path.is_file())
    final = len(encode(final_state("words", turns)))
    bench.found(
        Figure(name=f"bytes ÷ final state, {turns:,} saves", value=used / final, bar=2.5, judged=not bench.scale.quick)
    )


def memory(bench: Bench) -> None:
    """What a process that looked into many logs keeps of them."""
    url, count = _url(bench, "memory"), max(bench.scale.threads * _MEMORY_THREADS // 10_000, 2)
    with Perdure.open(url) as store:
        for number in range(count):
            thread = store.thread(f"m{number}")
            for entry in range(_MEMORY_ENTRIES):
                thread.append("items", entry)
            progress("logs", number + 1, count)
    done = subprocess.run([sys.executable, "-c", _CHILD, url, str(count)], check=True, capture_output=True, text=True)
    bench.found(
        Figure(
            name=f"memory for {count:,} threads of {_MEMORY_ENTRIES} entries", value=float(done.stdout), unit="MB",
            bar=60.0,
        )
    )  # fmt: skip


PARTS: dict[str, Callable[[Bench], None]] = {"threads": threads, "log": log, "bytes": size, "memory": memory}
