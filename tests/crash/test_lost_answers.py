"""A connection that is cut while a write is being answered: the caller gets the right answer, the write stands once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure import sync
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import StorageUnavailableError
from perdure.core.identity import ThreadKey
from perdure.storage.drive import drive
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.testing.clock import ManualClock
from perdure.testing.proxy import FaultProxy
from perdure.testing.scribe import OTHER, THREAD, Scribe
from perdure.testing.servers import require, shared_postgres
from tests.crash.lost_packets import reappear, vanish

EDGE = 30  # bytes at both ends of an answer that are all tried; in between, every STEP-th
STEP = 1 if os.environ.get("PERDURE_EVERY_BYTE") == "1" else 47
ONE_CONNECTION = Options(pool_min=1, pool_max=1)
IMPATIENT = "?tcp_user_timeout=300&keepalives_idle=1&keepalives_interval=1&keepalives_count=1&connect_timeout=2"
FAR = 4_000_000_000 * 1_000_000
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with FaultProxy(require(shared_postgres).port) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: FaultProxy, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database whose way leads through the proxy."""
    name = f"answers_{os.getpid()}_{abs(hash(request.node.name))}"
    direct = shared_postgres().database(name)
    yield direct.replace(f":{shared_postgres().port}/", f":{proxy.port}/")
    shared_postgres().drop(name)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Drives or awaits."""
    if request.param == "sync":
        yield drive
    else:
        with asyncio.Runner() as runner:
            yield runner.run


@pytest.fixture
def storage(url: str, run: Run) -> Iterator[PostgresStorage]:
    """One that has a single connection."""
    storage = PostgresStorage(url, ONE_CONNECTION, mode="sync" if run is drive else "async")
    run(storage.setup())
    yield storage
    run(storage.close())


@pytest.fixture
def scribe(storage: PostgresStorage) -> Scribe:
    return Scribe(storage, ManualClock())


class Cutter:
    """Makes a call again and again, its answer cut one byte later each time."""

    def __init__(self, proxy: FaultProxy, before: Callable[[], Any] = lambda: None) -> None:
        self._proxy = proxy
        self._before = before  # what has to be done before each call, undisturbed

    def each(self, call: Callable[[], Any]) -> Iterator[Any]:
        """The answers, one for each place of the cut."""
        size = self._size(call)
        for count in sorted({*range(EDGE), *range(0, size, STEP), *range(size - EDGE, size)}):
            self._before()
            self._proxy.cut_after(bytes_to_client=count)
            answer = call()
            self._proxy.heal()
            yield answer

    def _size(self, call: Callable[[], Any]) -> int:
        """How many bytes the server answers on a connection that is new, as it is after a cut."""
        self._proxy.cut()
        self._before()
        call()
        self._before()
        before = self._proxy.traffic.to_client
        call()
        return self._proxy.traffic.to_client - before


@pytest.mark.parametrize("marked", [True, False])
def test_a_save_in_one_statement_is_answered_and_stands_once(
    proxy: FaultProxy, storage: PostgresStorage, scribe: Scribe, run: Run, marked: bool
) -> None:
    uid, written = run(scribe.append()).row.uid, []

    def save() -> Any:
        mark = scribe.mark() if marked else None
        written.append(scribe.write(THREAD, uid=uid, expected=len(written) + 1, checkpoint=mark))
        return run(storage.append(written[-1]))

    for made in Cutter(proxy).each(save):
        assert (made.version, made.before, made.again) == (len(written) + 1, len(written), False)
        assert (made.checkpoint and made.checkpoint.mark.id) == (written[-1].checkpoint and written[-1].checkpoint.id)
    found = run(storage.entries(THREAD))
    assert [entry.write_id for entry in found[1:]] == [write.write_id for write in written]
    assert verify_links(THREAD.id, 0, GENESIS, found) == run(storage.thread(THREAD)).head_digest


def test_a_write_of_several_statements_is_answered_and_stands_once(
    proxy: FaultProxy, storage: PostgresStorage, scribe: Scribe, run: Run
) -> None:
    count = 0

    def make() -> Any:
        nonlocal count
        count += 1
        return run(scribe.append(ThreadKey("", "", f"t{count}"), expected=0, idem_key="k", request=b"r"))

    for made in Cutter(proxy).each(make):
        assert (made.version, made.again) == (1, False)
        assert len(run(storage.entries(made.row.key))) == 1


def test_a_claim_and_a_release_are_answered_and_made_once(
    proxy: FaultProxy, storage: PostgresStorage, scribe: Scribe, run: Run
) -> None:
    run(scribe.append())
    epoch = 0

    def claim_and_release() -> Any:
        nonlocal epoch
        epoch += 1
        lease = run(storage.claim(THREAD, "me", until=FAR, now=scribe.clock.now()))
        run(storage.release(THREAD, lease.epoch))
        return lease

    for lease in Cutter(proxy).each(claim_and_release):
        assert (lease.epoch, lease.owner) == (epoch, "me")
        row = run(storage.thread(THREAD))
        assert (row.epoch, row.lease_owner) == (epoch, None)


def test_a_fork_and_its_deletion_are_answered_and_made_once(
    proxy: FaultProxy, storage: PostgresStorage, scribe: Scribe, run: Run
) -> None:
    run(scribe.grow(THREAD, 2))

    def fork_and_delete() -> Any:
        target = scribe.target(OTHER)
        made = run(storage.fork(THREAD, 2, target))
        return made.uid == target.uid, run(storage.delete(OTHER))

    for answers in Cutter(proxy).each(fork_and_delete):
        assert answers == (True, True)
        assert run(storage.thread(OTHER)) is None


@pytest.mark.parametrize("change", ["save", "update"])
def test_a_handle_goes_on_after_an_answer_that_was_lost(proxy: FaultProxy, url: str, change: str) -> None:
    with sync.Perdure.open(url, pool_max=1) as store:
        thread = store.thread("t", user="u")
        thread.save({"n": 0})
        proxy.cut_after(bytes_to_client=0)
        for n in (1, 2):
            if change == "save":
                thread.save({"n": n})
            else:
                thread.update(set={"n": n}, key=f"key {n}")
        assert (thread.load(), thread.info().version) == ({"n": 2}, 3)


@pytest.mark.parametrize("change", ["save", "append", "append with a key"])
def test_an_answer_found_behind_the_writes_of_others_hides_none_of_them(
    proxy: FaultProxy, url: str, change: str
) -> None:
    direct = url.replace(f":{proxy.port}/", f":{shared_postgres().port}/")
    with sync.Perdure.open(url, pool_max=1) as store, sync.Perdure.open(direct) as other:
        mine, theirs = store.thread("t", user="u"), other.thread("t", user="u")
        mine.save({"tokens": ["first"]})
        theirs.load()
        proxy.cut_after(bytes_to_client=0)
        proxy.refuse()  # the answer is lost, and nobody can ask for it yet
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(_write, mine, change)
            _await_version(theirs, 2)
            theirs.append("tokens", "theirs")
            proxy.heal()
            call.result()
        assert mine.load() == theirs.load()
        assert mine.append("tokens", "last") == 4
        assert sorted(mine.load()["tokens"]) == sorted(["first", "mine", "theirs", "last"])


def _write(thread: sync.Thread, change: str) -> None:
    if change == "save":
        thread.save({"tokens": ["first", "mine"]})
    else:
        thread.append("tokens", "mine", key="k" if "key" in change else None)


def _await_version(thread: sync.Thread, version: int) -> None:
    while thread.info().version < version:
        time.sleep(0.01)


def test_a_peer_that_vanished_is_noticed_and_called_again(proxy: FaultProxy, url: str) -> None:
    with sync.Perdure.open(url + IMPATIENT, pool_max=1) as store:
        store.thread("t").append("tokens", 1)
        vanish(proxy)
        assert store.thread("t").append("tokens", 2) == 2
        assert store.thread("t").load() == {"tokens": [1, 2]}


def test_a_peer_that_vanishes_before_it_answers_is_noticed(proxy: FaultProxy, url: str) -> None:
    with sync.Perdure.open(url + IMPATIENT, pool_max=1) as store:
        store.thread("t").append("tokens", 1)
        proxy.half_open(to_server=False)
        gone = threading.Timer(0.2, lambda: (vanish(proxy), proxy.heal()))
        gone.start()
        assert store.thread("t").append("tokens", 2) == 2
        gone.join()
        assert store.thread("t").load() == {"tokens": [1, 2]}


def test_a_peer_that_stays_away_is_a_typed_error(proxy: FaultProxy, url: str) -> None:
    with sync.Perdure.open(url + IMPATIENT, pool_max=1, retry_seconds=0.5) as store:
        store.thread("t").append("tokens", 1)
        vanish(proxy, also_new=True)
        with pytest.raises(StorageUnavailableError):
            store.thread("t").append("tokens", 2)
        reappear(proxy)
        assert store.thread("t").append("tokens", 3) >= 2
