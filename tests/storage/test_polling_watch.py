"""Who waits for work lets the other threads of its store go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.storage.baton import Baton
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.file.store import FileStorage
from perdure.storage.memory import MemoryStorage
from perdure.storage.ports import InPlace
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.servers import require, shared_postgres

GENEROUS = 30.0


@pytest.fixture(params=["sqlite", "file", "memory", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    name = f"polling_{threading.get_native_id()}"
    place = str(tmp_path / "place")
    made: dict[str, object] = {
        "sqlite": lambda: SqliteStorage(place, mode="sync"),
        "file": lambda: FileStorage(place, port=InPlace(place)),
        "memory": MemoryStorage,
        "postgres": lambda: PostgresStorage(require(shared_postgres).database(name), mode="sync"),
    }
    storage = made[request.param]()  # type: ignore[operator]
    drive(storage.setup())
    yield storage
    drive(storage.close())
    if request.param == "postgres":
        shared_postgres().drop(name)


def test_others_go_on_while_one_waits_for_work(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    # As long as a test may take: whoever held the baton meanwhile would hold it for all of that.
    monkeypatch.setattr("perdure.storage.ports.POLL", GENEROUS)
    baton, went_on = Baton(), threading.Event()
    watch = storage.watch("")
    drive(watch.wait(0))

    def waits() -> None:
        with baton.held, baton.held:
            asleep.set()
            drive(watch.wait(2.0))
            assert baton.held._is_owned()
            done.set()

    asleep, done = threading.Event(), threading.Event()
    waiting = threading.Thread(target=waits)
    waiting.start()
    asleep.wait()
    with baton.held:
        went_on.set()
        assert not done.is_set()
    waiting.join()
    assert went_on.is_set()
    assert done.is_set()
    drive(watch.close())
