"""Rows that somebody changed or deleted: the thread is damaged, never absent or shorter, and nobody else notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import ANY_USER, Perdure, sync
from perdure.core.errors import DamagedError, NotFoundError, StorageDamagedError
from perdure.storage.drive import drive
from tests.checkpoints.places import PLACES

LOST = "the directory line of thread 't' is damaged: it is gone"


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PLACES[request.param](tmp_path)[0]


@pytest.fixture
def store(url: str) -> Iterator[sync.Perdure]:
    with sync.Perdure.open(url) as store:
        for user in ("ann", "bob"):
            store.thread("t", user=user).save({"owner": user}, note="first")
            store.thread("t", user=user).add_messages([{"role": "user", "content": f"{user} says"}])
        store.thread("other", user="ann").save({"n": 1})
        store.search("says")
        yield store


def run(store: sync.Perdure, statement: str, *values: Any) -> None:
    """Somebody else's statement."""
    storage = store._store._parts.storage
    table = storage._port.sql.dialect.table if hasattr(storage._port, "sql") else "perdure_{}".format

    async def job(tx: Any) -> None:
        tables = {name: table(name) for name in ("thread", "entry", "catalog")}
        await tx.run(tx.sql.dialect.bound(statement.format(**tables)), values)

    drive(storage._run.write(job))


def lose(store: sync.Perdure, user: str) -> None:
    """Delete the row of a user's thread."""
    run(store, "DELETE FROM {thread} WHERE id = ? AND user_id = ?", "t", user)


QUESTIONS: dict[str, Callable[[sync.Perdure], object]] = {
    "load": lambda store: store.thread("t", user="ann").load(default=None),
    "load a version": lambda store: store.thread("t", user="ann").load("@1"),
    "entries": lambda store: store.thread("t", user="ann").entries(),
    "messages": lambda store: store.thread("t", user="ann").messages(),
    "history": lambda store: store.thread("t", user="ann").history(),
    "info": lambda store: store.thread("t", user="ann").info(),
    "save": lambda store: store.thread("t", user="ann").save({"new": True}),
    "append": lambda store: store.thread("t", user="ann").append("items", 1),
    "fork": lambda store: store.thread("t", user="ann").fork(to="branch"),
    "start": lambda store: store.start("work", thread="t", user="ann"),
}  # fmt: skip


@pytest.mark.parametrize("is_open", [True, False], ids=["to whoever wrote it", "to another process"])
def test_a_thread_without_its_row_is_damaged_for_every_question(store: sync.Perdure, url: str, is_open: bool) -> None:
    lose(store, "ann")
    with sync.Perdure.open(url) as other:
        asked = store if is_open else other
        asked.handler("work")(lambda run: None)
        for name, ask in QUESTIONS.items():
            with pytest.raises(StorageDamagedError, match=LOST):
                raise AssertionError(f"{name}: {ask(asked)!r}")
        assert store.thread("t", user="bob").load() == {"owner": "bob"}
        assert store.thread("t", user=ANY_USER).load() == {"owner": "bob"}
        assert store.thread("nowhere", user="ann").load(default=7) == 7
        lose(store, "bob")
        with pytest.raises(StorageDamagedError, match=LOST):
            other.thread("t", user=ANY_USER).load(default=None)


async def test_asynchronous_callers_are_told_too(store: sync.Perdure, url: str) -> None:
    lose(store, "ann")
    async with Perdure.open(url) as other:
        with pytest.raises(StorageDamagedError, match=LOST):
            await other.thread("t", user="ann").load(default=None)


def test_verify_compares_the_threads_with_the_catalog(store: sync.Perdure) -> None:
    assert store.verify().ok
    lose(store, "ann")
    (found,) = store.verify().damaged
    assert (found.thread_id, found.user, found.place, found.derived) == ("t", "ann", "directory line", False)
    assert [(each.thread_id, each.user) for each in store.damaged()] == [("t", "ann")]
    assert store.verify(user="bob").ok
    assert not store.verify(user="ann").ok
    assert [(each.thread_id, each.user) for each in store.repair().left] == [("t", "ann")]
    run(store, "DELETE FROM {entry}")  # … and nothing else is left of any thread
    assert {(each.thread_id, each.user) for each in store.verify().damaged if not each.derived} >= {("t", "ann")}


