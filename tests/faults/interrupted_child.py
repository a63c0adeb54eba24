"""A program that saves and appends while it is interrupted; run as a process of its own by test_interrupts.py.

python -m tests.faults.interrupted_child URL SECONDS [signals|cancels]

With signals, a thread of the process sends SIGINT to it at random moments, while another thread writes through the same
store. With cancels, tasks that write are cancelled at random moments. Every write is answered, interrupted or refused
with a typed error; what was answered has to be there once. At the end the program prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import perdure
from perdure import sync
from perdure.core.errors import PerdureError, VersionConflictError
from perdure.storage.drive import drive

THREAD, CALM = "hit", "calm"  # the thread that is written to under interrupts, and one of somebody undisturbed
WRITES = 2000  # that go to one thread
TASKS = 4
_MOST_SECONDS = 0.05
_PAUSES = (0.0005, 0.001, 0.002)


class Tally:
    """What was answered, and what was told instead."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.interrupts = 0
        self.errors: list[str] = []
        self.calm = 0  # writes of the undisturbed thread
        self.slowest = 0.0  # seconds that one of these took
        self.usual = 0.001  # seconds that a write takes

    def note(self, error: Exception) -> None:
        """An error is a fault of its own: nothing but interrupts happens here."""
        if not isinstance(error, VersionConflictError):  # an interrupted save had been made
            untyped = "" if isinstance(error, PerdureError) else "untyped "
            self.errors.append(f"{untyped}{type(error).__name__}: {error}")

    async def undisturbed(self, append: Callable[[str], Awaitable[object]]) -> None:
        """One write of somebody undisturbed, and how long it took."""
        began = time.monotonic()
        try:
            await append(f"c{self.calm + 1}")
            self.calm += 1
        except Exception as exc:
            self.errors.append(f"undisturbed: {type(exc).__name__}: {exc}")
        self.slowest = max(self.slowest, time.monotonic() - began)

    def report(self, threads: dict[str, list[str]], damage: str) -> dict[str, Any]:
        """What was told, and what stands: the items of each thread."""
        calm = threads.pop(CALM, [])
        stands = Counter(item for items in threads.values() for item in items)
        return {
            "interrupts": self.interrupts,
            "answered": len(self.answered),
            "calm": self.calm,
            "slowest": round(self.slowest, 3),
            "lost": [each for each in self.answered if stands[each] != 1][:20],
            "calm_lost": sorted({f"c{number}" for number in range(1, self.calm + 1)} ^ {*calm})[:20],
            "twice": [each for each, count in stands.items() if count != 1][:20],
            "errors": self.errors[:20],
            "damage": damage,
            "descriptors": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
        }


def name_of(number: int) -> str:
    """The thread of a write: a new one now and then, so that states stay small however long it goes on."""
    return f"{THREAD}{number // WRITES}" if number >= WRITES else THREAD


# ── Ctrl-C ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Writer:
    """Saves and appends by turns."""

    def __init__(self, store: sync.Perdure, tally: Tally) -> None:
        self._store, self._tally, self._number = store, tally, 0

    def work(self, end: float) -> None:
        while time.monotonic() < end:
            self._number += 1
            try:
                self._write(self._number)
            except KeyboardInterrupt:
                self._tally.interrupts += 1

    def _write(self, number: int) -> None:
        began = time.monotonic()
        try:
            thread = self._store.thread(name_of(number))
            if number % 3:
                thread.append("items", f"a{number}")
            else:
                state = thread.load(default={"items": []})
                state["items"] = [*state.get("items", []), f"a{number}"]
                thread.save(state)
            self._tally.answered.append(f"a{number}")
            self._tally.usual += (time.monotonic() - began - self._tally.usual) / 20
        except Exception as exc:
            self._tally.note(exc)


def _interrupt(stop: threading.Event, tally: Tally, seed: int) -> None:
    """Ctrl-C's at any moment of a write, however long these take here."""
    rng = random.Random(seed)
    time.sleep(0.3)  # the thread that starts this one waits for it, and is not what is tried
    while not stop.is_set():
        time.sleep(rng.random() * 3 * min(max(tally.usual, _PAUSES[0]), _MOST_SECONDS))
        os.kill(os.getpid(), signal.SIGINT)


