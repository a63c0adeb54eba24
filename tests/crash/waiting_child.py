"""Processes that do one thing when they are told to, so that several begin at the same moment.

    python -m tests.crash.waiting_child WHAT ARGUMENT…

Each says "ready", does `WHAT` of this module after a line of input, and says what came of it as a line of JSON.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from perdure.core.errors import LeaseLostError, PerdureError, VersionConflictError
from perdure.storage.drive import drive
from perdure.storage.postgres.store import PostgresStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import SECOND, THREAD, Scribe

ROOT = Path(__file__).parents[2]


def now() -> int:
    """The time of this machine, which is the server's too."""
    return time.time_ns() // 1000


def set_up(url: str) -> Any:
    """Set a storage up, and say at which schema it is."""
    storage = PostgresStorage(url, mode="sync")
    schema = drive(storage.setup())
    drive(storage.close())
    return schema.schema


def upgrade(backend: str, at: str) -> Any:
    """Upgrade a storage to the made-up next release, and say at which schema and version it is then."""
    from tests.storage.made_up import NEXT, PLACES

    storage = PLACES[backend](at).open(NEXT)
    schema = drive(storage.setup())
    row = drive(storage.thread(THREAD))
    drive(storage.close())
    return [schema.schema, row and row.head]


def race(url: str, number: str, rounds: str) -> Any:
    """Try to be the one that writes after version 1, then after 2 … of a thread, and say how each try ended.

    Who has won or lost a version knows that the next one is there: nobody is ever too early.
    """
    storage = PostgresStorage(url, mode="sync")
    scribe = Scribe(storage, ManualClock(), seed=int(number))
    row = drive(storage.thread(THREAD))
    assert row is not None
    ended: list[tuple[bool, int]] = []
    for version in range(1, int(rounds) + 1):
        try:
            ended.append((True, drive(scribe.append(THREAD, uid=row.uid, expected=version)).version))
        except VersionConflictError as lost:
            ended.append((False, lost.actual))
    drive(storage.close())
    return ended


def hold(url: str, seconds: str) -> Any:
    """Hold a lease, wait to be told, and say how late writes, renewals and a release end."""
    storage = PostgresStorage(url, mode="sync")
    lease = drive(storage.claim(THREAD, "frozen", until=now() + int(float(seconds) * SECOND), now=now()))
    row = drive(storage.thread(THREAD))
    assert row is not None
    _say(lease.epoch)
    sys.stdin.readline()
    scribe = Scribe(storage, ManualClock())
    late = [
        scribe.append(THREAD, uid=row.uid, epoch=lease.epoch),
        scribe.append(THREAD, epoch=lease.epoch),
        storage.renew(THREAD, lease.epoch, until=now() + SECOND, now=now()),
        storage.release(THREAD, lease.epoch),
    ]
    return [_refusal(work) for work in late]


def _refusal(work: Any) -> str:
    try:
        drive(work)
    except LeaseLostError as lost:
        return f"{type(lost).__name__} at epoch {lost.actual}"
    except PerdureError as other:
        return repr(other)
    return "done"


def _say(answer: Any) -> None:
    print(msgspec.json.encode(answer).decode(), flush=True)


class Child:
    """A process that waits to be told."""

    def __init__(self, what: str, *arguments: object) -> None:
        words = [sys.executable, "-m", "tests.crash.waiting_child", what, *map(str, arguments)]
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def heard(self) -> Any:
        """What it says next."""
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.readline())

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.communicate()


def together(children: Sequence[Child]) -> list[Any]:
    """Let all begin at once, and return what came of each."""
    try:
        for child in children:
            assert child.heard() == "ready"
        for child in children:
            child.tell()
        return [child.heard() for child in children]
    finally:
        for child in children:
            child.end()


if __name__ == "__main__":
    _say("ready")
    sys.stdin.readline()
    _say({"set_up": set_up, "upgrade": upgrade, "race": race, "hold": hold}[sys.argv[1]](*sys.argv[2:]))
    os._exit(0)
