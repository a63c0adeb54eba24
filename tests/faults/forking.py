"""os.fork with an open store: played in a process of its own, which prints what happened.

python -m tests.faults.forking <play> <url>
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

import perdure
from perdure import sync
from perdure.core.errors import ForkedProcessError

PLAYS: dict[str, Callable[[str], None]] = {}
_PATIENCE = 4.0


def play(function: Callable[[str], None]) -> Callable[[str], None]:
    PLAYS[function.__name__] = function
    return function


def in_child(work: Callable[[], None], leave: bool = False) -> str:
    """Fork, do `work` in the child, and say how it ended: fine, forked (the error we promise), an error, or hung."""
    pid = os.fork()
    if not pid:
        try:
            work()
            code = 0
        except ForkedProcessError:
            code = 3
        except BaseException as exc:
            print(f"child: {exc!r}", flush=True)
            code = 4
        sys.exit(code) if leave else os._exit(code)
    return {0: "fine", 3: "forked", 4: "error", -9: "hung"}.get(_waited(pid), "died")


def _waited(pid: int) -> int:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def still_works(store: sync.Perdure, url: str, numbers: list[int]) -> bool:
    """Whether the parent writes and reads on, and a fresh store sees the same."""
    store.thread("t").append("n", len(numbers))
    wanted = {"n": [*numbers, len(numbers)]}
    with sync.Perdure.open(url) as fresh:
        return store.thread("t").load() == wanted and fresh.thread("t").load() == wanted


@play
def use_and_close(url: str) -> None:
    store = sync.Perdure.open(url)
    store.thread("t").append("n", 0)
    print("append", in_child(lambda: store.thread("t").append("n", 99) and None))
    print("load", in_child(lambda: store.thread("t").load() and None))
    print("close", in_child(store.close))
    print("works", still_works(store, url, [0]))


@play
def exit_normally(url: str) -> None:
    """The child leaves as programs do: finalisers and the garbage collector run."""
    store = sync.Perdure.open(url)
    store.thread("t").append("n", 0)
    print("leave", in_child(lambda: None, leave=True))
    print("works", still_works(store, url, [0]))


@play
def own_store_in_child(url: str) -> None:
    store = sync.Perdure.open(url)
    store.thread("t").append("n", 0)

    def own() -> None:
        with sync.Perdure.open(url) as mine:
            mine.thread("t").append("n", 1)

    print("own", in_child(own))
    print("works", still_works(store, url, [0, 1]))


@play
def while_another_thread_writes(url: str) -> None:
    """At the moment of the fork another thread is inside an operation and holds the locks of the store."""
    store = sync.Perdure.open(url)
    store.thread("t").append("n", 0)
    stop = threading.Event()
    threading.Thread(target=_busy, args=(store, stop), daemon=True).start()
    time.sleep(0.05)
    for name, work in (("append", lambda: store.thread("t").append("n", 9) and None), ("close", store.close)):
        print(name, *sorted({in_child(work) for _ in range(2)}))
    stop.set()
    time.sleep(0.1)
    print("works", still_works(store, url, [0]))


def _busy(store: sync.Perdure, stop: threading.Event) -> None:
    while not stop.is_set():
        store.thread("busy").save({"text": "x" * 50_000, "at": time.monotonic()})


@play
def asynchronous(url: str) -> None:
    asyncio.run(_asynchronous(url))


async def _asynchronous(url: str) -> None:
    store = perdure.Perdure.open(url)
    await store.thread("t").append("n", 0)

    def use() -> None:
        asyncio.events._set_running_loop(None)
        asyncio.run(_append(store))

    def close() -> None:
        asyncio.events._set_running_loop(None)
        asyncio.run(store.close())

    print("append", in_child(use))
    print("close", in_child(close))
    await store.thread("t").append("n", 1)
    with sync.Perdure.open(url) as fresh:
        print("works", await store.thread("t").load() == fresh.thread("t").load() == {"n": [0, 1]})


async def _append(store: perdure.Perdure) -> None:
    await store.thread("t").append("n", 99)


if __name__ == "__main__":
    PLAYS[sys.argv[1]](sys.argv[2])
