"""Commits of asynchronous callers on SQLite: on the event loop while the disk is quick, else on a thread."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.core.errors import StorageClosedError, StorageIOError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Silence
from perdure.core.writes import Appended
from perdure.storage.sqlite.pace import Company, Pace, Upkeep
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import MESSAGE, THREAD, Scribe

MESSAGES = ThreadKey("", "", "messages")
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


def test_a_commit_that_was_a_little_slow_is_doubted_for_a_little_while() -> None:
    pace = Pace()
    pace.note(0.0006)  # the first one of a connection, which syncs the folder too
    seen: list[bool] = []
    for _ in range(30):
        seen.append(pace.is_quick)
        pace.note(QUICK)
    assert seen == [False] * 19 + [True] * 11


def test_a_slow_commit_is_not_forgotten_over_one_that_was_less_slow() -> None:
    pace = Pace()
    pace.note(SLOW)
    pace.note(0.0006)
    for _ in range(255):
        pace.note(QUICK)
    assert not pace.is_quick


def test_writes_that_come_alone_are_made_at_once_and_every_fifth_waits_its_turn() -> None:
    company, seen = Company(), list[bool]()
    for _ in range(16 + 10):
        seen.append(company.is_absent())
        if not seen[-1]:
            company.note(1)
    assert seen == [False] * 16 + [True, True, True, True, False] * 2


def test_where_somebody_joined_writes_wait_their_turn_again() -> None:
    company = Company()
    for _ in range(16):
        company.note(1)
    assert company.is_absent()
    company.note(2)
    assert not company.is_absent()


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


async def test_short_writes_get_their_turn_between_long_ones(tmp_path: Path) -> None:
    storage, over = SqliteStorage(f"{tmp_path}/a.db", mode="async"), asyncio.Event()
    await storage.setup()

    async def slow(_: object) -> None:
        time.sleep(0.01)  # on the writer's thread

    async def go_on() -> None:
        while not over.is_set():
            await storage._write_long(slow)

    others = [asyncio.create_task(go_on()) for _ in range(2)]
    scribe = Scribe(storage, ManualClock())
    for _ in range(100):
        await asyncio.wait_for(scribe.append(), 10)
    over.set()
    await asyncio.gather(*others)
    assert len(await storage.entries(THREAD)) == 100
    await storage.close()


async def test_everybody_is_answered_when_the_file_cannot_be_looked_at(tmp_path: Path) -> None:
    """More than a group holds: those who are left are not forgotten, nor are those who come later."""
    folder = tmp_path / "folder"
    folder.mkdir()
    storage = SqliteStorage(f"{folder}/a.db", mode="async")
    await storage.setup()
    scribe = Scribe(storage, ManualClock())
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("")
    for _ in range(2):
        works = [scribe.append() for _ in range(300)]
        answers = await asyncio.wait_for(asyncio.gather(*works, return_exceptions=True), 30)
        assert {type(each) for each in answers} == {StorageIOError}
    await storage.close()


async def test_everybody_is_answered_when_a_store_is_closed_meanwhile(tmp_path: Path) -> None:
    for _ in range(20):
        storage = SqliteStorage(f"{tmp_path}/a.db", mode="async")
        await storage.setup()
        scribe = Scribe(storage, ManualClock())
        works = [asyncio.create_task(scribe.append()) for _ in range(300)]
        await asyncio.sleep(0)
        await storage.close()
        answers = await asyncio.wait_for(asyncio.gather(*works, return_exceptions=True), 30)
        assert {type(each) for each in answers} <= {Appended, StorageClosedError}


@pytest.mark.parametrize("quick", [True, False])
def test_two_event_loops_write_in_turn(tmp_path: Path, quick: bool) -> None:
    """In place or on the writer's thread, whichever the disk of this machine would have."""
    storage = SqliteStorage(f"{tmp_path}/a.db", mode="async")
    storage._port._pace.note = lambda _: None  # type: ignore[attr-defined, method-assign]
    storage._port._pace._missing = 0 if quick else 1  # type: ignore[attr-defined]
    asyncio.run(storage.setup())
    scribe = Scribe(storage, ManualClock())  # one: each would name its threads alike

    async def write(name: str) -> None:
        for _ in range(60):
            await asyncio.wait_for(asyncio.gather(*(scribe.append(ThreadKey("", "", name)) for _ in range(3))), 30)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: asyncio.run(write(name)), ("one", "two")))
    found = [asyncio.run(storage.entries(ThreadKey("", "", name))) for name in ("one", "two")]
    assert [len(each) for each in found] == [180, 180]
    asyncio.run(storage.close())


async def _quick(path: Path) -> SqliteStorage:
    """A storage on a disk that is always quick."""
    storage = SqliteStorage(f"{path}/a.db", mode="async", telemetry=(told := Told()))
    await storage.setup()
    storage._port._pace.note = lambda _: None  # type: ignore[attr-defined, method-assign]
    storage._port._pace._missing = 0  # type: ignore[attr-defined]
    told.counts.clear()
    storage.told = told  # type: ignore[attr-defined]
    return storage


class Told(Silence):
    """Counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        self.counts[name] += value


async def test_a_task_that_writes_without_a_pause_lets_others_in(tmp_path: Path) -> None:
    storage, rounds = await _quick(tmp_path), 0
    scribe = Scribe(storage, ManualClock())

    async def other() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    beside = asyncio.create_task(other())
    await scribe.grow(THREAD, 200)
    beside.cancel()
    assert rounds >= 200 // 5
    assert len(await storage.entries(THREAD)) == 200
    await storage.close()


async def test_tasks_that_write_side_by_side_soon_share_their_commits(tmp_path: Path) -> None:
    storage = await _quick(tmp_path)
    scribe = Scribe(storage, ManualClock())
    await scribe.grow(THREAD, 60)  # alone: made at once by now
    keys = [ThreadKey("", "", f"t{at}") for at in range(8)]
    await asyncio.gather(*(scribe.grow(key, 50) for key in keys))
    assert [len(await storage.entries(key)) for key in keys] == [50] * 8
    commits = storage.told.counts["perdure.sqlite.commits"] - 60  # type: ignore[attr-defined]
    assert commits < 400 / 3
    await storage.close()


async def test_a_write_that_is_made_at_once_and_refused_changes_nothing(tmp_path: Path) -> None:
    storage = await _quick(tmp_path)
    scribe = Scribe(storage, ManualClock())
    await scribe.grow(THREAD, 40)
    for _ in range(10):
        with pytest.raises(VersionConflictError):
            await scribe.append(expected=1)
        assert (await scribe.append(MESSAGES, MESSAGE)).row.key == MESSAGES
    assert [len(await storage.entries(key)) for key in (THREAD, MESSAGES)] == [40, 10]
    await storage.close()


async def test_a_write_that_would_be_made_at_once_waits_for_another_process(tmp_path: Path) -> None:
    storage = await _quick(tmp_path)
    scribe = Scribe(storage, ManualClock())
    await scribe.grow(THREAD, 40)
    other = sqlite3.connect(f"{tmp_path}/a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [asyncio.create_task(scribe.append()) for _ in range(3)]
    await asyncio.sleep(0.2)
    assert not any(each.done() for each in waiting)
    other.execute("COMMIT")
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert len(await storage.entries(THREAD)) == 43
    other.close()
    await storage.close()
