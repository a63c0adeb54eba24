"""A thread that is imported where another process knows one: it is another thread, whatever its history was."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.app.copying import Outcome, copy_threads
from perdure.errors import VersionConflictError
from perdure.storage.drive import drive
from perdure.sync import Perdure, Thread
from tests.app.backups import believe, storage_of
from tests.interruption import Interruption

WRITES: dict[str, Callable[[Thread], object]] = {
    "save": lambda thread: thread.save({"n": 9}),
    "update": lambda thread: thread.update(set={"n": 9}),
    "rewind": lambda thread: thread.rewind("@1"),
    "say": lambda thread: thread.add_messages("hi"),
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'place.db'}"


@pytest.fixture
def ours(url: str) -> Iterator[Perdure]:
    with Perdure.open(url) as store:
        yield store


@pytest.fixture
def thread(ours: Perdure, url: str, tmp_path: Path) -> Thread:
    """Seen at version 2, while another history of two versions was imported over it."""
    thread = ours.thread("t")
    thread.save({"n": 1, "l": []})
    ours.export(thread, tmp_path / "first")
    with Perdure.open("memory://") as laptop:
        believe(storage_of(laptop), storage_of(ours))
        laptop.import_(tmp_path / "first", user="", trust=True)
        laptop.thread("t").save({"laptop": True, "l": []})
        laptop.export("t", tmp_path / "second")
    thread.save({"server": True, "l": []})
    with Perdure.open(url) as theirs:
        theirs.import_(tmp_path / "second", user="", overwrite=True)
    return thread


@pytest.mark.parametrize("write", WRITES)
def test_who_has_seen_the_thread_before_is_refused(thread: Thread, url: str, write: str) -> None:
    with pytest.raises(VersionConflictError):
        WRITES[write](thread)
    with Perdure.open(url) as fresh:
        assert fresh.thread("t").load() == {"laptop": True, "l": []}


def test_what_is_appended_and_read_then_is_what_others_read(thread: Thread, ours: Perdure, url: str) -> None:
    thread.append("l", 1)
    for each in (ours, Perdure.open(url)):
        with each as store:
            assert store.thread("t").load() == {"laptop": True, "l": [1]}
            assert store.thread("t").verify(restore=True).ok


def weight(thread: Thread) -> int:
    sizes = thread.info().sizes
    assert sizes is not None
    return sizes.entry_bytes


def test_forks_share_their_past_where_they_go(ours: Perdure, tmp_path: Path) -> None:
    parent = ours.thread("t")
    for n in range(20):
        parent.append("l", "x" * 500 + str(n))
    parent.fork(to="fork").append("l", "own")
    with Perdure.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        for turn in range(2):
            ours.export(ours.thread("t"), tmp_path / f"both {turn}", forks=True)
            believe(storage_of(other), storage_of(ours))
            other.import_(tmp_path / f"both {turn}", user="", trust=True)
            fork = other.thread("fork")
            assert fork.load() == ours.thread("fork").load()
            assert weight(fork) < weight(other.thread("t")) / 4
            ours.thread("fork").append("l", "more")


@pytest.mark.parametrize("keep", [1, 2])
def test_a_copy_beside_a_prune_is_whole(tmp_path: Path, keep: int) -> None:
    for at in itertools.count(1):
        url, target = f"sqlite:///{tmp_path / str(at)}.db", f"sqlite:///{tmp_path / f'{at} copied'}.db"
        with Perdure.open(url) as source, Perdure.open(url) as other, Perdure.open(target) as copied:
            pruned = other.thread("t", user="")
            for n in range(1, 8):
                pruned.save({"n": n, "text": "x" * 500 * n})
            storage, there = source._store._parts.storage, copied._store._parts.storage
            source.threads()
            copied.threads()
            met = Interruption(storage, at, lambda pruned=pruned: pruned.prune(keep))
            (done,) = drive(copy_threads(storage, there))
            if not met.acted:
                break
            if done.outcome is Outcome.COPIED:
                assert copied.thread("t", user="").load() == {"n": 7, "text": "x" * 3500}
                assert copied.verify(restore=True).ok
    assert at > 1
