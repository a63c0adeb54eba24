"""Commits of asynchronous callers on SQLite: on the event loop while the disk is quick, else on a thread."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from perdure import Perdure
from perdure.storage.sqlite.pace import Pace, Upkeep

SLOW, QUICK = 0.01, 0.0001


def test_a_disk_is_trusted_after_some_quick_commits() -> None:
    pace, seen = Pace(), list[bool]()
    for _ in range(20):
        seen.append(pace.is_quick)
        pace.note(QUICK)
    assert seen == [False] * 16 + [True] * 4


def test_one_slow_commit_sends_hundreds_to_the_thread() -> None:
    pace = Pace()
    for _ in range(16):
        pace.note(QUICK)
    pace.note(SLOW)
    seen: list[bool] = []
    for _ in range(300):
        seen.append(pace.is_quick)
        pace.note(QUICK)
    assert seen == [False] * 256 + [True] * 44


def test_a_disk_that_stays_slow_is_never_waited_for_on_the_event_loop() -> None:
    pace = Pace()
    for _ in range(1000):
        assert not pace.is_quick
        pace.note(SLOW)


def test_the_wal_is_copied_every_256_writes_however_they_are_grouped(tmp_path: Path) -> None:
    upkeep = Upkeep(str(tmp_path / "a.db"))
    assert [upkeep.note(64) for _ in range(8)] == [False, False, False, True] * 2


def test_the_wal_is_copied_sooner_when_it_grew(tmp_path: Path) -> None:
    upkeep = Upkeep(str(tmp_path / "a.db"))
    (tmp_path / "a.db-wal").write_bytes(bytes(5_000_000))
    assert [upkeep.note(1) for _ in range(20)].index(True) == 7
    assert not any(upkeep.note(1) for _ in range(100))


async def test_the_wal_stays_small_while_writes_go_on(tmp_path: Path) -> None:
    wal, largest = tmp_path / "a.db-wal", 0
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        thread = store.thread("t")
        for at in range(2000):
            await thread.append("messages", f"{at} " + "x" * 1000)
            largest = max(largest, wal.stat().st_size)
        assert len((await thread.load())["messages"]) == 2000
    assert largest < 12_000_000


async def test_the_wal_stays_small_while_large_values_are_written(tmp_path: Path) -> None:
    wal, largest, rng = tmp_path / "a.db-wal", 0, random.Random(1)
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        thread = store.thread("t")
        for _ in range(60):
            await thread.update(set={"page": rng.randbytes(600_000)})
            largest = max(largest, wal.stat().st_size)
    assert largest < 20_000_000


async def test_writers_of_many_tasks_are_all_answered(tmp_path: Path) -> None:
    """More than a group holds, so that some are left for the next one, and often enough for the WAL to be copied."""
    async with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        threads = [store.thread(f"t{at}") for at in range(300)]
        for _ in range(4):
            await asyncio.wait_for(asyncio.gather(*(each.append("log", 1) for each in threads)), 60)
        assert [len((await each.load())["log"]) for each in threads] == [4] * 300
