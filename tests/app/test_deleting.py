"""Taking messages back: they are listed and found no more, and nothing of them is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from perdure.core.errors import InvalidIdError, InvalidInputError
from tests.app.conversing import clock, kinds, numbers, store, texts, thread, told

__all__ = ["clock", "store", "thread"]
SECRET = "xyzzy-secret"


async def test_a_deleted_message_is_gone_and_the_log_tells_of_it(thread: Any) -> None:
    await thread.add_messages(told(f"{SECRET} draft", id="m1"), told("other", id="m2"))
    await thread.add_messages(told(f"{SECRET} final", id="m1"))
    assert len(await thread.messages(search=SECRET)) == 1
    assert await thread.delete_message("m1")
    assert texts(await thread.messages()) == texts([line.message for line in await thread.message_lines()]) == ["other"]
    assert await thread.messages(search=SECRET) == []
    assert await kinds(thread) == [*["message.added"] * 3, "message.deleted"]
    assert [entry.payload == b"" for entry in await thread.entries()] == [True, False, True, False]
    report = await thread.verify(restore=True)
    assert report.ok, report
    assert not await thread.delete_message("m1")
    assert not await thread.delete_message("unknown")


async def test_numbers_of_other_messages_stay_when_one_is_deleted(store: Any, thread: Any) -> None:
    await thread.add_messages(*(told(f"text {n}", id=f"m{n}") for n in range(1, 6)))
    await thread.add_messages(told("text 2, corrected", id="m2"), told("text 7", id="m7"))
    assert numbers(await thread.message_lines()) == [1, 2, 3, 4, 5, 7]
    await thread.delete_message("m2")
    assert numbers(await thread.message_lines()) == [1, 3, 4, 5, 7]
    assert numbers(await thread.message_lines(2, after="m1")) == [3, 4]
    fork = await thread.fork(to="fork")
    assert numbers(await fork.message_lines()) == [1, 3, 4, 5, 7]


async def test_an_id_that_was_deleted_can_be_said_again(thread: Any) -> None:
    await thread.add_messages(told("one", id="m1"), told("two"))
    await thread.delete_message("m1")
    await thread.add_messages(told("one", id="m1"))
    assert texts(await thread.messages()) == ["two", "one"]
    assert numbers(await thread.message_lines()) == [2, 3]


async def test_a_message_of_the_state_is_not_deleted(thread: Any) -> None:
    await thread.append("messages", {"id": "s1", "role": "user", "content": "hi"})
    with pytest.raises(InvalidInputError, match="'s1' is part of the state"):
        await thread.delete_message("s1")
    for bad in ("", None, 5, "a\0b"):
        with pytest.raises(InvalidIdError):
            await thread.delete_message(bad)
    assert len(await thread.messages()) == 1


async def test_what_is_deleted_in_a_thread_is_gone_from_its_forks(store: Any, thread: Any) -> None:
    await thread.add_messages(told(SECRET, id="m1"), told("other", id="m2"))
    fork = await thread.fork(to="fork")
    assert len(await fork.messages(search=SECRET)) == 1
    await thread.delete_message("m1")
    assert (await fork.analytics()).messages == 1
    assert texts(await fork.messages(search="other")) == ["other"]
    assert await fork.messages(search=SECRET) == []
    assert texts(await fork.messages()) == ["other"]
    assert [line.thread_id for line in await store.search("other", user="alice")] == ["fork", "t"]
    assert await store.search(SECRET, user="alice") == []
    for each in (thread, fork):
        report = await each.verify(restore=True)
        assert report.ok, report


async def test_what_a_fork_said_again_stays_when_its_parent_deletes_the_first(store: Any, thread: Any) -> None:
    await thread.add_messages(told("draft", id="m1"), told("other", id="m2"))
    fork = await thread.fork(to="fork")
    await fork.add_messages(told("final", id="m1"))
    assert texts(await fork.messages(search="")) == ["final", "other"]
    await thread.delete_message("m1")
    assert (await fork.analytics()).messages == 2
    assert texts(await fork.messages()) == texts([line.message for line in await fork.message_lines()])
    assert sorted(texts(await fork.messages())) == ["final", "other"]
    assert (await store.verify()).ok


async def test_what_is_deleted_in_a_fork_stays_in_its_parent(thread: Any) -> None:
    await thread.add_messages(told(SECRET, id="m1"), told("other", id="m2"))
    point = await thread.save({"n": 1})
    fork = await thread.fork(to="fork")
    assert await fork.delete_message("m1")
    assert texts(await fork.messages()) == texts([line.message for line in await fork.message_lines()]) == ["other"]
    assert texts(await thread.messages()) == [SECRET, "other"]
    await fork.save({"n": 2})
    await fork.rewind(point)
    assert texts(await fork.messages()) == texts([line.message for line in await fork.message_lines()]) == ["other"]
    for each in (thread, fork):
        report = await each.verify(restore=True)
        assert report.ok, report


async def test_nothing_of_a_deleted_message_is_left_in_a_pruned_thread(tmp_path: Path) -> None:
    with sync.Perdure.open(f"file://{tmp_path}/store") as store:
        thread = store.thread("t")
        thread.add_messages(told(SECRET, id="m1"), told("other", id="m2"))
        for n in range(5):
            thread.save({"n": n, "text": "x" * 500})
        thread.prune(1)
        thread.fork(to="fork").prune(1)
        assert thread.delete_message("m1")
        assert texts(thread.messages()) == ["other"]
        assert thread.verify(restore=True).ok
        store.compact()
    left = [path for path in (tmp_path / "store").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert left == []


async def test_a_deletion_is_exported_and_imported(store: Any, thread: Any, tmp_path: Path) -> None:
    await thread.add_messages(told(SECRET, id="m1"), told("other", id="m2"))
    await thread.save({"n": 1})
    await thread.delete_message("m1")
    await thread.change(metadata={"project": "x"})
    await store.export(thread, tmp_path / "t.export")
    await store.import_(tmp_path / "t.export", to="copy", user="alice")
    copy = store.thread("copy", user="alice")
    assert texts(await copy.messages()) == texts(await copy.messages(search="other")) == ["other"]
    assert (await copy.info()).metadata == {"project": "x"}
    assert (await copy.verify(restore=True)).ok
