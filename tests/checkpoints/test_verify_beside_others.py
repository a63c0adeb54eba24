"""Verifying while another process deletes a thread and makes it again: only what is wrong is called damaged."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.verification import Report
from perdure.errors import NotFoundError
from perdure.storage.contract import Storage
from perdure.sync import Perdure, Thread
from tests.interruption import READS, Interruption

LOOKS: dict[str, Callable[[Perdure], Report]] = {
    "store": lambda store: store.verify(restore=True),
    "thread": lambda store: store.thread("t", user="").verify(restore=True),
}


class Unrest:
    """Somebody who does the next of several things before every so many of a storage's calls."""

    def __init__(self, storage: Storage, first: int, every: int, acts: Iterator[Callable[[], object]]) -> None:
        self._calls, self._first, self._every, self._acts = 0, first, every, acts
        for name in READS:
            setattr(storage, name, self._counted(getattr(storage, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            if self._calls >= self._first and (self._calls - self._first) % self._every == 0:
                next(self._acts)()
            return await call(*args, **kwargs)

        return counted


@pytest.fixture(params=["sqlite", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[object], str]:
    return lambda name: f"file:{tmp_path}/{name}" if request.param == "file" else f"sqlite:///{tmp_path}/{name}.db"


def save(thread: Thread) -> None:
    thread.save({"n": 1})


def verified(store: Perdure, look: str) -> Report:
    try:
        return LOOKS[look](store)
    except NotFoundError:  # of a thread that is not there when it is asked for
        return Report()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("acts", [(Thread.delete, save), (Thread.delete, save, save)], ids=["delete", "and grow"])
@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_a_thread_made_again_and_again_is_not_damaged(
    place: Callable[[object], str], look: str, acts: tuple[Callable[[Thread], object], ...], every: int
) -> None:
    for first in range(1, 10):
        url = place(first)
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t", user="")
            other.save({"n": 1})
            steps = (lambda act=act, other=other: act(other) for act in itertools.cycle(acts))
            ours.threads()
            Unrest(ours._store._parts.storage, first, every, steps)
            assert verified(ours, look).damaged == []


@pytest.mark.parametrize("look", LOOKS)
def test_a_thread_made_again_between_any_two_calls_is_not_damaged(place: Callable[[object], str], look: str) -> None:
    for gone in itertools.count(1):
        for back in itertools.count(gone):
            url = place(f"{gone}-{back}")
            with Perdure.open(url) as ours, Perdure.open(url) as theirs:
                other = theirs.thread("t", user="")
                other.save({"n": 1})
                ours.threads()
                storage = ours._store._parts.storage
                made = Interruption(storage, back, lambda other=other: save(other))
                deleted = Interruption(storage, gone, other.delete)
                assert verified(ours, look).damaged == []
            if not made.acted:
                break
        if not deleted.acted:
            break
    assert gone > 2


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_damaged_is_told_although_somebody_writes(tmp_path: Path, look: str) -> None:
    url = f"sqlite:///{tmp_path}/place.db"
    with Perdure.open(url) as ours, Perdure.open(url) as theirs:
        other = theirs.thread("t", user="")
        other.append("l", 1)
        other.append("l", 2)
        ours.threads()
        with sqlite3.connect(tmp_path / "place.db") as database:
            database.execute("UPDATE perdure_entry SET payload = x'010000c0' WHERE row & 4294967295 = 1")
        steps = (lambda: other.append("l", 3) for _ in itertools.count())
        Unrest(ours._store._parts.storage, 1, 2, steps)
        assert ("entry 1", "fails its digest") in [(each.place, each.reason) for each in verified(ours, look).damaged]
