"""Reads of asynchronous callers on SQLite: glances are cast on the event loop, and hold up nobody."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from perdure.core.errors import StorageClosedError
from perdure.core.identity import ThreadKey
from perdure.storage.sqlite.looking import Looking
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import THREAD, Scribe


def looking(storage: SqliteStorage) -> Looking:
    return storage._port._looking  # type: ignore[attr-defined, no-any-return]


def trust(storage: SqliteStorage) -> None:
    """Whatever this machine had to do meanwhile, glances are quick."""
    looking(storage)._pace._missing = 0


@pytest_asyncio.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = SqliteStorage(f"{tmp_path}/a.db", mode="async")
    await storage.setup()
    await Scribe(storage, ManualClock()).append()
    yield storage
    await storage.close()


async def test_a_glance_is_cast_on_the_event_loop_once_two_were_quick(storage: SqliteStorage) -> None:
    threads: set[int] = set()
    transact = looking(storage)._connection.transact

    def seen(job: Any, begin: str) -> Any:
        threads.add(threading.get_ident())
        return transact(job, begin)

    looking(storage)._connection.transact = seen  # type: ignore[method-assign]
    for _ in range(2):
        await storage.thread(THREAD)
    assert threading.get_ident() not in threads
    trust(storage)
    threads.clear()
    row = await storage.thread(THREAD)
    assert (row and row.head, threads) == (1, {threading.get_ident()})


async def test_who_only_glances_lets_others_in(storage: SqliteStorage) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(other())
    looking(storage)._pace.note = lambda _: None  # type: ignore[method-assign]
    trust(storage)
    for _ in range(170):
        await storage.thread(THREAD)
    beside.cancel()
    assert turns >= 10


async def test_nobody_overtakes_who_waits(storage: SqliteStorage) -> None:
    order: list[int] = []

    async def look(number: int) -> None:
        await storage.thread(THREAD)
        order.append(number)

    for _ in range(20):
        order.clear()
        await asyncio.gather(*map(look, range(60)))
        assert order == list(range(60))


async def test_a_connection_is_not_opened_on_the_event_loop_nor_waited_with(
    storage: SqliteStorage, tmp_path: Path
) -> None:
    await storage.thread(THREAD)
    trust(storage)
    other = sqlite3.connect(f"{tmp_path}/a.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    looking(storage)._connection.close()  # as after an input or output error
    storage._port._writing.close()  # type: ignore[attr-defined]
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(storage.thread(THREAD))
    began = time.monotonic()
    await asyncio.sleep(0.3)
    assert time.monotonic() - began < 2  # not the five seconds that the thread would wait
    assert not waiting.done()
    other.close()
    row = await asyncio.wait_for(waiting, 10)
    assert row is not None
    assert row.head == 1


def test_a_store_that_is_closed_under_glances_of_another_loop_says_so(tmp_path: Path) -> None:
    """A connection that was closed under a statement would end the process."""
    for _ in range(20):
        storage, begun = SqliteStorage(f"{tmp_path}/a.db", mode="async"), threading.Event()
        asyncio.run(storage.setup())
        asyncio.run(_glance_twice(storage))

        async def glance(storage: SqliteStorage = storage, begun: threading.Event = begun) -> None:
            trust(storage)
            while True:
                await storage.thread(THREAD)
                begun.set()

        with ThreadPoolExecutor(1) as pool:
            glancing = pool.submit(lambda glance=glance: asyncio.run(glance()))
            begun.wait(10)
            asyncio.run(storage.close())
            with pytest.raises(StorageClosedError):
                glancing.result(30)


async def _glance_twice(storage: SqliteStorage) -> None:
    for _ in range(2):
        await storage.thread(THREAD)


async def test_glances_of_many_tasks_and_loops_see_what_was_written(storage: SqliteStorage) -> None:
    scribe = Scribe(storage, ManualClock(), seed=2)

    async def look(key: ThreadKey) -> None:
        for head in range(1, 40):
            await scribe.append(key)
            row = await storage.thread(key)
            assert row
            assert row.head == head

    await asyncio.gather(*(look(ThreadKey("", "", f"t{at}")) for at in range(6)))
    with ThreadPoolExecutor(2) as pool:
        keys = [ThreadKey("", "", name) for name in ("x", "y")]
        found = [
            asyncio.get_running_loop().run_in_executor(pool, lambda key=key: asyncio.run(look(key))) for key in keys
        ]
        await asyncio.gather(*found)
