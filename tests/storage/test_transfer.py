"""What each storage does with a copied thread beside the contract: whole or not at all, and out of the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from perdure.core.errors import InvalidInputError, PerdureError, StorageFullError, StorageIOError
from perdure.core.transfer import ThreadCopy, check
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.file.disk import RealDisk
from perdure.storage.file.store import FileStorage
from perdure.storage.memory import MemoryStorage
from perdure.storage.ports import InPlace
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.sql import transfers
from perdure.storage.sql.filling import fill_in_batches
from perdure.storage.sqlite import store as sqlite_store
from perdure.storage.sqlite.connection import SqliteTransaction
from perdure.storage.sqlite.store import SqliteStorage
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.contract.transfer import busy_thread, everything
from perdure.testing.scribe import OTHER, THREAD, Scribe
from tests.contract.backends import BACKENDS, Backend

DATABASES = [name for name in ("sqlite", "postgres", "mysql") if name in BACKENDS]


@pytest.fixture
def scribe() -> Scribe:
    return Scribe(MemoryStorage(), ManualClock(), seed=7)


@pytest.fixture
def copy(scribe: Scribe) -> ThreadCopy:
    return drive(busy_thread(scribe))


@pytest.mark.parametrize("name", DATABASES)
def test_a_copy_that_fails_halfway_leaves_nothing(
    name: str, tmp_path: Path, copy: ThreadCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, storage = ready(name, tmp_path)
    keep_blob = transfers.keep_blob

    def full(*_: Any) -> Coroutine[Any, Any, None]:
        raise StorageFullError("the database", "after the entries, before the large values")

    monkeypatch.setattr(transfers, "keep_blob", full)
    with pytest.raises(StorageFullError):
        drive(storage.put_thread(copy))
    assert (drive(storage.thread(THREAD)), drive(storage.sizes()).entries) == (None, 0)
    monkeypatch.setattr(transfers, "keep_blob", keep_blob)
    assert drive(storage.put_thread(copy)) == copy.row
    drive(storage.close())
    backend.clear()


def test_a_file_log_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path, copy: ThreadCopy) -> None:
    class Stubborn(RealDisk):
        refuses = False

        def replace(self, source: str, target: str) -> bool:
            if self.refuses and target.endswith("log.jsonl"):
                raise StorageIOError(target, "no")
            return super().replace(source, target)

    disk, path = Stubborn(), str(tmp_path / "place")
    storage = FileStorage(path, port=InPlace(path), disk=disk)
    drive(storage.setup())
    disk.refuses = True
    with pytest.raises(StorageIOError):
        drive(storage.put_thread(copy))
    assert (drive(storage.thread(THREAD)), drive(storage.sizes()).entries) == (None, 0)
    disk.refuses = False
    assert drive(storage.put_thread(copy)) == copy.row


def test_a_copied_log_is_written_as_its_writers_would_have(tmp_path: Path, copy: ThreadCopy) -> None:
    """A line for each write: nobody has to read a whole thread for one of its entries."""
    path = tmp_path / "place"
    storage = FileStorage(str(path), port=InPlace(str(path)))
    drive(storage.setup())
    drive(storage.put_thread(copy))
    (log,) = path.glob("threads/*/log.jsonl")
    writes = len({entry.write_id for entry in copy.entries})
    assert len(log.read_bytes().splitlines()) == 1 + writes


async def test_on_an_event_loop_sqlite_puts_a_copy_from_another_thread(
    tmp_path: Path, copy: ThreadCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = SqliteStorage(str(tmp_path / "x.db"), mode="async")
    await storage.setup()
    put, threads = sqlite_store.put_thread, list[threading.Thread]()

    async def watched(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return await put(*arguments)

    monkeypatch.setattr(sqlite_store, "put_thread", watched)
    await storage.put_thread(copy)
    await storage.close()
    assert threads
    assert threading.main_thread() not in threads


async def test_writes_of_others_go_on_beside_a_copy(tmp_path: Path, scribe: Scribe) -> None:
    drive(scribe.grow(THREAD, 500))
    copy = drive(take(scribe.storage, THREAD))
    storage = SqliteStorage(str(tmp_path / "x.db"), mode="async")
    await storage.setup()
    writes = [storage.append(scribe.write(OTHER)) for _ in range(20)]
    await asyncio.gather(storage.put_thread(copy), *writes)
    assert [len(await storage.entries(key)) for key in (THREAD, OTHER)] == [500, 20]
    await storage.close()


async def test_an_asyncpg_pool_copies_too(copy: ThreadCopy, tmp_path: Path) -> None:
    backend = BACKENDS["postgres"]("async", tmp_path)
    made = backend.open()
    assert isinstance(made, PostgresStorage)
    schema, url = made._options.schema, made._listening._url
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        storage = PostgresStorage(url, Options(schema=schema, server_time=False, pool=pool), mode="async")
        await storage.setup()
        await storage.put_thread(copy)
        found = await everything(storage, THREAD)
    assert found[:2] == (copy.row, copy.entries)
    await made.close()
    backend.clear()


def test_a_value_that_a_database_cannot_take_is_a_typed_error_and_nothing_is_left(
    scribe: Scribe, tmp_path: Path
) -> None:
    backend, storage = ready("postgres", tmp_path)
    drive(scribe.append(THREAD, entries=(scribe.entry(), scribe.entry(actor="a\0b"))))
    with pytest.raises(InvalidInputError):
        drive(storage.put_thread(drive(take(scribe.storage, THREAD))))
    assert drive(storage.sizes()).entries == 0
    assert drive(storage.append(scribe.write(OTHER))).version == 1  # the connection is as good as before
    drive(storage.close())
    backend.clear()


def test_filling_in_batches_is_filling(tmp_path: Path, scribe: Scribe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of a database that has no better one, on one that has."""
    monkeypatch.setattr(SqliteTransaction, "fill", fill_in_batches)
    drive(scribe.grow(THREAD, 230))
    large = "x" * 600_000
    for _ in range(3):
        drive(scribe.append(THREAD, entries=(scribe.entry(body=msgspec.msgpack.encode(large)),)))
    drive(scribe.save(THREAD))
    _, storage = ready("sqlite", tmp_path)
    drive(storage.put_thread(drive(take(scribe.storage, THREAD))))
    assert drive(everything(storage, THREAD)) == drive(everything(scribe.storage, THREAD))
    drive(storage.close())


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "memory"])
def test_two_openings_see_the_same_copy(name: str, tmp_path: Path, scribe: Scribe) -> None:
    backend, storage = ready(name, tmp_path)
    second = backend.open()
    drive(busy_thread(scribe))
    drive(storage.put_thread(drive(take(scribe.storage, THREAD))))
    assert drive(second.append(scribe.write(THREAD))).version == len(drive(scribe.storage.entries(THREAD))) + 1
    with pytest.raises(PerdureError):
        drive(storage.put_thread(drive(busy_thread(scribe, "l"))))
    assert drive(everything(storage, THREAD)) == drive(everything(second, THREAD))
    for each in (storage, second):
        drive(each.close())
    backend.clear()


def test_checking_a_copy_is_what_every_storage_does_first(copy: ThreadCopy) -> None:
    check(copy)
    with pytest.raises(PerdureError):
        check(msgspec.structs.replace(copy, chain=bytes([1]) * 32))


def ready(name: str, folder: Path) -> tuple[Backend, Storage]:
    backend = BACKENDS[name]("sync", folder)
    storage = backend.open()
    drive(storage.setup())
    return backend, storage
