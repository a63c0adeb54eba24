"""Writes that nobody waits for: they are waited for at the end, and what cannot be written is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpointer import AgentState, BaseCheckpointer, InMemoryCheckpointer, SQLiteCheckpointer
from perdure.checkpointer import pending as waiting
from perdure.errors import BackgroundWriteError, InvalidInputError, SuspendedError
from tests.checkpointer.places import ALICE, BOB, said, texts


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SQLiteCheckpointer]:
    async with SQLiteCheckpointer(tmp_path / "s.db") as made:
        yield made


async def test_a_task_that_was_just_made_is_waited_for(tmp_path: Path) -> None:
    """S2.44: fire and forget from a synchronous node."""
    checkpointer = SQLiteCheckpointer(tmp_path / "s.db")
    tasks = [asyncio.create_task(checkpointer.aput_messages(ALICE, said(str(each)))) for each in range(20)]
    await checkpointer.arelease()
    assert all(task.done() for task in tasks)
    assert len(await SQLiteCheckpointer(tmp_path / "s.db").alist_messages(ALICE)) == 20


class Watching(SQLiteCheckpointer):
    async def aput_messages(self, config: Any, messages: Any, metadata: Any = None) -> None:
        """What a user's own says of it."""
        await asyncio.sleep(0.01)
        await super().aput_messages(config, messages, metadata)


class WatchingMore(Watching):
    async def aput_messages(self, config: Any, messages: Any, metadata: Any = None) -> None:
        await super().aput_messages(config, messages, metadata)


@pytest.mark.parametrize("cls", [Watching, WatchingMore])
async def test_so_is_one_of_a_subclass(cls: type[SQLiteCheckpointer], tmp_path: Path) -> None:
    """S2.44, S2.56."""
    checkpointer = cls(tmp_path / "s.db")
    task = asyncio.create_task(checkpointer.aput_messages(ALICE, said("one")))
    await checkpointer.arelease()
    assert task.done()
    assert Watching.aput_messages.__doc__ == "What a user's own says of it."
    assert len(await SQLiteCheckpointer(tmp_path / "s.db").alist_messages(ALICE)) == 1


async def test_messages_are_written_soon_in_order_and_before_a_release_ends(tmp_path: Path) -> None:
    """S2.8, S2.44."""
    checkpointer, config = SQLiteCheckpointer(tmp_path / "s.db"), dict(ALICE)
    for number in range(50):
        checkpointer.put_messages_soon(config, said(str(number)), {"node": "n"})
    config["thread_id"] = "reused by the caller"
    await checkpointer.arelease()
    found = await SQLiteCheckpointer(tmp_path / "s.db").alist_messages(ALICE, node="n")
    assert texts(found) == list(map(str, range(50)))


def test_synchronous_code_writes_soon_and_releases(tmp_path: Path) -> None:
    with SQLiteCheckpointer(tmp_path / "s.db") as checkpointer:
        checkpointer.put_messages_soon(ALICE, said("one"))
        checkpointer.flush()
        checkpointer.put_messages_soon(ALICE, said("two"))
    with SQLiteCheckpointer(tmp_path / "s.db") as again:
        assert texts(again.list_messages(ALICE)) == ["one", "two"]


async def test_what_is_wrong_with_a_write_is_said_at_once_where_it_can_be() -> None:
    checkpointer = InMemoryCheckpointer()
    for config, messages in (({}, []), (ALICE, "text")):
        with pytest.raises(InvalidInputError):
            checkpointer.put_messages_soon(config, messages)  # type: ignore[arg-type]


class Slow(InMemoryCheckpointer):
    """Writes nothing until it may."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.may, self.begun = threading.Event(), threading.Event()

    async def aput_messages(self, config: Any, messages: Any, metadata: Any = None) -> None:
        self.begun.set()
        self.may.wait()
        await super().aput_messages(config, messages, metadata)


def test_a_full_queue_tells_makes_callers_wait_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    checkpointer = Slow(max_pending_writes=3)

    def put() -> None:
        for number in range(12):
            checkpointer.put_messages_soon(ALICE, said(str(number)))

    caller = threading.Thread(target=put)
    with caplog.at_level(logging.WARNING, "perdure.checkpointer"):
        caller.start()
        checkpointer.begun.wait()
        caller.join(0.05)
        assert caller.is_alive()  # the queue is full
        checkpointer.may.set()
        caller.join()
        checkpointer.flush()
    assert "the background writer cannot keep up: 3 writes wait, callers wait with them" in caplog.messages
    assert texts(checkpointer.list_messages(ALICE)) == list(map(str, range(12)))
    checkpointer.release()


class Failing(InMemoryCheckpointer):
    async def aput_messages(self, config: Any, messages: Any, metadata: Any = None) -> None:
        if config["thread_id"] == "bad":
            raise OSError("the disk is full")
        await super().aput_messages(config, messages, metadata)


async def test_a_write_that_fails_is_logged_and_raised_by_the_next_flush(caplog: pytest.LogCaptureFixture) -> None:
    checkpointer = Failing()
    for thread in ("good", "bad", "bad", "good too"):
        checkpointer.put_messages_soon({"thread_id": thread}, said("hello"))
    with pytest.raises(BackgroundWriteError, match="2 background writes failed, the first: the disk is full") as told:
        await checkpointer.aflush()
    assert (told.value.thread_id, len(told.value.broken), str(told.value.__cause__)) == ("bad", 2, "the disk is full")
    assert [record.message for record in caplog.records] == ["a background write to thread 'bad' failed"] * 2
    await checkpointer.aflush()
    assert len(await checkpointer.alist_threads()) == 2
    checkpointer.put_messages_soon({"thread_id": "bad"}, said("hello"))
    with pytest.raises(BackgroundWriteError):
        await checkpointer.arelease()


def test_a_released_checkpointer_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        with SQLiteCheckpointer(tmp_path / "s.db") as checkpointer:
            checkpointer.put_messages_soon(ALICE, said("one"))
    assert set(threading.enumerate()) <= before


ENDS = """
import sys
from perdure.checkpointer import Message, SQLiteCheckpointer
checkpointer = SQLiteCheckpointer(sys.argv[1])
for number in range(20):
    checkpointer.put_messages_soon({"thread_id": "t"}, [Message.text_message(str(number))])