def _undisturbed(store: sync.Perdure, tally: Tally, stop: threading.Event) -> None:
    """Another thread of the process: signals reach the main one only, and so must what they do."""

    async def append(item: str) -> None:
        store.thread(CALM).append("items", item)

    while not stop.wait(0.01):
        drive(tally.undisturbed(append))


def under_signals(url: str, seconds: float) -> dict[str, Any]:
    """Write while Ctrl-C's come."""
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")  # interrupted before it began
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored by what it starts behind
    tally, stop, still = Tally(), threading.Event(), threading.Event()
    store = sync.Perdure.open(url)
    store.thread(THREAD).save({"items": []})
    writer = Writer(store, tally)
    killer = threading.Thread(target=_interrupt, args=(stop, tally, 7), daemon=True)
    calm = threading.Thread(target=_undisturbed, args=(store, tally, still), daemon=True)
    sys.setswitchinterval(0.0001)
    end = time.monotonic() + seconds  # once: an interrupt may begin the loop again
    calm.start()
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
    still.set()
    calm.join(60)
    if calm.is_alive():
        tally.errors.append("undisturbed: it waits for ever")
    # Another opening sees what is stored, not what is remembered; a store in memory has none.
    with store if is_memory(url) else sync.Perdure.open(url) as opened:
        threads = {each.id: opened.thread(each.id).load().get("items", []) for each in opened.threads(10_000)}
        report = opened.verify()
    return tally.report(threads, "" if report.ok else str(report))


# ── cancelled tasks ───────────────────────────────────────────────────────────────────────────────────────────────────


async def _write(store: perdure.Perdure, tally: Tally, name: int, number: int) -> None:
    thread, item = store.thread(name_of(number)), f"a{name}.{number}"
    try:
        if number % 3:
            await thread.append("items", item)
        else:
            state = await thread.load(default={})
            await thread.save({"items": [*state.get("items", []), item]})
        tally.answered.append(item)
    except Exception as exc:
        tally.note(exc)


async def _cancelled(work: Coroutine[Any, Any, None], tally: Tally, rng: random.Random) -> None:
    """Run some work, and cancel it at a random moment if it is not over by then."""
    task = asyncio.create_task(work)
    if rng.random() < 0.8:
        pause = rng.choice((0.0, *_PAUSES)) * rng.random() * 4
        asyncio.get_running_loop().call_later(pause, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        tally.interrupts += 1


async def _writer(store: perdure.Perdure, tally: Tally, name: int, end: float) -> None:
    rng, number = random.Random(name), 0
    while time.monotonic() < end:
        number += 1
        await _cancelled(_write(store, tally, name, number), tally, rng)


async def _undisturbed_task(store: perdure.Perdure, tally: Tally, end: float) -> None:
    while time.monotonic() < end:
        await tally.undisturbed(lambda item: store.thread(CALM).append("items", item))
        await asyncio.sleep(0.01)


async def under_cancels(url: str, seconds: float) -> dict[str, Any]:
    """Write while tasks are cancelled."""
    tally, end = Tally(), time.monotonic() + seconds
    async with perdure.Perdure.open(url) as store:
        await store.thread(THREAD).save({"items": []})
        writers = [_writer(store, tally, name, end) for name in range(TASKS)]
        await asyncio.gather(_undisturbed_task(store, tally, end), *writers)
        await store.thread(THREAD).append("items", "last")  # what was handed to a writer before is done
        if is_memory(url):
            return await _looked(store, tally)
    async with perdure.Perdure.open(url) as other:
        return await _looked(other, tally)


async def _looked(store: perdure.Perdure, tally: Tally) -> dict[str, Any]:
    listed = await store.threads(10_000)
    threads = {each.id: (await store.thread(each.id).load()).get("items", []) for each in listed}
    report = await store.verify()
    return tally.report(threads, "" if report.ok else str(report))


def is_memory(url: str) -> bool:
    """Whether the store ends with its process."""
    return url.startswith("memory:")


def main(url: str, seconds: float, how: str = "signals") -> None:
    told = under_signals(url, seconds) if how == "signals" else asyncio.run(under_cancels(url, seconds))
    print(json.dumps(told), flush=True)
    sys.stdin.read()  # others look at the store while this process is still there


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
