"""The command line on a long thread and on many threads: first pages beyond start-up, and one Tab of a shell."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.scale import Bench
from benchmarks.stores import open_store
from benchmarks.timing import Step, interleave, summary, timed

_PAGES = ("timeline long", "messages long", "threads", "show long")
_MS_A_PAGE, _MS_A_TAB, _KB_A_PAGE = 300, 200, 16_384
_EVERY = 1000  # entries between two saves of the long thread


def run(bench: Bench) -> None:
    """The store has a thread of `entries` entries, and twice as many threads as a folder of files is tried with."""
    path = bench.path("command_line")
    os.environ["PERDURE_STORE"] = f"sqlite:///{path}"
    _fill(f"sqlite:///{path}?synchronous=NORMAL", bench.scale.entries, 2 * bench.scale.threads)
    _pages(bench)
    _completion(bench)
    del os.environ["PERDURE_STORE"]


def _fill(url: str, entries: int, threads: int) -> None:
    store = open_store(url)
    long = store.thread("long")
    for at in range(0, entries, _EVERY):
        long.save({"turn": at}, note=f"turn {at}")
        long.add_messages(*({"role": "user", "content": f"message {at + number}"} for number in range(_EVERY - 1)))
    for number in range(threads):
        store.thread(f"thread-{number:05d}", user=f"user-{number % 50}").append("messages", "hi")
    store.close()


def _pages(bench: Bench) -> None:
    """In this process, which has imported everything: what is left is the page."""
    for line in _PAGES:
        _call(line)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sides: dict[str, Step] = {line: lambda _, line=line: timed(lambda: _call(line)) for line in _PAGES}
    samples = interleave("command line", bench.scale.repeats, sides)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    for line in _PAGES:
        found, name = summary(samples[line]), f"`perdure {line}`, first page beyond start-up"
        value, calm = found.median * 1e3, found.p10 * 1e3
        bench.found(Figure(name=name, value=value, calm=calm, unit="ms", bar=_MS_A_PAGE, sides={line: found}))
    bench.found(Figure(name="memory that these pages add", value=grown, unit="kB", bar=_KB_A_PAGE))


def _completion(bench: Bench) -> None:
    command = [str(Path(sys.executable).with_name("perdure")), "__complete", "bash", "perdure show thread-000"]
    sides: dict[str, Step] = {
        "Tab": lambda _: timed(lambda: subprocess.run(command, capture_output=True, check=True)),
    }
    found = summary(interleave("completion", bench.scale.repeats, sides)["Tab"])
    bench.found(
        Figure(name="completion of a thread id in a shell", value=found.median * 1e3, calm=found.p10 * 1e3, unit="ms",
               bar=_MS_A_TAB, sides={"Tab": found})
    )  # fmt: skip


def _call(line: str) -> None:
    from perdure.cli.main import main

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        try:
            main(line.split())
        except SystemExit as exc:
            if exc.code:
                raise AssertionError(f"perdure {line} ended with {exc.code}") from exc