"""


def test_the_thread_of_a_checkpointer_that_nobody_released_ends_with_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    checkpointer = SQLiteCheckpointer(tmp_path / "s.db")
    for each in range(20):
        checkpointer.put_messages_soon(ALICE, said(str(each)))
    (serving,) = [each for each in set(threading.enumerate()) - before if each.name == "perdure checkpointer"]
    del checkpointer
    while serving.is_alive():  # as long as it writes, what is queued needs the checkpointer
        gc.collect()
        serving.join(0.01)
    with SQLiteCheckpointer(tmp_path / "s.db") as again:
        assert texts(again.list_messages(ALICE)) == [str(each) for each in range(20)]


def test_a_process_that_ends_without_a_release_writes_first(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ENDS, str(tmp_path / "s.db")], check=True)
    with SQLiteCheckpointer(tmp_path / "s.db") as checkpointer:
        assert texts(checkpointer.list_messages({"thread_id": "t"})) == list(map(str, range(20)))


async def test_a_call_that_is_cancelled_before_it_begins_leaves_nothing_to_wait_for(sqlite: Any) -> None:
    task = asyncio.create_task(sqlite.aput_messages(ALICE, said("never")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()  # a warning about a coroutine that was never awaited would be an error
    await asyncio.wait_for(sqlite.aflush(), 5)
    assert await sqlite.alist_messages(ALICE) == []


async def test_a_call_that_never_ends_is_told_of(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE", 0.02)
    checkpointer = InMemoryCheckpointer()
    held = checkpointer.aput_messages(ALICE, said("held"))
    await checkpointer.aflush()
    assert "1 calls of the checkpointer are not at their end" in caplog.text
    await held
    await checkpointer.aflush()


@pytest.mark.parametrize("kind", [InMemoryCheckpointer, SQLiteCheckpointer])
async def test_tasks_threads_and_the_background_share_one_checkpointer(kind: Any, tmp_path: Path) -> None:
    """S2.41: a node may be synchronous or not."""
    checkpointer: BaseCheckpointer = kind() if kind is InMemoryCheckpointer else kind(tmp_path / "s.db")

    def synchronous(number: int) -> None:
        for turn in range(5):
            checkpointer.put_messages(ALICE, said(f"thread {number} {turn}"))
            checkpointer.put_state({"thread_id": f"own {number}"}, AgentState(context=said("x" * 500 * turn)))

    async def asynchronous(number: int) -> None:
        for turn in range(5):
            checkpointer.put_messages_soon(ALICE, said(f"soon {number} {turn}"))
            await checkpointer.aput_messages(ALICE, said(f"task {number} {turn}"))
            await checkpointer.aput_state({"thread_id": f"other {number}"}, AgentState(context=said("y" * 300 * turn)))

    threads = [asyncio.to_thread(synchronous, number) for number in range(4)]
    await asyncio.gather(*threads, *(asynchronous(number) for number in range(4)))
    await checkpointer.aflush()
    found = texts(await checkpointer.alist_messages(ALICE))
    assert (len(found), len(set(found))) == (60, 60)
    for kind_of, number in ((name, each) for name in ("task", "soon", "thread") for each in range(4)):
        assert [each for each in found if each.startswith(f"{kind_of} {number} ")] == [
            f"{kind_of} {number} {turn}" for turn in range(5)
        ]
    states = [await checkpointer.aget_state({"thread_id": f"{who} {n}"}) for who in ("own", "other") for n in range(4)]
    assert {len(each.context[0].text()) for each in states if each} == {2000, 1200}
    report = await checkpointer.store.verify(restore=True)
    assert report.ok, report
    await checkpointer.arelease()


class Waiting(InMemoryCheckpointer):
    async def aput_state(self, config: Any, state: AgentState) -> AgentState:
        await asyncio.sleep(0)
        return await super().aput_state(config, state)


async def test_an_override_that_waits_cannot_be_called_by_synchronous_code() -> None:
    checkpointer = Waiting()
    await checkpointer.aput_state(ALICE, AgentState())
    with pytest.raises(SuspendedError, match="aput_state"):
        checkpointer.put_state(BOB, AgentState())
    assert await checkpointer.aget_state(BOB) is None
