"""Listing reads no payload, and a fork costs the same whatever the length of the history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import sync
from tests.faults.places import url_of
from tests.faults.watching import Watch, watched

PAYLOADS = {("perdure_entry", "payload"), ("perdure_snapshot", "payload"), ("perdure_blob", "payload")}
SHORT, LONG = 50, 5_000


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    with watched(monkeypatch) as watch:
        yield watch


def _saves(store: sync.Perdure, name: str, count: int, size: int = 200) -> sync.Thread:
    thread = store.thread(name)
    for number in range(count):
        thread.save({"text": str(number % 10) * size, "n": number}, metadata={"even": number % 2 == 0})
    return thread


def test_listing_on_sqlite_reads_no_payload(tmp_path: Path, watch: Watch) -> None:
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store:
        thread = _saves(store, "t", 60, size=5_000)
        branch = thread.fork("@30", to="branch")
        for listing in (thread, branch):
            watch.clear()
            assert len(listing.history()) >= 30
            assert len(listing.history(limit=5, metadata={"even": True})) == 5
            listing.history(kind="manual", before=listing.history(limit=3)[-1])
            assert watch.columns & PAYLOADS == set()


def test_information_on_sqlite_only_measures_payloads(tmp_path: Path, watch: Watch) -> None:
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store:
        thread = _saves(store, "t", 20)
        watch.clear()
        thread.info()
        assert watch.statements
        assert [sql for sql in watch.statements if "payload" in sql.replace("length(payload)", "")] == []


def test_loading_on_sqlite_does_read_payloads_so_that_the_test_above_means_something(
    tmp_path: Path, watch: Watch
) -> None:
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store:
        thread = _saves(store, "t", 5)
        watch.clear()
        thread.load("@3")
        assert watch.columns & PAYLOADS


def test_listing_in_a_folder_reads_far_less_than_the_states(tmp_path: Path, watch: Watch) -> None:
    with sync.Perdure.open(url_of("file", tmp_path)) as store:
        _saves(store, "t", 40, size=50_000)
    with sync.Perdure.open(url_of("file", tmp_path)) as store:
        watch.clear()
        assert len(store.thread("t").history()) == 40
        assert watch.read < 40 * 50_000 / 20
        assert [path for path in watch.opened if "snapshot" in path or "blob" in path] == []


@pytest.fixture(scope="module")
def two_lengths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A short and a long thread of the same state, on each storage; NORMAL makes the preparation quicker."""
    folder = tmp_path_factory.mktemp("lengths")
    urls = {"sqlite": url_of("sqlite", folder) + "?synchronous=NORMAL", "file": url_of("file", folder)}
    for url in urls.values():
        with sync.Perdure.open(url) as store:
            _saves(store, "short", SHORT)
            _saves(store, "long", LONG)
    return urls


def _costs(url: str, name: str, watch: Watch) -> list[tuple[int, int]]:
    """(steps of SQLite, bytes of files) of a fork, its first append, its first load and a second append, in order."""
    costs: list[tuple[int, int]] = []
    with sync.Perdure.open(url) as store:
        source = store.thread(name)
        source.info()
        branch: list[sync.Thread] = []
        for work in (
            lambda: branch.append(source.fork(to=f"branch of {name}")),
            lambda: branch[0].append("log", "first"),
            lambda: branch[0].load(),
            lambda: branch[0].append("log", "second"),
        ):
            watch.clear()
            work()
            costs.append((watch.steps, watch.read))
    return costs


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_a_fork_of_a_long_thread_costs_what_one_of_a_short_thread_does(
    backend: str, two_lengths: dict[str, str], watch: Watch
) -> None:
    which = 0 if backend == "sqlite" else 1
    short = [cost[which] for cost in _costs(two_lengths[backend], "short", watch)]
    long = [cost[which] for cost in _costs(two_lengths[backend], "long", watch)]
    print(backend, "fork, first append, first load, second append:", short, long)
    fork, first, load, second = long
    assert fork <= 2 * short[0] + 4096 * which
    assert first <= 4 * max(short[1], 500)  # restores once: a whole state and the changes since
    assert load <= max(first, 500) / 2
    assert second <= max(first, 500) / 2
