"""Several processes on one PostgreSQL: one winner for each version, one owner at a time, one clock."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import LeaseHeldError
from perdure.storage.drive import drive
from perdure.storage.postgres.store import PostgresStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import MESSAGE, SECOND, THREAD, Scribe
from perdure.testing.servers import require, shared_postgres
from tests.crash.waiting_child import Child, now, together

RACERS = 8
ROUNDS = int(os.environ.get("PERDURE_RACES", "60"))
TTL = 30 * SECOND
HOURS = 5 * 3600 * SECOND
WRONG = pytest.mark.parametrize("wrong", [HOURS, -HOURS], ids=["fast", "slow"])


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W", "_", request.node.name)[:40] + str(os.getpid())
    yield require(shared_postgres).database(name)
    shared_postgres().drop(name)


@pytest.fixture
def storage(url: str) -> Iterator[PostgresStorage]:
    """One whose server's clock counts."""
    storage = PostgresStorage(url, mode="sync")
    drive(storage.setup())
    yield storage
    drive(storage.close())


@pytest.fixture
def scribe(storage: PostgresStorage) -> Scribe:
    return Scribe(storage, ManualClock())


def test_of_eight_processes_one_wins_each_version(url: str, storage: PostgresStorage, scribe: Scribe) -> None:
    drive(scribe.append())
    ended = together([Child("race", url, number, ROUNDS) for number in range(1, RACERS + 1)])
    for version, tries in enumerate(zip(*ended, strict=True), start=1):
        assert [at for won, at in tries if won] == [version + 1]
        assert all(actual > version for _, actual in tries)
    told = [[actual for _, actual in tries] for tries in ended]
    assert [sorted(each) for each in told] == told  # nobody is told of an older head than before
    found = drive(storage.entries(THREAD))
    assert [entry.version for entry in found] == list(range(1, ROUNDS + 2))
    assert verify_links(THREAD.id, 0, GENESIS, found) == found[-1].chain


def test_an_owner_that_was_frozen_while_its_lease_was_taken_is_refused(
    url: str, storage: PostgresStorage, scribe: Scribe
) -> None:
    drive(scribe.append())
    child = Child("hold", url, 1.0)
    try:
        assert child.heard() == "ready"
        child.tell()
        assert child.heard() == 1
        os.kill(child.pid, signal.SIGSTOP)
        taken = _taken(storage)
        child.tell()
        os.kill(child.pid, signal.SIGCONT)
        assert (taken, child.heard()) == (2, ["LeaseLostError at epoch 2"] * 4)
    finally:
        os.kill(child.pid, signal.SIGCONT)
        child.end()
    assert len(drive(storage.entries(THREAD))) == 1


def _taken(storage: PostgresStorage) -> int:
    """Wait for the lease of another to run out, and take it."""
    while True:
        try:
            return drive(storage.claim(THREAD, "me", until=now() + TTL, now=now())).epoch
        except LeaseHeldError:
            time.sleep(0.05)


def server_now(storage: PostgresStorage) -> int:
    return drive(storage._run.read(lambda tx: tx.moment(0), alone=True))


@WRONG
def test_a_wrong_clock_steals_no_live_lease(storage: PostgresStorage, scribe: Scribe, wrong: int) -> None:
    row = drive(scribe.append()).row
    lease = drive(storage.claim(THREAD, "me", until=now() + TTL, now=now()))
    there = server_now(storage) + wrong
    with pytest.raises(LeaseHeldError):
        drive(storage.claim(THREAD, "thief", until=there + TTL, now=there))
    for known in ({}, {"uid": row.uid}):
        with pytest.raises(LeaseHeldError):
            drive(scribe.append(THREAD, micros=there, **known))
    assert drive(storage.due("", there)) == []
    assert drive(storage.renew(THREAD, lease.epoch, until=now() + TTL, now=now())).owner == "me"


@WRONG
def test_a_wrong_clock_gets_a_lease_of_the_length_it_asked_for(
    storage: PostgresStorage, scribe: Scribe, wrong: int
) -> None:
    uid, there = drive(scribe.append()).row.uid, server_now(storage) + wrong
    lengths = [drive(storage.claim(THREAD, "me", until=there + TTL, now=there)).until - server_now(storage)]
    lengths.append(drive(storage.renew(THREAD, 1, until=there + 2 * TTL, now=there)).until - server_now(storage))
    run = {"epoch": 1, "micros": there}
    for number, known in enumerate(({}, {"uid": uid}), start=3):
        made = drive(scribe.append(THREAD, MESSAGE, renew_until=there + number * TTL, **run, **known))
        lengths.append(made.row.lease_until - server_now(storage))
    assert [-(-length // TTL) for length in lengths] == [1, 2, 3, 4]


@WRONG
def test_a_wrong_clock_writes_the_servers_time(storage: PostgresStorage, scribe: Scribe, wrong: int) -> None:
    began = server_now(storage)
    uid = drive(scribe.append(THREAD, micros=began + wrong)).row.uid
    drive(scribe.append(THREAD, uid=uid, expected=1, micros=began + wrong, checkpoint=scribe.mark()))
    drive(scribe.append(THREAD, micros=began + wrong))
    times = [entry.micros for entry in drive(storage.entries(THREAD))]
    assert times == sorted(times)
    assert began <= times[0] <= times[-1] <= server_now(storage)
