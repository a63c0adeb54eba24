"""Several that open a new file at one moment all get it: none is told that it is locked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from perdure import sync

STORES, FILES = 8, 25


def test_a_new_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    def used(path: Path, number: int, barrier: Barrier) -> int:
        barrier.wait()
        with sync.Perdure.open(f"sqlite:///{path}") as store:
            return store.thread(f"t{number}").append("items", number)

    with ThreadPoolExecutor(STORES) as pool:
        for each in range(FILES):
            barrier, path = Barrier(STORES), tmp_path / f"{each}.db"
            done = [pool.submit(used, path, number, barrier) for number in range(STORES)]
            assert [one.result() for one in done] == [1] * STORES
