"""Runs that are started at one moment from several places: one stands, the others are told so."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from perdure import sync
from perdure.core.errors import UnfinishedRunError
from tests.checkpoints.places import PLACES

PLACES_SHARED = ["sqlite", "file", "postgres", "mysql"]
THREADS = [f"t{n}" for n in range(10)]


@pytest.fixture(params=PLACES_SHARED)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url, options = PLACES[request.param](tmp_path)
    made = [sync.Perdure.open(url, **options) for _ in range(3)]
    yield made
    for store in made:
        store.close()


def tried(start: Any, barrier: Barrier) -> str:
    barrier.wait()
    try:
        start()
    except UnfinishedRunError:
        return "refused"
    return "stands"


def together(*starts: Any) -> Counter[str]:
    barrier = Barrier(len(starts))
    with ThreadPoolExecutor(len(starts)) as pool:
        return Counter(pool.map(lambda start: tried(start, barrier), starts))


def test_one_of_several_stores_starts_a_run_in_a_thread(stores: Any) -> None:
    for thread in THREADS:
        starts = [
            lambda n=n, store=store, thread=thread: store.start("work", n, thread=thread, key=f"k{n}")
            for n, store in enumerate(stores)
        ]
        assert together(*starts) == {"stands": 1, "refused": 2}
        assert [run.status for run in stores[0].runs() if run.thread == thread] == ["queued"]
        kinds = [entry.kind.value for entry in stores[0].thread(thread).entries()]
        assert kinds == ["run.started"]


def test_a_block_and_a_start_do_not_lose_each_other(stores: Any) -> None:
    def block(store: Any, thread: str) -> None:
        with store.thread(thread).run(key="block"):
            pass

    for thread in THREADS:
        together(
            lambda thread=thread: block(stores[0], thread),
            lambda thread=thread: stores[1].start("work", thread=thread, key="start"),
        )
        entries = stores[2].thread(thread).entries()
        kinds = [entry.kind.value for entry in entries]
        # However they came: no run but the newest is without an end.
        assert kinds.count("run.started") - kinds.count("run.finished") in (0, 1)
        assert "run.started" not in kinds[kinds.index("run.started") + 1 :] or kinds.index("run.finished") == 1
