"""Catching up with a source that was pruned, or had messages deleted: the target answers like it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.app.copying import Copied, Outcome, copy_threads
from perdure.core.identity import ThreadKey
from perdure.errors import LeaseHeldError, VersionConflictError
from perdure.storage.drive import drive
from perdure.sync import Perdure
from tests.app.backups import believe, storage_of
from tests.interruption import Interruption


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Perdure]:
    with Perdure.open(f"sqlite:///{tmp_path / 'source.db'}") as store:
        yield store


@pytest.fixture(params=["memory", "file", "sqlite"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Perdure]:
    urls = {"memory": "memory://", "file": f"file:{tmp_path}/place", "sqlite": f"sqlite:///{tmp_path}/place.db"}
    with Perdure.open(urls[request.param]) as store:
        yield store


@pytest.fixture(params=["import", "copy"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


def caught_up(source: Perdure, target: Perdure, way: str = "import") -> dict[str, Outcome]:
    return {each.key.id: each.outcome for each in brought(source, target, way)}


def brought(source: Perdure, target: Perdure, way: str = "import") -> list[Copied]:
    if way == "copy":
        source.threads(), target.threads()
        return drive(copy_threads(source._store._parts.storage, target._store._parts.storage))
    source.export(source.thread("t"), "x.perdure", forks=True)
    believe(storage_of(target), storage_of(source))
    return target.import_("x.perdure", user="", trust=True)


def answers(store: Perdure, name: str) -> dict[str, object]:
    """What a thread tells about itself."""
    thread = store.thread(name)
    head = thread.info().version
    return {
        "history": [(each.id, each.version) for each in thread.history()],
        "states": {at: thread.load(f"@{at}", default=None) for at in range(1, head + 1)},
        "messages": list(thread.messages()),
    }


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_thread_that_was_pruned_since_is_as_in_the_source(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    for n in range(1, 5):
        thread.save({"n": n, "text": "x" * 500 * n})
    caught_up(source, target, way)
    thread.save({"n": 5})
    thread.prune(2)
    assert caught_up(source, target, way) == {"t": Outcome.GREW}
    assert answers(target, "t") == answers(source, "t")
    assert target.verify(restore=True).damaged == []
    assert caught_up(source, target, way) == {"t": Outcome.SAME}


def test_a_prune_between_two_others_is_caught_up_with(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    for turn in range(3):
        thread.save({"n": turn, "text": "x" * 500})
        thread.save({"n": -turn, "text": "y" * 500})
        thread.prune(2)
        caught_up(source, target, way)
        assert answers(target, "t") == answers(source, "t")
        assert target.verify(restore=True).damaged == []
        thread.save({"n": 100 + turn})
        assert caught_up(source, target, way) == {"t": Outcome.GREW}


def test_a_message_that_was_deleted_since_is_gone(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    thread.add_messages({"id": "m1", "content": "my number is 4111"}, {"id": "m2", "content": "hello"})
    caught_up(source, target, way)
    thread.delete_message("m1")
    assert caught_up(source, target, way) == {"t": Outcome.GREW}
    assert answers(target, "t") == answers(source, "t")
    assert target.verify(restore=True).damaged == []
    storage = target._store._parts.storage
    assert not any(b"4111" in (entry.payload or b"") for entry in drive(storage.entries(thread_key(target))))


def thread_key(store: Perdure) -> ThreadKey:
    (row,) = drive(store._store._parts.storage.find("", "t"))
    return row.key


def test_forks_of_the_target_keep_what_they_had(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    for n in range(1, 5):
        thread.save({"n": n, "text": "x" * 500 * n})
    caught_up(source, target, way)
    own = target.thread("t").fork("@2", to="own")
    own.save({"own": True})
    before = answers(target, "own")
    thread.save({"n": 5})
    thread.prune(1)
    assert caught_up(source, target, way) == {"t": Outcome.GREW}
    assert answers(target, "t") == answers(source, "t")
    assert answers(target, "own") == before
    target.thread("own").save({"own": "goes on"})
    assert target.thread("own").load() == {"own": "goes on"}
    assert target.verify(restore=True).damaged == []
    assert target.thread("own").delete()
    assert target.verify(restore=True).damaged == []


@pytest.mark.parametrize("grows", [False, True])
def test_forks_of_the_source_are_as_there(source: Perdure, target: Perdure, way: str, grows: bool) -> None:
    thread = source.thread("t")
    thread.add_messages({"id": "m1", "content": "my number is 4111"}, {"id": "m2", "content": "hello"})
    for n in range(1, 5):
        thread.save({"n": n, "text": "x" * 500 * n})
    fork = thread.fork("@5", to="fork")
    fork.save({"fork": True})
    fork.fork(to="fork of it").save({"fork": "of it"})
    caught_up(source, target, way)
    thread.save({"n": 5})
    thread.delete_message("m1")
    thread.prune(1)
    if grows:
        fork.save({"fork": "grown"})
    names = ("t", "fork", "fork of it")
    assert caught_up(source, target, way) == dict.fromkeys(names, Outcome.GREW)
    assert [answers(target, name) for name in names] == [answers(source, name) for name in names]
    assert target.verify(restore=True).damaged == []
    assert caught_up(source, target, way) == dict.fromkeys(names, Outcome.SAME)


def test_a_target_that_has_gone_its_own_way_is_left_alone(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    thread.save({"n": 1})
    caught_up(source, target, way)
    target.thread("t").save({"own": True})
    before = answers(target, "t")
    thread.save({"n": 2})
    thread.prune(1)
    assert caught_up(source, target, way) == {"t": Outcome.REFUSED}
    assert answers(target, "t") == before


def test_a_thread_that_is_run_is_left_alone(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    thread.save({"n": 1})
    thread.save({"n": 2})
    caught_up(source, target, way)
    drive(target._store._parts.storage.claim(thread_key(target), "w1", until=1 << 60, now=1))
    thread.save({"n": 3})
    thread.prune(1)
    (done,) = brought(source, target, way)
    assert (done.outcome, done.reason) == (Outcome.REFUSED, str(LeaseHeldError("t", "w1")))
    assert target.thread("t").load() == {"n": 2}


def test_who_has_seen_the_thread_before_is_refused(source: Perdure, target: Perdure) -> None:
    thread = source.thread("t")
    thread.save({"n": 1})
    thread.save({"n": 2})
    caught_up(source, target)
    seen = target.thread("t")
    seen.load()
    thread.save({"n": 3})
    thread.prune(1)
    caught_up(source, target)
    with pytest.raises(VersionConflictError):
        seen.save({"n": "mine"})
    assert target.thread("t").load() == {"n": 3}


def test_what_is_written_to_the_target_meanwhile_is_not_lost(source: Perdure, tmp_path: Path) -> None:
    thread = source.thread("t")
    thread.save({"n": 1})
    with Perdure.open(f"sqlite:///{tmp_path}/first.db") as first:
        caught_up(source, first, "copy")
        first.compact()
    thread.save({"n": 2})
    thread.prune(1)
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path}/{at}.db"
        (tmp_path / f"{at}.db").write_bytes((tmp_path / "first.db").read_bytes())
        with Perdure.open(url) as target, Perdure.open(url) as other:
            target.threads()
            met = Interruption(target._store._parts.storage, at, lambda other=other: other.thread("t").save({"own": 1}))
            (done,) = drive(copy_threads(source._store._parts.storage, target._store._parts.storage))
            if not met.acted:
                break
            if done.outcome is Outcome.REFUSED:
                assert other.thread("t").load() == {"own": 1}
            else:  # it was written after the thread was put
                assert other.thread("t").load("@2") == {"n": 2}
                assert other.thread("t").load() == {"own": 1}
            assert other.verify(restore=True).damaged == []
    assert at > 2


def test_a_catching_up_that_died_half_way_is_caught_up_with(source: Perdure, target: Perdure, way: str) -> None:
    thread = source.thread("t")
    for n in range(1, 5):
        thread.save({"n": n, "text": "x" * 500 * n})
    thread.fork("@2", to="fork").save({"fork": True})
    caught_up(source, target, way)
    thread.save({"n": 5})
    thread.prune(1)
    target.thread("t").delete()  # as far as it came
    assert caught_up(source, target, way) == {"t": Outcome.COPIED, "fork": Outcome.GREW}
    assert [answers(target, name) for name in ("t", "fork")] == [answers(source, name) for name in ("t", "fork")]
    assert target.verify(restore=True).damaged == []
