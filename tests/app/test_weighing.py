"""Sizes: where the bytes of a store and of a thread are (promise B10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.core.codec import encode
from perdure.core.errors import InvalidInputError, NotFoundError, VersionConflictError
from perdure.core.weights import KindSize
from perdure.storage.drive import drive
from perdure.sync import Perdure
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import MESSAGE, THREAD, Scribe
from tests.contract.backends import BACKENDS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Perdure]:
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        thread = store.thread("ticket", user="alice")
        for turn in range(30):
            thread.append("messages", {"role": "user", "content": "word " * (200 if turn != 7 else 2000)})
        thread.save({**thread.load(), "report": "x" * 100_000})
        store.thread("small").save({"n": 1})
        yield store


def test_a_thread_is_explained_down_to_the_key(store: Perdure) -> None:
    """B10: what is stored of it, what its log has by kind, and what is heavy inside its state."""
    thread = store.thread("ticket", user="alice")
    sizes = thread.sizes()
    assert (sizes.id, sizes.version, sizes.totals) == ("ticket", 31, thread.info().sizes)
    assert [(each.kind, each.entries) for each in sizes.log] == [("state.updated", 30), ("state.saved", 1)]
    assert sum(each.bytes for each in sizes.log) == sizes.totals.entry_bytes
    assert (sizes.large_values, sizes.large_bytes) == (1, store.sizes().blob_bytes)
    assert sizes.state.bytes == len(encode(thread.load()))
    assert [each.path for each in sizes.state.inside] == ["report", "messages[*]"]
    largest = sizes.state.inside[1].largest
    assert largest is not None
    assert largest.path == "messages[7]"


def test_an_older_state_can_be_weighed(store: Perdure) -> None:
    thread = store.thread("ticket", user="alice")
    sizes = thread.sizes("@5", depth=0)
    assert (sizes.version, sizes.state.bytes, sizes.state.inside) == (5, len(encode(thread.load("@5"))), ())


def test_weighing_changes_nothing_that_a_handle_has_seen(store: Perdure) -> None:
    thread = store.thread("small")
    thread.load()
    store.thread("small").save({"n": 2})
    thread.sizes()
    with pytest.raises(VersionConflictError):
        thread.save({"n": 3})


def test_a_fork_weighs_what_it_added(store: Perdure) -> None:
    store.thread("ticket", user="alice").fork("@10", to="what-if").update(set={"city": "Rome"})
    sizes = store.thread("what-if", user="alice").sizes()
    assert [(each.kind, each.entries) for each in sizes.log] == [("state.updated", 1)]
    assert (sizes.totals.entries, sizes.large_values) == (1, 0)
    assert sizes.state.inside[0].count == 10


def test_a_store_names_its_largest_threads(store: Perdure, tmp_path: Path) -> None:
    """B10: which threads to look at."""
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", namespace="other") as other:
        other.thread("elsewhere").save({"n": "x" * 60_000})
    sizes = store.sizes(threads=1)
    totals = store.thread("ticket", user="alice").info().sizes
    assert [(each.id, each.user, each.entries) for each in sizes.largest] == [("ticket", "alice", 31)]
    assert sizes.largest[0].bytes == totals.entry_bytes + totals.snapshot_bytes
    assert [each.id for each in store.sizes(threads=9).largest] == ["ticket", "small"]
    assert (sizes.threads, store.sizes().largest) == (3, ())
    assert sizes.entry_bytes == store.sizes().entry_bytes


def test_wrong_questions_are_told(store: Perdure) -> None:
    with pytest.raises(NotFoundError):
        store.thread("nothing").sizes()
    for wrong in (-1, "2", True):
        with pytest.raises(InvalidInputError):
            store.thread("ticket", user="alice").sizes(depth=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError):
            store.sizes(threads=wrong)  # type: ignore[arg-type]


async def test_asynchronous_callers_have_the_same() -> None:
    async with perdure.Perdure.open("memory://") as store:
        await store.thread("t").save({"n": 1})
        assert (await store.thread("t").sizes()).state.inside[0].path == "n"
        assert (await store.sizes(threads=3)).largest[0].id == "t"


@pytest.mark.parametrize("name", ["memory", "file", "sqlite", "postgres", "mysql"])
def test_a_thread_without_a_state_is_weighed_on_every_backend(name: str, tmp_path: Path) -> None:
    from perdure.app.weighing import weigh_store, weigh_thread
    from perdure.core.document import Document

    backend = BACKENDS[name]("sync", tmp_path)
    storage = backend.open()
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    row = drive(scribe.append(THREAD, MESSAGE)).row
    sizes = drive(weigh_thread(storage, row, row.head, Document(), 2))
    assert (sizes.log, sizes.state.bytes) == ((KindSize(kind="message.added", entries=1, bytes=sizes.log[0].bytes),), 1)
    assert [each.id for each in drive(weigh_store(storage, None, 5)).largest] == ["t1"]
    drive(storage.close())
    backend.clear()
