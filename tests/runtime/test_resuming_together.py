"""A resume beside somebody who works on the run waits for it, and gives its result."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from perdure.core.errors import NotFoundError
from tests.checkpoints.places import PLACES


@pytest.fixture(params=["memory", "sqlite", "file", "postgres", "mysql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url, options = PLACES[request.param](tmp_path)
    made = [sync.Perdure.open(url, **options)]
    made.append(made[0] if request.param == "memory" else sync.Perdure.open(url, **options))
    yield made
    for store in made:
        store.close()


class Work:
    """A handler that ends when it is let, and counts its calls."""

    def __init__(self, stores: list[Any]) -> None:
        self.begun, self.end, self.calls = threading.Event(), threading.Event(), 0
        for store in {id(each): each for each in stores}.values():
            store.handler("work")(self.handle)
        stores[0].start("work", thread="t")

    def handle(self, run: Any) -> str:
        return run.step("once", self._once)

    def _once(self) -> str:
        self.calls += 1
        self.begun.set()
        assert self.end.wait(30)
        return "done"


def test_a_second_resume_gives_the_result_of_the_first(stores: Any) -> None:
    work = Work(stores)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(stores[0].resume, "t")
        assert work.begun.wait(30)
        second = pool.submit(stores[1].resume, "t")
        wait([second], 0.3)  # meanwhile it asks for the lease in vain
        work.end.set()
        one, two = first.result(30), second.result(30)
    assert (one.result, two.result, one.id == two.id, two.status) == ("done", "done", True, "finished")
    assert (work.calls, [run.owner for run in stores[1].runs()]) == (1, [None])


def test_a_thread_whose_run_was_over_before_has_nothing_to_resume(stores: Any) -> None:
    work = Work(stores)
    work.end.set()
    stores[0].resume("t")
    with pytest.raises(NotFoundError, match="start one first"):
        stores[0].resume("t")
