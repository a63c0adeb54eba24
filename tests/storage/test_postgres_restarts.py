"""A server that was restarted between two calls is not noticed by the caller; and who waits is woken by NOTIFY."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected
from perdure.core.seams import Seams
from perdure.core.threads import ThreadPatch, ThreadQuery
from perdure.storage.contract import SCHEMA, Leftovers
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.storage.postgres import watching
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.sql import views
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, THREAD, Scribe, blob_of, snapshot_of
from perdure.testing.servers import PostgresServer, require

FAR = 4_000_000_000 * 1_000_000
GENEROUS = 30.0
BLOB = blob_of("large")
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    # Without fsync, but not without writing: what was acknowledged has to outlast its processes.
    with require(lambda: PostgresServer(durable=False, settings={"synchronous_commit": "on"})) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Drives or awaits."""
    if request.param == "sync":
        yield drive
    else:
        with asyncio.Runner() as runner:
            yield runner.run


@pytest.fixture
def storage(server: PostgresServer, run: Run, request: pytest.FixtureRequest) -> Iterator[PostgresStorage]:
    name = re.sub(r"\W", "_", request.node.name)[:60]
    storage = PostgresStorage(server.database(name), mode="sync" if run is drive else "async")
    run(storage.setup())
    yield storage
    run(storage.close())
    server.drop(name)


@pytest.fixture
def scribe(storage: PostgresStorage) -> Scribe:
    return Scribe(storage, ManualClock())


class Calls:
    """Every method of the contract once, in an order that gives each of them something to do."""

    def __init__(self, storage: PostgresStorage, scribe: Scribe) -> None:
        self._storage, self._scribe, self._uid = storage, scribe, ""

    async def setup(self) -> None:
        assert (await self._storage.setup()).schema == SCHEMA

    async def append_to_nothing(self) -> None:
        made = await self._scribe.append(THREAD, blobs=(BLOB,))
        self._uid = made.row.uid
        assert made.version == 1

    async def append(self) -> None:
        mark = self._scribe.mark(id="chk_1")
        assert (await self._scribe.append(THREAD, uid=self._uid, expected=1, checkpoint=mark)).version == 2

    async def append_several(self) -> None:
        assert (await self._scribe.append(THREAD, MESSAGE, MESSAGE)).version == 4

    async def keyed(self) -> None:
        assert await self._storage.keyed(THREAD, "k") is None

    async def under(self) -> None:
        assert await self._storage.under(THREAD, "k") == []

    async def put_snapshot(self) -> None:
        assert await self._storage.put_snapshot(THREAD, self._uid, snapshot_of(2))

    async def restore(self) -> None:
        found = await self._storage.restore(THREAD)
        assert found is not None
        assert found.row.head == 4  # the snapshot is derived: an outage may take it along

    async def drop_snapshot(self) -> None:
        await self._storage.drop_snapshot(THREAD, 2)

    async def entries(self) -> None:
        assert len(await self._storage.entries(THREAD)) == 4

    async def log(self) -> None:
        found = await self._storage.log(THREAD)
        assert found is not None
        assert len(found.entries) == 4

    async def headers(self) -> None:
        assert [entry.version for entry in await self._storage.headers(THREAD)] == [4]

    async def seams(self) -> None:
        assert await self._storage.seams(THREAD) == Seams()

    async def records(self) -> None:
        assert await self._storage.records(THREAD) == []

    async def forks(self) -> None:
        assert await self._storage.forks(THREAD) == []

    async def reindex(self) -> None:
        row, found = await self._storage.thread(THREAD), await self._storage.derived(THREAD)
        assert row is not None
        assert found is not None
        assert await self._storage.reindex(row, found)

    async def derived(self) -> None:
        found = await self._storage.derived(THREAD)
        assert found is not None
        assert [mark.mark.id for mark in found.checkpoints] == ["chk_1"]

    async def strays(self) -> None:
        assert await self._storage.strays() == {}

    async def projection(self) -> None:
        found = await self._storage.projection(THREAD)
        assert found is not None
        assert (found.row.head, found.version) == (4, 0)

    async def project(self) -> None:
        seen = await self._storage.projection(THREAD)
        assert seen is not None
        line = MessageRow(number=1, micros=seen.row.updated, version=3, role="user", words="one two")
        assert await self._storage.project(Projected(seen=seen, version=4, count=2, rows=[line]))

    async def unprojected(self) -> None:
        assert await self._storage.unprojected(Owner("", "alice")) == []

    async def messages(self) -> None:
        assert len(await self._storage.messages(Owner("", "alice"), MessageQuery(words=("two",)))) == 1

    async def current(self) -> None:
        assert len(await self._storage.current(Owner("", "alice"), MessageQuery(words=("two",))) or ()) == 1

    async def tally(self) -> None:
        assert (await self._storage.tally(THREAD, MessageQuery())).roles[0].messages == 1

    async def checkpoints(self) -> None:
        assert len(await self._storage.checkpoints(THREAD, CheckpointQuery())) == 1

    async def user_checkpoints(self) -> None:
        assert len(await self._storage.user_checkpoints("", "alice", CheckpointQuery())) == 1

    async def checkpoint(self) -> None:
        assert await self._storage.checkpoint("", "alice", "chk_1") is not None

    async def thread(self) -> None:
        assert await self._storage.thread(THREAD) is not None

    async def line(self) -> None:
        assert await self._storage.line(self._uid) is not None

    async def find(self) -> None:
        assert len(await self._storage.find("", THREAD.id)) == 1

    async def threads(self) -> None:
        assert len(await self._storage.threads(ThreadQuery())) == 1

    async def namespaces(self) -> None:
        assert await self._storage.namespaces() == [""]

    async def damaged(self) -> None:
        assert await self._storage.damaged() == []

    async def mend(self) -> None:
        assert await self._storage.mend(THREAD) == []

    async def put_thread(self) -> None:
        source = MemoryStorage()
        await Scribe(source, ManualClock(), seed=2).append(BOBS)
        assert (await self._storage.put_thread(await take(source, BOBS))).head == 1

    async def fork(self) -> None:
        assert (await self._scribe.fork(THREAD, 2, OTHER)).head == 2

    async def delete(self) -> None:
        assert await self._storage.delete(OTHER)

    async def claim(self) -> None:
        lease = await self._storage.claim(THREAD, "me", until=FAR, now=self._scribe.clock.now())
        assert lease.epoch == 1

    async def renew(self) -> None:
        assert (await self._storage.renew(THREAD, 1, until=FAR, now=self._scribe.clock.now())).epoch == 1

    async def release(self) -> None:
        await self._storage.release(THREAD, 1, wake_at=1)

    async def due(self) -> None:
        assert len(await self._storage.due("", FAR)) == 1

    async def due_of_agents(self) -> None:
        assert len(await self._storage.due("", FAR, agents=["", "bot"])) == 1

    async def watch(self) -> None:
        watch = self._storage.watch("")
        assert await watch.wait(GENEROUS)
        await watch.close()

    async def blobs(self) -> None:
        assert await self._storage.blobs(THREAD, [BLOB.digest]) == {BLOB.digest: BLOB.payload}

    async def sweep_blobs(self) -> None:
        assert await self._storage.sweep_blobs(FAR) == 0

    async def sweep_user(self) -> None:
        assert await self._storage.sweep_user("", THREAD.user) == Leftovers()

    async def change_views(self) -> None:
        await self._storage.change_views(views.make)

    async def read_views(self) -> None:
        stale = await self._storage.read_views(lambda tx: views.stale(tx, "", 10))
        assert {each.key for each in stale} == {THREAD, BOBS}

    async def keep(self) -> None:
        assert await self._storage.keep("name", b"value") == b"value"

    async def kept(self) -> None:
        assert await self._storage.kept("na") == {"name": b"value"}

    async def discard(self) -> None:
        await self._storage.discard("name")

    async def integrity(self) -> None:
        assert await self._storage.integrity() == []

    async def compact(self) -> None:
        assert await self._storage.compact() >= 0

    async def sizes(self) -> None:
        assert (await self._storage.sizes()).threads == 2


