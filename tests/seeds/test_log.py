"""An append-only log under every state: where it is kept, what it costs, and how it ages."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import LeaseLostError, NotFoundError, SchemaTooNewError, VersionConflictError
from perdure.storage.drive import drive
from perdure.sync import Perdure
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import SECOND, THREAD, Scribe
from tests.contract.backends import BACKENDS
from tests.corpus.test_replay import Task, _types, replayed  # noqa: F401  # fixtures

MESSAGES = [{"role": "user", "content": f"message {number} " * 20} for number in range(400)]
NOW = 1_800_000_000 * SECOND


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


def test_session_and_checkpoints_are_kept_in_one_backend(anywhere: str) -> None:
    """S4.27, S4.28, S4.29: PostgreSQL and MySQL among them; one address finds all of it again."""
    with Perdure.open(anywhere) as store:
        thread = store.thread("t")
        thread.append("messages", *MESSAGES[:3])
        point = thread.save({"messages": MESSAGES[:4]}, kind="pre_operation", metadata={"turn": 4})
    with Perdure.open(anywhere) as store:
        thread = store.thread("t")
        assert thread.messages() == MESSAGES[:4]
        assert [(each.id, each.kind, each.metadata) for each in thread.history()] == [
            (point.id, "pre_operation", {"turn": 4})
        ]
        assert (thread.load("@1"), thread.load()) == ({"messages": MESSAGES[:3]}, {"messages": MESSAGES[:4]})


def test_what_is_kept_in_memory_is_lost_on_restart() -> None:
    """S4.30."""
    with Perdure.open("memory://") as store:
        store.thread("t").save({"n": 1})
        assert store.thread("t").load() == {"n": 1}
    with Perdure.open("memory://") as store, pytest.raises(NotFoundError):
        store.thread("t").load()


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_are_compared_counted_once_and_fenced_on_every_backend(backend: str, tmp_path: Path) -> None:
    """B3: compare-and-set, idempotency keys, fenced leases."""
    place = BACKENDS[backend]("sync", tmp_path)
    storage = place.open()
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    drive(scribe.append())
    with pytest.raises(VersionConflictError):
        drive(scribe.append(expected=0))
    once = [drive(scribe.append(idem_key="k", request=b"r" * 32)) for _ in range(2)]
    assert [(each.version, each.again) for each in once] == [(2, False), (2, True)]
    late = drive(storage.claim(THREAD, "late", until=NOW, now=NOW - SECOND))
    lease = drive(storage.claim(THREAD, "mine", until=NOW + SECOND, now=NOW))
    with pytest.raises(LeaseLostError):
        drive(scribe.append(epoch=late.epoch))
    assert drive(scribe.append(epoch=lease.epoch)).version == 3
    drive(storage.close())
    place.clear()


def test_both_doors_are_sound_when_values_are_changed_in_place(url: str) -> None:
    """B1: what was given or handed out may be changed at will, before and after."""
    with Perdure.open(url) as store:
        thread, message = store.thread("t"), {"content": "first"}
        thread.append("messages", message)
        message["content"] = "changed after it was given"
        state = thread.load()
        assert state == {"messages": [{"content": "first"}]}
        state["messages"][0]["content"] = "corrected"
        state["messages"].append({"content": "second"})
        thread.save(state)
        state["messages"].clear()
        assert thread.load() == {"messages": [{"content": "corrected"}, {"content": "second"}]}
        assert thread.load("@1") == {"messages": [{"content": "first"}]}


@pytest.mark.parametrize("door", ["append", "save"])
def test_storage_grows_with_what_is_new_and_a_save_does_not_grow(url: str, door: str) -> None:
    """B2: linear storage, flat cost of a save; whole copies would take four times as much for twice the turns."""
    with Perdure.open(url) as store:
        thread, taken = store.thread("t"), []
        for turn, message in enumerate(MESSAGES, 1):
            if door == "append":
                thread.append("messages", message)
            else:
                thread.save({"messages": MESSAGES[:turn]})
            if turn in (200, 400):
                sizes = thread.info().sizes
                taken.append(sizes.entry_bytes + sizes.snapshot_bytes)
        lengths = [len(entry.payload or b"") for entry in thread.entries()]
    assert taken[1] < 2.5 * taken[0]
    assert max(lengths[200:]) < 2 * max(lengths[:200])


def test_the_log_has_what_happened_and_not_the_whole_state(url: str) -> None:
    """S4.5: events, no serialised internals."""
    with Perdure.open(url) as store:
        thread = store.thread("t")
        thread.save({"messages": MESSAGES, "turn": 0})
        thread.update(set={"turn": 1})
        first, second = thread.entries()
    assert (first.kind, second.kind) == ("state.saved", "state.updated")
    assert len(second.payload or b"") < 100 < len(first.payload or b"")


def test_history_is_loaded_by_a_process_that_knows_nothing(url: str) -> None:
    """S4.6: the whole of it, or the newest."""
    with Perdure.open(url) as store:
        for message in MESSAGES[:50]:
            store.thread("t").append("messages", message)
    with Perdure.open(url) as store:
        thread = store.thread("t")
        assert thread.messages() == MESSAGES[:50]
        assert thread.messages(limit=2) == MESSAGES[48:50]
        assert [entry.version for entry in thread.entries(after=40)] == list(range(41, 51))


def test_memory_and_variables_come_back_from_the_log_alone(url: str, tmp_path: Path) -> None:
    """S4.7: every snapshot may be gone."""
    with Perdure.open(url) as store:
        for turn, message in enumerate(MESSAGES):
            store.thread("t").update(set={"turn": turn, "facts.seen": turn * 2}, append={"messages": [message]})
    with closing(sqlite3.connect(tmp_path / "agents.db")) as database, database:
        assert database.execute("DELETE FROM perdure_snapshot").rowcount > 0
    with Perdure.open(url) as store:
        assert store.thread("t").load() == {"turn": 399, "facts": {"seen": 798}, "messages": MESSAGES}


def test_a_log_of_an_earlier_release_is_read_and_goes_on(replayed: tuple[str, dict[str, Any]]) -> None:
    """S4.9: the corpus of every format that was released."""
    url, expected = replayed
    with Perdure.open(url) as store:
        for name, found in expected.items():
            thread = store.thread(name, user="alice")
            assert thread.info().version == max(map(int, found["states"]))
            thread.update(set={"upgraded": True})
            assert thread.load()["upgraded"] is True


def test_values_of_an_older_version_are_brought_up_to_todays(replayed: tuple[str, dict[str, Any]]) -> None:
    """S4.10: versioned values with upcasters."""
    with Perdure.open(replayed[0]) as store:
        zoo = store.thread("zoo", user="alice")
        values = [zoo.load(f"@{version}")["value"] for version in range(1, zoo.info().version + 1)]
    assert Task("write", 3, False) in values


def test_a_storage_that_is_too_new_is_refused_untouched(url: str, tmp_path: Path) -> None:
    """S4.10: what cannot be understood is not guessed at."""
    with Perdure.open(url) as store:
        store.thread("t").save({"n": 1})
    with closing(sqlite3.connect(tmp_path / "agents.db")) as database, database:
        database.execute("UPDATE perdure_meta SET value = '99' WHERE name IN ('schema', 'min_reader', 'min_writer')")
    before = (tmp_path / "agents.db").read_bytes()
    with pytest.raises(SchemaTooNewError), Perdure.open(url):
        pass
    assert (tmp_path / "agents.db").read_bytes() == before
