"""What a kill, an end and a fork of the process do to background writes, in processes of their own.

python -m tests.storage.test_background_processes <play> <mode> <folder>
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import ForkedProcessError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadQuery
from perdure.core.writes import Write
from perdure.storage.background.ports import open_queue
from perdure.storage.background.store import BackgroundStorage
from perdure.storage.drive import drive
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.scribe import MESSAGE, STATE, Scribe
from tests.contract.backends import MODES

ROOT = Path(__file__).parents[2]
KEYS = [ThreadKey("", "alice", f"t{n}") for n in range(3)]
KILLS = 5  # in each mode
FLUSH = 43  # acknowledged writes between two flushes
MANY = 200


# The plays.


def opened(mode: Mode, folder: Path) -> BackgroundStorage:
    return BackgroundStorage(SqliteStorage(str(folder / "agents.db"), mode=mode), open_queue(mode))


def numbered(scribe: Scribe, n: int) -> Write:
    """The nth write: its id tells which it is, its thread follows from it."""
    return scribe.write(KEYS[n % len(KEYS)], STATE, MESSAGE, write_id=n.to_bytes(12, "big"))


async def write_for_ever(storage: BackgroundStorage) -> None:
    """Report every acknowledgement and every flush, until the kill."""
    await storage.setup()
    scribe = Scribe(storage, ManualClock())
    for n in itertools.count():
        await storage.append(numbered(scribe, n))
        os.write(1, f"a {n}\n".encode())
        if n % FLUSH == FLUSH - 1:
            await storage.flush()
            os.write(1, f"f {n}\n".encode())


async def write_many_and_end(storage: BackgroundStorage) -> None:
    """Never closes, never waits."""
    await storage.setup()
    scribe = Scribe(storage, ManualClock())
    for n in range(MANY):
        await storage.append(numbered(scribe, n))


async def write_many_and_exit(storage: BackgroundStorage) -> None:
    """Ends the program from inside: an event loop stops at once then, and tasks that never ran are cancelled."""
    await write_many_and_end(storage)
    sys.exit(0)


async def fork_while_writing(storage: BackgroundStorage) -> None:
    """Both kinds of use in a child, which is told, and a child that leaves as programs do."""
    await write_many_and_end(storage)
    for name, work in CHILD.items():
        code = _in_child(lambda work=work: work(storage), leave=name == "leave")
        os.write(1, f"{name} {code}\n".encode())
    await storage.flush()


CHILD: dict[str, Callable[[BackgroundStorage], Any]] = {
    "append": lambda storage: drive(storage.append(numbered(Scribe(storage, ManualClock()), 0))),
    "thread": lambda storage: drive(storage.thread(KEYS[0])),
    "flush": lambda storage: drive(storage.flush()),
    "close": lambda storage: drive(storage.close()),
    "leave": lambda storage: None,
}


def _in_child(work: Callable[[], Any], leave: bool) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 0
    try:
        asyncio.events._set_running_loop(None)
        work()
    except ForkedProcessError:
        code = 3
    if leave:
        raise SystemExit(code)
    os._exit(code)


PLAYS = {play.__name__: play for play in (write_for_ever, write_many_and_end, write_many_and_exit, fork_while_writing)}

if __name__ == "__main__":
    storage = opened(sys.argv[2], Path(sys.argv[3]))  # type: ignore[arg-type]
    (drive if sys.argv[2] == "sync" else asyncio.run)(PLAYS[sys.argv[1]](storage))


# What is left of them.


@contextmanager
def playing(play: str, mode: Mode, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.storage.test_background_processes", play, mode, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def standing(folder: Path) -> dict[ThreadKey, list[int]]:
    """The numbers of the writes that stand, by thread; every log is whole."""
    storage = SqliteStorage(str(folder / "agents.db"), mode="sync")
    found: dict[ThreadKey, list[int]] = {}
    for row in drive(storage.threads(ThreadQuery())):
        entries = drive(storage.entries(row.key))
        assert verify_links(row.key.id, 0, GENESIS, entries) == row.head_digest
        assert [entry.kind for entry in entries] == [STATE, MESSAGE] * (len(entries) // 2)
        found[row.key] = [int.from_bytes(entry.write_id, "big") for entry in entries[::2]]
    drive(storage.close())
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_kill_takes_the_end_of_a_log_and_nothing_that_was_flushed(mode: Mode, tmp_path: Path) -> None:
    chance, lost = random.Random(3), 0
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        folder.mkdir()
        acknowledged, flushed = _killed_after(chance.randrange(50, 300), mode, folder)
        found = standing(folder)
        for key, numbers in found.items():
            assert numbers == list(range(KEYS.index(key), 10**6, len(KEYS)))[: len(numbers)]
        kept = {n for numbers in found.values() for n in numbers}
        assert kept >= set(range(flushed + 1))
        lost += len(set(range(acknowledged + 1)) - kept)
    print(f"{mode}: {lost} acknowledged writes were lost in {KILLS} kills")
    assert lost > 0  # else nothing was queued, and nothing was shown


def _killed_after(reports: int, mode: Mode, folder: Path) -> tuple[int, int]:
    """Kill a writer after so many reports, and return the last write it acknowledged and the last it flushed."""
    with playing("write_for_ever", mode, folder) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(reports)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    last = {"a": -1, "f": -1}
    for line in lines:
        if line.endswith("\n"):
            kind, number = line.split()
            last[kind] = int(number)
    return last["a"], last["f"]


@pytest.mark.parametrize("play", ["write_many_and_end", "write_many_and_exit"])
@pytest.mark.parametrize("mode", MODES)
def test_a_program_that_ends_without_closing_loses_nothing(mode: Mode, play: str, tmp_path: Path) -> None:
    with playing(play, mode, tmp_path) as process:
        said = process.communicate()
    assert (process.returncode, said) == (0, ("", ""))
    assert sorted(n for numbers in standing(tmp_path).values() for n in numbers) == list(range(MANY))


@pytest.mark.parametrize("mode", MODES)
def test_a_forked_child_is_told_and_the_parent_loses_nothing(mode: Mode, tmp_path: Path) -> None:
    with playing("fork_while_writing", mode, tmp_path) as process:
        out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    told = dict(line.split() for line in out.splitlines())
    assert told == {"append": "3", "thread": "3", "flush": "3", "close": "0", "leave": "0"}
    assert sorted(n for numbers in standing(tmp_path).values() for n in numbers) == list(range(MANY))