METHODS = [name for name in vars(Calls) if not name.startswith("_")]


def test_every_method_of_the_contract_is_called() -> None:
    asked = {name for name in dir(PostgresStorage) if not name.startswith("_")}
    assert asked - {"close", "migration", "compacting", "reuses_room", "packs_from", "packs_records_from"} <= set(
        METHODS
    )


def test_a_restart_before_a_call_is_not_noticed(
    server: PostgresServer, storage: PostgresStorage, scribe: Scribe, run: Run
) -> None:
    calls = Calls(storage, scribe)
    for number, name in enumerate(METHODS):
        (server.stop if number % 2 else server.immediate)()
        server.start()
        run(getattr(calls, name)())


@pytest.fixture
def only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that was not told anything does not say "look" by itself."""
    monkeypatch.setattr(watching, "_PATIENCE", 10 * GENEROUS)


@pytest.mark.usefixtures("only_told")
@pytest.mark.parametrize("what", ["timer", "release"])
def test_a_write_wakes_who_waits(server: PostgresServer, storage: PostgresStorage, run: Run, what: str) -> None:
    scribe = Scribe(storage, ManualClock())
    run(scribe.append())
    lease = run(storage.claim(THREAD, "me", until=FAR, now=scribe.clock.now()))
    watch = storage.watch("")
    assert run(watch.wait(GENEROUS))  # from here on it listens
    other = threading.Timer(0.2, lambda: _wake(storage, what, lease.epoch, scribe))
    other.start()
    assert run(watch.wait(GENEROUS))
    other.join()
    run(watch.close())


def _wake(storage: PostgresStorage, what: str, epoch: int, scribe: Scribe) -> None:
    """What another process does."""
    other = PostgresStorage(storage._listening._url, mode="sync")
    if what == "timer":
        drive(other.append(scribe.write(THREAD, MESSAGE, patch=ThreadPatch(wake_at=1))))
    else:
        drive(other.release(THREAD, epoch, wake_at=1))
    drive(other.close())


@pytest.mark.usefixtures("only_told")
def test_a_write_elsewhere_wakes_nobody(storage: PostgresStorage, scribe: Scribe, run: Run) -> None:
    watch = storage.watch("staging")
    assert run(watch.wait(GENEROUS))
    run(scribe.append(THREAD, patch=ThreadPatch(wake_at=1)))
    assert not run(watch.wait(0.3))
    run(watch.close())


def test_a_watch_goes_on_after_a_restart(
    server: PostgresServer, storage: PostgresStorage, scribe: Scribe, run: Run
) -> None:
    watch = storage.watch("")
    assert run(watch.wait(GENEROUS))
    server.immediate()
    assert run(watch.wait(GENEROUS))  # "look": nobody knows what was missed
    server.start()
    run(scribe.append(THREAD, patch=ThreadPatch(wake_at=1)))
    assert run(watch.wait(GENEROUS))
    run(watch.close())