def test_what_is_left_of_it_can_be_deleted(store: sync.Perdure) -> None:
    branch = store.thread("t", user="bob").fork(to="branch")
    for user in ("ann", "bob"):
        lose(store, user)
    assert store.thread("t", user="ann").delete()
    assert store.thread("t", user="ann").load(default=None) is None
    assert store.thread("t", user="ann").save({"again": 1}).version == 1
    assert [each.user for each in store.damaged()] == ["bob"]
    assert store.thread("t", user="bob").delete()
    with pytest.raises(DamagedError, match=r"its parent .* is gone"):
        branch.load()
    assert store.damaged() == []


def test_a_catalog_without_a_thread_is_mended(store: sync.Perdure) -> None:
    run(store, "DELETE FROM {catalog} WHERE user_id = ?", "ann")
    report = store.verify()
    assert {(each.thread_id, each.place, each.derived) for each in report.damaged} == {
        ("t", "catalog", True),
        ("other", "catalog", True),
    }
    assert store.repair().ok
    assert store.verify().ok
    lose(store, "ann")
    assert not store.verify().ok


def test_deleted_hidden_and_copied_threads_are_not_lost(store: sync.Perdure, tmp_path: Path) -> None:
    store.thread("t", user="ann").fork(to="branch")
    store.export("branch", tmp_path / "branch.perdure", user="ann")
    store.import_(tmp_path / "branch.perdure", to="copy", user="carl")
    assert store.thread("t", user="ann").delete()  # its fork needs it
    assert store.thread("t", user="ann").load(default=None) is None
    with pytest.raises(NotFoundError):
        store.thread("t", user="ann").load()
    store.thread("t", user="ann").save({"again": True})
    for name in ("branch", "t"):
        assert store.thread(name, user="ann").delete()
    assert store.thread("copy", user="carl").load() == {"owner": "ann"}
    assert store.verify().ok
    assert store.damaged() == []


def test_traces_of_a_thread_that_nothing_names_are_counted(store: sync.Perdure) -> None:
    lose(store, "ann")
    run(store, "DELETE FROM {catalog} WHERE user_id = ? AND id = ?", "ann", "t")
    told = [str(each) for each in store.verify().damaged]
    assert [each.partition("; ")[2] for each in told] == [
        "checkpoints there: 1", "entries there: 2", "indexes of messages there: 1",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["message.addeb", "thread.tagged"], ids=["unknown", "another"])
def test_an_entry_whose_kind_was_changed_is_not_passed_over(store: sync.Perdure, kind: str) -> None:
    thread = store.thread("talk", user="ann")
    for number in range(3):
        thread.add_messages([{"role": "user", "content": f"{number}"}])
    thread.fork(to="branch")
    tenth = "(SELECT \"row\" FROM {thread} WHERE id = 'talk') * 4294967296 + 2"
    run(store, f'UPDATE {{entry}} SET kind = ? WHERE "row" = {tenth}', kind)
    for name in ("talk", "branch"):
        asked = store.thread(name, user="ann")
        for ask in (asked.messages, asked.message_lines, lambda asked=asked: asked.messages(1), asked.entries):
            with pytest.raises(DamagedError):
                raise AssertionError(ask())
    assert {each.thread_id for each in store.verify().damaged} == {"talk", "branch"}


def test_a_row_with_an_earlier_head_makes_no_list_shorter(store: sync.Perdure) -> None:
    run(store, "UPDATE {thread} SET head = 1 WHERE id = ? AND user_id = ?", "t", "ann")
    thread = store.thread("t", user="ann")
    for ask in (thread.entries, thread.messages, thread.load):
        with pytest.raises(DamagedError):
            raise AssertionError(ask())
    assert store.repair().ok
    assert len(thread.entries()) == 2


def test_metadata_that_cannot_be_shown_stops_no_list(store: sync.Perdure) -> None:
    for spoilt in ("7", '{{"$decimal": "x"}}', '{{"$object": 1}}'):
        run(store, f"UPDATE {{thread}} SET metadata = '{spoilt}' WHERE id = 'other'")
        assert [each.id for each in store.threads()] == ["t", "t"]
        assert [each.thread_id for each in store.damaged()] == ["other"]
        assert not store.verify().ok
        with pytest.raises(DamagedError):
            store.thread("other", user="ann").load()
