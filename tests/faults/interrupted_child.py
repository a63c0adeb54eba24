"""A program that saves and appends while real Ctrl-C's hit it; run as a process of its own by test_interrupts.py.

python -m tests.faults.interrupted_child URL SECONDS

A thread of the process sends SIGINT to it at random moments. Every write is answered, interrupted or refused with a
typed error; what was answered has to stand. At the end the program prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from typing import Any

from perdure import sync
from perdure.core.errors import PerdureError, VersionConflictError


class Writer:
    """Saves and appends by turns, and knows what has to be there."""

    def __init__(self, url: str) -> None:
        self.answered: list[str] = []
        self.interrupts = 0
        self.untyped: list[str] = []
        self._number = 0
        self._store = sync.Perdure.open(url)

    def work(self, end: float) -> None:
        while time.monotonic() < end:
            self._number += 1
            try:
                self._write(self._number)
            except KeyboardInterrupt:
                self.interrupts += 1

    def _write(self, number: int) -> None:
        try:
            thread = self._store.thread("hit")
            if number % 3:
                thread.append("items", f"a{number}")
            else:
                state = thread.load(default={"items": []})
                state["items"] = [*state.get("items", []), f"a{number}"]
                thread.save(state)
            self.answered.append(f"a{number}")
        except VersionConflictError:
            pass  # an interrupted save had been made
        except PerdureError as exc:
            self.untyped.append(f"{type(exc).__name__}: {exc}")
        except Exception as exc:
            self.untyped.append(f"untyped {type(exc).__name__}: {exc}")


def _interrupt(stop: threading.Event, seed: int) -> None:
    rng = random.Random(seed)
    time.sleep(0.3)  # the thread that starts this one waits for it, and is not what is tried
    while not stop.is_set():
        time.sleep(rng.choice((0.0005, 0.001, 0.002)) * rng.random() * 2)
        os.kill(os.getpid(), signal.SIGINT)


def main(url: str, seconds: float) -> None:
    writer, stop = Writer(url), threading.Event()
    with sync.Perdure.open(url) as store:
        store.thread("hit").save({"items": []})
    killer = threading.Thread(target=_interrupt, args=(stop, 7), daemon=True)
    sys.setswitchinterval(0.0001)
    end = time.monotonic() + seconds  # once: an interrupt may begin the loop again
    killer.start()
    while True:
        try:
            writer.work(end)
            stop.set()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            break
        except KeyboardInterrupt:
            continue
    killer.join()
    print(json.dumps(_told(writer, url)), flush=True)
    sys.stdin.read()  # others look at the store while this process is still there


def _told(writer: Writer, url: str) -> dict[str, Any]:
    with sync.Perdure.open(url) as store:
        items = store.thread("hit").load()["items"]
        report = store.verify()
    return {
        "interrupts": writer.interrupts,
        "answered": len(writer.answered),
        "lost": [each for each in writer.answered if items.count(each) != 1],
        "twice": [each for each in set(items) if items.count(each) != 1],
        "errors": writer.untyped[:20],
        "damage": str(report) if not report.ok else "",
        "descriptors": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    }


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
