"""The server's time on PostgreSQL: a save brings it along where it was told lately, and is made by it in any case."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from time import monotonic
from typing import Any

import psycopg
import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import LeaseHeldError
from perdure.storage.drive import drive
from perdure.storage.postgres.options import Options
from perdure.storage.postgres.store import PostgresStorage
from perdure.storage.postgres.wires import AsyncPsycopgWire, PsycopgWire
from perdure.storage.sql import server_time
from perdure.storage.sql.server_time import BEHIND
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.contract.running import Run
from perdure.testing.scribe import MESSAGE, SECOND, STATE, THREAD, Scribe
from perdure.testing.servers import require, shared_postgres
from tests.contract.backends import MODES

_NUMBERS = itertools.count()
TTL = 30 * SECOND


class Scene:
    """A storage that goes by the server's clock, and somebody who writes to it and whose own clock is far behind."""

    def __init__(self, url: str, mode: Mode, run: Run) -> None:
        self.url = url
        self.run = run
        self.storage = PostgresStorage(url, Options(), mode=mode)
        self.clock = ManualClock()
        self.scribe = Scribe(self.storage, self.clock)
        run(self.storage.setup())

    def tell(self, micros: int) -> None:
        """Let the storage believe that it is this time at the server."""
        assert self.storage._port.time is not None
        self.storage._port.time._told = (micros, monotonic())

    def server_now(self) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        return int(row[0]) if row else 0


