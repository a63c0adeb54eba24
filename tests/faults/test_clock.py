"""A clock that jumps back a day: versions, times and ids stay in order."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from perdure import sync
from perdure.testing.clock import ManualClock
from tests.faults.places import BACKENDS, DURABLE, url_of

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def _ten_saves(store: sync.Perdure, clock: ManualClock) -> None:
    """Ten saves, and the clock jumps back a day in the middle."""
    thread = store.thread("t")
    for number in range(10):
        clock.advance(-DAY if number == 5 else SECOND)
        thread.save({"n": number}, note=str(number))


@pytest.mark.parametrize("backend", BACKENDS)
def test_order_survives_a_clock_that_jumps_back(backend: str, tmp_path: Path) -> None:
    clock = ManualClock()
    with sync.Perdure.open(url_of(backend, tmp_path), clock=clock) as store:
        _ten_saves(store, clock)
        thread = store.thread("t")
        points, entries = thread.history(), thread.entries()
        assert [point.note for point in points] == [str(number) for number in reversed(range(10))]
        assert [entry.version for entry in entries] == list(range(1, 11))
        assert [entry.micros for entry in entries] == sorted(entry.micros for entry in entries)
        assert [point.id for point in reversed(points)] == sorted(point.id for point in points)
        assert [thread.load(f"@{n}") for n in range(1, 11)] == [{"n": n} for n in range(10)]


# that went back, a newer checkpoint has an id that sorts before older ones.
@pytest.mark.parametrize("backend", DURABLE)
def test_ids_sort_across_a_restart_with_a_clock_that_went_back(backend: str, tmp_path: Path) -> None:
    clock = ManualClock()
    for number in range(3):
        with sync.Perdure.open(url_of(backend, tmp_path), clock=clock) as store:
            store.thread("t").save({"n": number}, note=str(number))
        clock.advance(-DAY)
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        points = store.thread("t").history()
    assert [point.note for point in points] == ["2", "1", "0"]
    assert [point.timestamp for point in points] == sorted((point.timestamp for point in points), reverse=True)
    assert [point.id for point in points] == sorted((point.id for point in points), reverse=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pages_of_a_history_are_complete_when_the_clock_jumped(backend: str, tmp_path: Path) -> None:
    clock = ManualClock()
    with sync.Perdure.open(url_of(backend, tmp_path), clock=clock) as store:
        _ten_saves(store, clock)
        thread, notes, before = store.thread("t"), [], None
        while page := thread.history(limit=3, before=before):
            notes += [point.note for point in page]
            before = page[-1]
        assert notes == [str(number) for number in reversed(range(10))]
