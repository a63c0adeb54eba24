"""A full disk: a typed error, nothing acknowledged lost, and work goes on when there is room again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import sync
from perdure.core.errors import StorageFullError
from tests.faults.places import DURABLE, raised, small_disk, url_of

pytestmark = pytest.mark.parametrize("backend", DURABLE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, "3m") as disk:
        (disk / "filler").write_bytes(bytes(2_000_000))
        yield disk


def _fill(store: sync.Perdure) -> tuple[list[str], str]:
    """Append until the disk is full; return what was acknowledged and what was not."""
    thread, rng = store.thread("full"), random.Random(1)
    done: list[str] = []
    while True:
        item = rng.randbytes(10_000).hex()
        try:
            thread.append("items", item, key=f"k{len(done)}")
        except StorageFullError:
            return done, item
        done.append(item)


def test_a_full_disk_gives_a_typed_error_and_loses_nothing_acknowledged(backend: str, disk: Path) -> None:
    with sync.Perdure.open(url_of(backend, disk)) as store:
        done, _ = _fill(store)
        assert store.thread("full").load() == {"items": done}
    (disk / "filler").unlink()
    with sync.Perdure.open(url_of(backend, disk)) as store:
        assert store.thread("full").load() == {"items": done}


def test_the_same_key_works_once_there_is_room_again(backend: str, disk: Path) -> None:
    with sync.Perdure.open(url_of(backend, disk)) as store:
        done, item = _fill(store)
        (disk / "filler").unlink()
        thread = store.thread("full")
        version = thread.append("items", item, key=f"k{len(done)}")
        assert (version, thread.load()) == (len(done) + 1, {"items": [*done, item]})
        assert thread.append("items", item, key=f"k{len(done)}") == version


def test_another_process_reads_everything_while_the_disk_is_full(backend: str, disk: Path) -> None:
    with sync.Perdure.open(url_of(backend, disk)) as store:
        done, _ = _fill(store)
        _take_the_rest(disk)
        with sync.Perdure.open(url_of(backend, disk)) as other:
            assert other.thread("full").load() == {"items": done}


def test_opening_on_a_full_disk_is_refused_and_works_later(backend: str, disk: Path) -> None:
    _take_the_rest(disk)
    store = sync.Perdure.open(url_of(backend, disk))
    refused = raised(lambda: store.thread("full").append("items", 1))
    assert isinstance(refused, StorageFullError), repr(refused)
    store.close()
    (disk / "filler").unlink()
    with sync.Perdure.open(url_of(backend, disk)) as store:
        assert store.thread("full").append("items", 1) == 1


def _take_the_rest(disk: Path) -> None:
    with (disk / "more").open("wb", buffering=0) as more:
        try:
            while True:
                more.write(bytes(4096))
        except OSError:
            return
