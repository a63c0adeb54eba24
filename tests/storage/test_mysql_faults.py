"""MySQL and MariaDB that go away: callers notice nothing but the time, and nothing is written twice."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import StorageUnavailableError
from perdure.core.threads import ThreadQuery
from perdure.storage.drive import drive
from perdure.storage.mysql.store import MysqlStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.contract.running import Run
from perdure.testing.proxy import FaultProxy
from perdure.testing.scribe import OTHER, SECOND, THREAD, Scribe, blob_of, snapshot_of
from perdure.testing.servers import MariadbServer, require, shared_mariadb
from tests.contract.backends import MODES
from tests.storage.test_mysql import mode, run, url  # noqa: F401  # fixtures

TTL = 30 * SECOND
CUTS = [0, 1, 4, 9, 11, 22, 30, 60, 150, 400]  # bytes of an answer that still arrive


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with FaultProxy(require(shared_mariadb).port) as proxy:
        yield proxy


@pytest.fixture
def scribe(url: str, mode: Mode, run: Run, proxy: FaultProxy) -> Iterator[Scribe]:
    """Somebody whose way to the server leads through the proxy."""
    way = url.replace(f":{shared_mariadb().port}/", f":{proxy.port}/")
    storage = MysqlStorage(way, mode=mode, server_time=False, pool_max=1)
    run(storage.setup())
    yield Scribe(storage, ManualClock())
    proxy.heal()
    run(storage.close())


WAYS: dict[str, dict[str, Any]] = {"known": {}, "unknown": {}, "slow": {"blobs": (blob_of("x"),)}}


@pytest.mark.parametrize("way", WAYS)
def test_a_save_whose_answer_is_cut_anywhere_is_made_once(
    scribe: Scribe, run: Run, proxy: FaultProxy, way: str
) -> None:
    storage: Any = scribe.storage
    uid = run(scribe.append()).row.uid
    for number, left in enumerate(CUTS, 2):
        if way == "unknown":
            storage._known.clear()
        write = scribe.write(THREAD, uid=uid, commutes=True, checkpoint=scribe.mark(), **WAYS[way])
        proxy.cut_after(bytes_to_client=left)
        made = run(storage.append(write))
        proxy.heal()
        assert (made.version, made.row.head, made.checkpoint.entry) == (number, number, number)
        assert (made.again, made.before, made.state_version) == (False, number - 1, number)
    found = run(storage.entries(THREAD))
    assert [entry.version for entry in found] == list(range(1, len(CUTS) + 2))
    assert verify_links("t1", 0, GENESIS, found) == made.row.head_digest


def test_a_key_of_an_earlier_call_is_found_again_behind_a_cut(scribe: Scribe, run: Run, proxy: FaultProxy) -> None:
    storage = scribe.storage
    first = run(scribe.append(idem_key="k", request=b"r"))
    proxy.cut_after(bytes_to_client=0)
    again = run(storage.append(scribe.write(THREAD, idem_key="k", request=b"r")))
    assert (again.again, again.version) == (True, first.version)


@pytest.mark.parametrize("way", WAYS)
def test_a_save_that_is_cut_on_its_way_is_made_once(scribe: Scribe, run: Run, proxy: FaultProxy, way: str) -> None:
    storage: Any = scribe.storage
    uid = run(scribe.append()).row.uid
    for number, left in enumerate([0, 1, 4, 100, 700, 1500], 2):
        if way == "unknown":
            storage._known.clear()
        write = scribe.write(THREAD, uid=uid, commutes=True, **WAYS[way])
        proxy.cut_after(bytes_to_server=left)
        assert run(storage.append(write)).version == number
        proxy.heal()


def test_leases_forks_and_deletions_whose_answer_is_cut_are_made_once(
    scribe: Scribe, run: Run, proxy: FaultProxy
) -> None:
    storage = scribe.storage
    run(scribe.append())
    for epoch, left in enumerate(CUTS, 1):
        proxy.cut_after(bytes_to_client=left)
        assert run(storage.claim(THREAD, "me", until=TTL, now=0)).epoch == epoch
        proxy.heal()
        proxy.cut_after(bytes_to_client=left)
        assert run(storage.renew(THREAD, epoch, until=2 * TTL, now=0)).until == 2 * TTL
        proxy.heal()
        proxy.cut_after(bytes_to_client=left)
        run(storage.release(THREAD, epoch))
        proxy.heal()
        target = scribe.target(OTHER)
        proxy.cut_after(bytes_to_client=left)
        assert run(storage.fork(THREAD, 1, target)).uid == target.uid
        proxy.heal()
        proxy.cut_after(bytes_to_client=left)
        assert run(storage.delete(OTHER)) is True
        proxy.heal()
    assert run(storage.thread(OTHER)) is None


def test_a_server_that_answers_nobody_is_given_up(url: str, mode: Mode, run: Run, proxy: FaultProxy) -> None:
    way = url.replace(f":{shared_mariadb().port}/", f":{proxy.port}/")
    proxy.half_open()
    storage = MysqlStorage(way, mode=mode, connect_timeout=0.2)
    with pytest.raises(StorageUnavailableError):
        run(storage.setup())
    proxy.heal()
    run(storage.close())


def test_a_server_that_stays_away_is_given_up_after_a_while(scribe: Scribe, run: Run, proxy: FaultProxy) -> None:
    storage: Any = scribe.storage
    run(scribe.append())
    storage._run._seconds = 0.1
    proxy.refuse()
    proxy.cut()
    for call in (scribe.append(), storage.thread(THREAD)):
        with pytest.raises(StorageUnavailableError):
            run(call)
    proxy.heal()
    assert run(scribe.append()).version == 2


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with require(MariadbServer) as server:
        yield server


def test_every_call_goes_on_after_a_restart_of_the_server(server: MariadbServer) -> None:
    with asyncio.Runner() as runner:
        ways: list[tuple[Mode, Run]] = [(MODES[0], drive), (MODES[1], runner.run)]
        plays = [_play(server.database(mode), mode, run) for mode, run in ways]
        while [next(play, None) for play in plays] != [None, None]:
            server.crash()
            server.start()


def _play(place: str, mode: Mode, run: Run) -> Iterator[bool]:
    """One call of each kind after the other; between two of them the server is started anew."""
    storage = MysqlStorage(place, mode=mode, server_time=False)
    run(storage.setup())
    yield True
    run(storage.setup())
    yield True
    scribe = Scribe(storage, ManualClock())
    made = run(scribe.append(blobs=(blob_of("x"),)))
    yield True
    made = run(scribe.append(THREAD, uid=made.row.uid, expected=1, checkpoint=scribe.mark()))
    assert (made.version, made.again) == (2, False)
    yield True
    assert len(run(storage.restore(THREAD)).entries) == 2  # type: ignore[union-attr]
    yield True
    assert [entry.version for entry in run(storage.entries(THREAD))] == [1, 2]
    yield True
    assert [entry.version for entry in run(storage.headers(THREAD))] == [2]
    yield True
    assert run(storage.put_snapshot(THREAD, made.row.uid, snapshot_of(2)))
    yield True
    run(storage.drop_snapshot(THREAD, 2))
    yield True
    assert run(storage.checkpoints(THREAD, CheckpointQuery())) == [made.checkpoint]
    yield True
    assert run(storage.user_checkpoints("", None, CheckpointQuery())) == [made.checkpoint]
    yield True
    assert run(storage.checkpoint("", None, made.checkpoint.mark.id)) == made.checkpoint  # type: ignore[union-attr]
    yield True
    assert run(storage.thread(THREAD)) == made.row
    yield True
    assert run(storage.find("", "t1")) == [made.row]
    yield True
    assert run(storage.threads(ThreadQuery())) == [made.row]
    yield True
    run(scribe.fork(THREAD, 1, OTHER))
    yield True
    assert run(storage.claim(THREAD, "me", until=TTL, now=0)).epoch == 1
    yield True
    assert run(storage.renew(THREAD, 1, until=2 * TTL, now=0)).until == 2 * TTL
    yield True
    assert [row.key for row in run(storage.due("", 3 * TTL))] == [THREAD]
    yield True
    run(storage.release(THREAD, 1))
    yield True
    assert len(run(storage.blobs(THREAD, [blob_of("x").digest]))) == 1
    yield True
    assert run(storage.keep("name", b"value")) == b"value"
    yield True
    assert run(storage.sizes()).entries == 2
    yield True
    assert run(storage.delete(OTHER)) is True
    yield True
    assert run(storage.sweep_blobs(0)) == 0
    run(storage.close())
