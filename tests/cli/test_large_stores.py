"""First pages of long threads and of many threads cost what a page costs, whatever is behind it."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.sync import Perdure
from tests.cli.golden_store import call, placed

PAGES = ("threads", "timeline long", "timeline long --last 20", "messages long", "show long", "history long")
ENTRIES, THREADS = 5_000, 1_000  # `make bench` has 100,000 and 20,000
MOST_MS = 300  # of processor time: other programs run beside the tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("large")
    url = f"sqlite:///{place}/agents.db"
    fill(url, ENTRIES, THREADS)
    with placed(place, url):
        call("threads")  # what is imported once
        yield place


def fill(url: str, entries: int, threads: int) -> None:
    """A thread of that many entries, one in fifty with a checkpoint, and that many threads beside it."""
    with Perdure.open(f"{url}?synchronous=NORMAL") as store:
        long = store.thread("long")
        for at in range(0, entries, 50):
            long.save({"turn": at}, note=f"turn {at}")
            long.add_messages(*({"role": "user", "content": f"message {at + number}"} for number in range(49)))
        for number in range(threads):
            store.thread(f"thread-{number:05d}", user=f"user-{number % 50}").append("messages", "hi")


@pytest.mark.parametrize("line", PAGES)
def test_a_first_page_takes_no_longer_than_a_page(folder: Path, line: str) -> None:
    call(*line.split())
    before, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = call(*line.split())
    assert (done.code, len(done.out.splitlines()) > 5) == (0, True)
    assert (time.process_time() - before) * 1000 < MOST_MS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8_192  # kB: not the whole log