@pytest.fixture(params=MODES)
def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(server_time, "_CLOSE", 60.0)  # also on a machine that is busy
    name = f"time_{os.getpid()}_{next(_NUMBERS)}"
    url = require(lambda: shared_postgres().database(name))
    with asyncio.Runner() as runner:
        scene = Scene(url, request.param, drive if request.param == "sync" else runner.run)
        yield scene
        scene.run(scene.storage.close())
    shared_postgres().drop(name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement whose rows are asked for."""
    texts: list[str] = []
    for kind in (PsycopgWire, AsyncPsycopgWire):
        rows = kind.rows

        async def heard(self: Any, sql: str, values: Any = (), rows: Any = rows) -> Any:
            texts.append(sql)
            return await rows(self, sql, values)

        monkeypatch.setattr(kind, "rows", heard)
    return texts


def brings_the_time(text: str) -> bool:
    return "to_timestamp" in text


KINDS: dict[str, Any] = {
    "state": lambda version: {"expected": version - 1},
    "append": lambda version: {"commutes": True},
    "key": lambda version: {"idem_key": f"k{version}", "request": b"r", "expected": version - 1},
    "run": lambda version: {"epoch": 1, "renew_until": version * TTL},
}


@pytest.mark.parametrize("has_mark", [False, True])
@pytest.mark.parametrize("spoken", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_save_on_a_known_line_brings_the_time(
    scene: Scene, asked: list[str], kind: str, spoken: int, has_mark: bool
) -> None:
    scribe, storage, run = scene.scribe, scene.storage, scene.run
    uid = run(scribe.append()).row.uid
    if kind == "run":
        run(storage.claim(THREAD, "me", until=scene.clock.now() + TTL, now=scene.clock.now()))
    run(storage.restore(THREAD))
    version = 1
    for _ in range(6):  # more often than it takes for a statement to be prepared
        asked.clear()
        before = run(storage.thread(THREAD))
        asked.clear()
        fields = KINDS[kind](version + 1) | {"checkpoint": scribe.mark() if has_mark else None}
        made = run(scribe.append(THREAD, *([MESSAGE] * spoken), STATE, uid=uid, **fields))
        assert [brings_the_time(text) for text in asked] == [True]
        version += spoken + 1
        assert (made.version, made.state_version, made.again) == (version, version, False)
        assert made.before == before.state_version
        assert made.row == run(storage.thread(THREAD))
        marks = run(storage.checkpoints(THREAD, CheckpointQuery()))
        assert marks[:1] == ([made.checkpoint] if has_mark else [])
    assert verify_links("t1", 0, GENESIS, run(storage.entries(THREAD))) == made.row.head_digest


def test_messages_alone_bring_the_time_and_leave_the_state(scene: Scene, asked: list[str]) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    asked.clear()
    made = scene.run(scene.scribe.append(THREAD, MESSAGE, MESSAGE, uid=uid))
    assert [brings_the_time(text) for text in asked] == [True]
    assert (made.version, made.state_version, made.row.state_version) == (3, 0, 1)
    assert made.row == scene.run(scene.storage.thread(THREAD))


async def test_a_save_that_waited_for_a_connection_brings_the_time_of_its_sending(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_time, "_CLOSE", 60.0)
    name = f"time_{os.getpid()}_{next(_NUMBERS)}"
    storage = PostgresStorage(require(lambda: shared_postgres().database(name)), Options(pool_max=1), mode="async")
    await storage.setup()
    scribe = Scribe(storage, ManualClock())
    uid = (await scribe.append()).row.uid
    asked.clear()
    busy = storage._port.read(lambda tx: tx.rows(f"SELECT pg_sleep({3 * BEHIND / SECOND})::text"), alone=True)
    holder = asyncio.create_task(busy)
    await asyncio.sleep(0)  # it has the connection now
    await scribe.append(THREAD, STATE, uid=uid, expected=1)
    await holder
    await storage.close()
    assert [brings_the_time(text) for text in asked] == [False, True]
    shared_postgres().drop(name)


@pytest.mark.parametrize("what", ["state", "message"])
@pytest.mark.parametrize("wrong", [3600 * SECOND, SECOND // 2, -SECOND // 2, -3600 * SECOND])
def test_a_server_whose_clock_jumps_is_followed(scene: Scene, what: str, wrong: int) -> None:
    """It is the same whether its clock went wrong or ours."""
    uid = scene.run(scene.scribe.append()).row.uid
    before = scene.server_now()
    scene.tell(before + wrong)
    kinds, fields = ((STATE,), {"expected": 1}) if what == "state" else ((MESSAGE,), {})
    made = scene.run(scene.scribe.append(THREAD, *kinds, uid=uid, **fields))
    after = scene.server_now()
    assert before <= made.row.updated <= after
    again = scene.run(scene.scribe.append(THREAD, *kinds, uid=uid, **({"expected": 2} if fields else {})))
    assert made.row.updated <= again.row.updated <= scene.server_now()
    entries = scene.run(scene.storage.entries(THREAD))
    assert verify_links("t1", 0, GENESIS, entries) == again.row.head_digest


def test_what_did_not_fit_is_told_anew(scene: Scene, asked: list[str]) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    scene.tell(scene.server_now() + SECOND)
    for version, tries in ((1, [True, False, True]), (2, [True])):  # the row is read with the time
        asked.clear()
        scene.run(scene.scribe.append(THREAD, uid=uid, expected=version))
        assert [brings_the_time(text) for text in asked] == tries


def test_a_lease_that_was_renewed_costs_no_second_try(scene: Scene, asked: list[str]) -> None:
    run, storage, clock = scene.run, scene.storage, scene.clock
    uid = run(scene.scribe.append()).row.uid
    run(storage.claim(THREAD, "me", until=clock.now() + TTL, now=clock.now()))
    run(storage.thread(THREAD))
    for _ in range(3):
        run(storage.renew(THREAD, 1, until=clock.now() + 5 * TTL, now=clock.now()))
        asked.clear()
        made = run(scene.scribe.append(THREAD, MESSAGE, uid=uid, epoch=1, renew_until=clock.now() + TTL))
        assert [brings_the_time(text) for text in asked] == [True]
        assert made.row == run(storage.thread(THREAD))


def test_a_request_without_a_key_is_no_part_of_its_entry(scene: Scene) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    made = scene.run(scene.scribe.append(THREAD, uid=uid, request=b"r"))
    assert verify_links("t1", 0, GENESIS, scene.run(scene.storage.entries(THREAD))) == made.row.head_digest


def test_a_value_that_cannot_be_sent_is_no_damage(scene: Scene) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    entry = scene.scribe.entry(actor="\ud800")
    with pytest.raises(UnicodeEncodeError):
        scene.run(scene.storage.append(scene.scribe.write(THREAD, uid=uid, entries=(entry,))))
    assert scene.run(scene.scribe.append(THREAD, uid=uid)).version == 2


def test_time_never_goes_back_inside_a_log(scene: Scene, asked: list[str]) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    later = scene.server_now() + 3600 * SECOND
    with psycopg.connect(scene.url, autocommit=True) as connection:
        connection.execute("UPDATE perdure.thread SET updated_at = %s", (later,))
    scene.run(scene.storage.restore(THREAD))  # the line as it is now
    asked.clear()
    made = [scene.run(scene.scribe.append(THREAD, uid=uid, expected=version)) for version in (1, 2)]
    assert [each.row.updated for each in made] == [later, later]
    assert [brings_the_time(text) for text in asked] == [True, True]
    assert verify_links("t1", 0, GENESIS, scene.run(scene.storage.entries(THREAD))) == made[-1].row.head_digest


def test_many_saves_have_times_that_are_the_servers_or_a_moment_before(scene: Scene) -> None:
    before = scene.server_now()
    uid = scene.run(scene.scribe.append()).row.uid
    for version in range(2, 40):
        made = scene.run(scene.scribe.append(THREAD, uid=uid, expected=version - 1))
        now = scene.server_now()
        assert before - BEHIND <= made.row.updated <= now  # never after it
        before = now
    times = [entry.micros for entry in scene.run(scene.storage.entries(THREAD))]
    assert times == sorted(times)


def test_leases_are_judged_and_renewed_by_the_servers_time(scene: Scene) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    now, before = scene.clock.now(), scene.server_now()
    lease = scene.run(scene.storage.claim(THREAD, "me", until=now + TTL, now=now))
    assert before + TTL <= lease.until <= scene.server_now() + TTL
    with pytest.raises(LeaseHeldError):
        scene.run(scene.scribe.append(THREAD, uid=uid, expected=1, micros=now + 9**15))
    for _ in range(2):
        before = scene.server_now()
        made = scene.run(scene.scribe.append(THREAD, uid=uid, epoch=1, renew_until=scene.clock.now() + 2 * TTL))
        assert before + 2 * TTL - BEHIND - SECOND <= made.row.lease_until <= scene.server_now() + 2 * TTL
        assert made.row == scene.run(scene.storage.thread(THREAD))


@pytest.mark.parametrize("written_since", [0, 1, 2])
def test_a_database_that_was_restored_under_a_storage_is_not_taken_for_what_it_was(
    scene: Scene, written_since: int
) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    tables = ("thread", "entry")
    with psycopg.connect(scene.url, autocommit=True) as connection:
        for table in tables:
            connection.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM perdure.{table}".encode())
        connection.execute("ALTER TABLE kept_thread DROP COLUMN updated_minute")
        for _ in range(2):
            scene.run(scene.scribe.append(THREAD, MESSAGE, uid=uid))
        connection.execute("DELETE FROM perdure.thread; DELETE FROM perdure.entry")
        columns = connection.execute(
            "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute "
            "WHERE attrelid = 'kept_thread'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        names = str(columns.fetchone()[0])  # type: ignore[index]
        connection.execute(f"INSERT INTO perdure.thread ({names}) SELECT {names} FROM kept_thread".encode())
        connection.execute("INSERT INTO perdure.entry SELECT * FROM kept_entry")
    other = PostgresStorage(scene.url, Options(), mode="sync")
    for _ in range(written_since):
        drive(other.append(scene.scribe.write(THREAD, MESSAGE, uid=uid)))
    made = scene.run(scene.scribe.append(THREAD, MESSAGE, uid=uid))
    assert made.version == written_since + 2
    entries = scene.run(scene.storage.entries(THREAD))
    assert verify_links("t1", 0, GENESIS, entries) == made.row.head_digest
    drive(other.close())
