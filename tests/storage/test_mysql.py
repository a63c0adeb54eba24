"""What is particular about MySQL and MariaDB: texts, round trips, the server's time, locks, users, errors."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import (
    LeaseHeldError,
    NotAStorageError,
)
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadPatch, ThreadQuery
from perdure.storage.drive import drive
from perdure.storage.mysql import wires
from perdure.storage.mysql.literals import literal, spelled
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.sql import server_time
from perdure.storage.sql.server_time import BEHIND
from perdure.storage.sql.transactions import TryAgain
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.contract.running import Run
from perdure.testing.scribe import MESSAGE, SECOND, STATE, THREAD, Scribe, blob_of
from perdure.testing.servers import require, shared_mariadb
from tests.contract.backends import MODES
from tests.storage.mysql import run_mysql

_NUMBERS = itertools.count()
TTL = 30 * SECOND
HOSTILE = [
    "'; DROP TABLE perdure_thread; -- ",
    "\\'; DROP TABLE perdure_thread; -- ",
    "\\",
    "'",
    "''\\''",
    '"; DROP TABLE perdure_thread; #',
    "? %s {now} :name $1 @perdure_now",
    "/*! DROP TABLE perdure_thread */",
    "é\\'漢'\U0001f600\\",
    "\x1a\n\r\t\b",
    " trailing ",
]


@pytest.fixture
def url() -> Iterator[str]:
    server, name = require(shared_mariadb), f"mysql_{os.getpid()}_{next(_NUMBERS)}"
    yield server.database(name)
    server.drop(name)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param


@pytest.fixture
def run(mode: Mode) -> Iterator[Run]:
    if mode == "sync":
        yield drive
    else:
        with asyncio.Runner() as runner:
            yield runner.run


class Scene:
    """A storage that was set up, and somebody who writes to it."""

    def __init__(self, url: str, mode: Mode, run: Run, **options: Any) -> None:
        self.url = url
        self.run = run
        self.storage = MysqlStorage(url, mode=mode, **options)
        self.clock = ManualClock()
        self.scribe = Scribe(self.storage, self.clock)
        run(self.storage.setup())

    def close(self) -> None:
        self.run(self.storage.close())


@pytest.fixture
def scene(url: str, mode: Mode, run: Run) -> Iterator[Scene]:
    scene = Scene(url, mode, run, server_time=False)
    yield scene
    scene.close()


@pytest.fixture
def timed(url: str, mode: Mode, run: Run) -> Iterator[Scene]:
    scene = Scene(url, mode, run)
    yield scene
    scene.close()


# Texts.


def test_the_longest_ids_of_the_widest_characters_fit_everywhere_at_once(scene: Scene) -> None:
    wide = "\U0001f600" * 511
    keys = [ThreadKey(wide + "n", wide + "u", wide + end) for end in ("\U0001f600", "\U0001f601")]
    for key in keys:
        scene.run(scene.scribe.append(key, idem_key=wide + "k", request=b"r"))
        scene.run(scene.scribe.save(key))
    made = scene.run(scene.scribe.append(keys[0], checkpoint=scene.scribe.mark(id=wide + "c", kind=wide + "d")))
    fork = scene.run(scene.scribe.fork(keys[0], 2, ThreadKey(wide + "n", wide + "u", wide + "f")))
    found = scene.run(scene.storage.threads(ThreadQuery(namespace=wide + "n", user=wide + "u")))
    assert sorted(row.key.id for row in found) == sorted([keys[0].id, keys[1].id, fork.key.id])
    listed = scene.run(scene.storage.checkpoints(keys[0], CheckpointQuery(kind=wide + "d")))
    assert listed == [made.checkpoint]
    assert scene.run(scene.storage.find(wide + "n", keys[1].id))[0].key == keys[1]
    assert scene.run(scene.storage.delete(keys[0]))
    assert scene.run(scene.storage.thread(keys[0])) is None
    assert len(scene.run(scene.storage.entries(fork.key))) == 2


def test_case_accents_and_trailing_spaces_tell_users_apart(scene: Scene) -> None:
    users = ["a", "A", "a ", "á", "a\u0301", "\u00df", "ss"]
    for user in users:
        scene.run(scene.scribe.save(ThreadKey("", user, "t"), kind=user))
    for user in users:
        (row,) = scene.run(scene.storage.threads(ThreadQuery(user=user)))
        (mark,) = scene.run(scene.storage.user_checkpoints("", None, CheckpointQuery(kind=user)))
        assert (row.key.user, mark.user) == (user, user)


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_kept_as_it_is_and_never_run(scene: Scene, text: str) -> None:
    key, scribe = ThreadKey(text, text, text), scene.scribe
    mark = {"kind": text, "status": text, "agent": text}
    patch = ThreadPatch(name=text, agent=text, tags=(text,), status=text)
    entry = scribe.entry(STATE, actor=text)
    slow = scene.run(scribe.append(key, idem_key=text, request=text.encode(), patch=patch))
    quick = {"entries": (entry,), "uid": slow.row.uid, "idem_key": text + "2", "patch": patch}
    made = scene.run(scribe.append(key, **quick, checkpoint=scribe.mark(metadata={text: text}, note=text, **mark)))
    assert made.row == scene.run(scene.storage.thread(key))
    assert (made.row.name, made.row.agent, made.row.tags, made.row.status) == (text, text, (text,), text)
    assert scene.run(scene.storage.checkpoints(key, CheckpointQuery(**mark, metadata={text: text}))) == [
        made.checkpoint
    ]
    first, second = scene.run(scene.storage.entries(key))
    assert (first.key, second.key, second.actor, second.payload) == (text, text + "2", text, entry.payload)
    assert scene.run(scribe.append(key, idem_key=text + "2")).again


def test_all_bytes_are_kept_by_the_quick_way_and_by_the_slow_one(scene: Scene) -> None:
    every = bytes(range(256)) + b"\\'" * 9 + bytes(range(255, -1, -1))
    entry = scene.scribe.entry(STATE, body=every)
    uid = scene.run(scene.scribe.append(THREAD, entries=(entry,))).row.uid
    scene.run(scene.scribe.append(THREAD, entries=(entry,), uid=uid, write_id=every[:32]))
    assert [each.payload for each in scene.run(scene.storage.entries(THREAD))] == [entry.payload] * 2


def test_what_stands_in_a_statement_is_quoted() -> None:
    given = ("it's \\ \0", b"\0'\\\xff", 7, None, True)
    assert spelled("? ? ? ? ?", given) == b"'it''s \\\\ \\0' _binary'\\0''\\\\\xff' 7 NULL 1"
    with pytest.raises(TypeError):
        literal(1.5)
    with pytest.raises(TypeError):
        spelled("? ?", (1,))


# One round trip.


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The texts that were sent."""
    texts: list[bytes] = []
    for kind in (wires.InPlaceWire, wires.LoopWire):
        ask = kind.ask

        async def counted(self: Any, text: bytes, ask: Any = ask) -> Any:
            texts.append(text)
            return await ask(self, text)

        monkeypatch.setattr(kind, "ask", counted)
    return texts


USUAL = ("state", "append", "key", "run", "patch")


def usual(kind: str, version: int) -> dict[str, Any]:
    """What a save that is to be `version` of its thread says."""
    before = version - 1
    kinds: dict[str, dict[str, Any]] = {
        "state": {"expected": before},
        "append": {"commutes": True},
        "key": {"idem_key": f"k{version}", "request": b"r", "expected": before},
        "run": {"epoch": 1, "renew_until": version * TTL},
        "patch": {"patch": ThreadPatch(name="n", status="busy", wake_at=0, attempts=version, tags=("x",))},
    }
    return kinds[kind]


@pytest.fixture(params=["one statement", "several"])
def compounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """MariaDB takes a transaction as one statement; MySQL does not, and gets it as several."""
    monkeypatch.setattr(server_time, "_CLOSE", 60.0)  # also on a machine that is busy
    if request.param == "several":
        monkeypatch.setattr(wires._Wire, "know_server", lambda self, most, version: None)
    return request.param


def reads_the_line(text: bytes) -> bool:
    return text.startswith(b'SELECT "row"')


@pytest.mark.parametrize("server_time", [False, True])
@pytest.mark.parametrize("has_mark", [False, True])
@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("kind", USUAL)
def test_the_usual_save_is_one_round_trip_and_one_more_where_the_row_is_not_known(
    url: str, asked: list[bytes], compounds: str, kind: str, knows: bool, has_mark: bool, server_time: bool
) -> None:
    scene = Scene(url, "sync", drive, server_time=server_time)
    scribe, storage = scene.scribe, scene.storage
    uid = drive(scribe.append()).row.uid
    if kind == "run":
        now = scene.clock.now()
        drive(storage.claim(THREAD, "me", until=now + TTL, now=now))
    for version in (2, 3):
        if not knows:
            storage._known.clear()
        asked.clear()
        mark = scribe.mark() if has_mark else None
        made = drive(scribe.append(THREAD, uid=uid, checkpoint=mark, **usual(kind, version)))
        is_known = knows and (kind, version) != ("run", 2)  # the claim changed it
        assert len(asked) == (1 if is_known else 2)
        assert reads_the_line(asked[0]) != is_known
        assert asked[-1].startswith(b"BEGIN NOT ATOMIC") == (compounds == "one statement")
        assert (made.version, made.again, made.before) == (version, False, version - 1)
        assert made.row == drive(storage.thread(THREAD))
        marks = drive(storage.checkpoints(THREAD, CheckpointQuery()))
        assert marks[:1] == ([made.checkpoint] if has_mark else [])
    assert verify_links("t1", 0, GENESIS, drive(storage.entries(THREAD))) == made.row.head_digest
    scene.close()


def test_a_line_that_another_process_moved_is_read_again(scene: Scene, mode: Mode, asked: list[bytes]) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    other = MysqlStorage(scene.url, mode=mode, server_time=False)
    scene.run(other.append(scene.scribe.write(THREAD, uid=uid)))
    asked.clear()
    made = scene.run(scene.scribe.append(THREAD, uid=uid))
    *tries, last = asked
    assert (made.version, made.before) == (3, 2)
    assert list(map(reads_the_line, [*tries[-1:], last])) == [True, False]
    assert made.row == scene.run(other.thread(THREAD))
    scene.run(other.close())


@pytest.mark.usefixtures("compounds")
@pytest.mark.parametrize("knows", [False, True])
def test_several_entries_are_one_round_trip_too(scene: Scene, asked: list[bytes], knows: bool) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    if not knows:
        scene.storage._known.clear()
    asked.clear()
    kinds = (STATE, MESSAGE, STATE, MESSAGE)
    made = scene.run(scene.scribe.append(THREAD, *kinds, uid=uid, checkpoint=scene.scribe.mark()))
    assert len(asked) == (1 if knows else 2)
    assert (made.version, made.state_version, made.row.state_version, made.before) == (5, 4, 4, 1)
    entries = scene.run(scene.storage.entries(THREAD))
    assert verify_links("t1", 0, GENESIS, entries) == made.row.head_digest


@pytest.mark.parametrize("knows", [False, True])
def test_a_text_that_reaches_the_server_late_is_not_written_twice(
    scene: Scene, asked: list[bytes], knows: bool
) -> None:
    uid = scene.run(scene.scribe.append()).row.uid
    if not knows:
        scene.storage._known.clear()
    asked.clear()
    scene.run(scene.scribe.append(THREAD, MESSAGE, uid=uid))
    *_, late = asked
    with suppress(TryAgain):
        scene.run(scene.storage._port.save(lambda: (late,)))
    assert [entry.version for entry in scene.run(scene.storage.entries(THREAD))] == [1, 2]
    assert scene.run(scene.storage.thread(THREAD)).head == 2  # type: ignore[union-attr]


# The server's time.


def test_entries_have_the_servers_time_and_it_never_goes_back(timed: Scene, mode: Mode) -> None:
    before = _server_now(timed.url)
    uid = timed.run(timed.scribe.append(blobs=(blob_of("x"),))).row.uid
    timed.run(timed.scribe.append(THREAD, uid=uid))
    after = _server_now(timed.url)
    first, second = timed.run(timed.storage.entries(THREAD))
    assert before <= first.micros <= second.micros <= after
    later = after + 3600 * SECOND
    run_mysql(timed.url, f"UPDATE perdure_thread SET updated_at = {later}")
    quick = timed.run(timed.scribe.append(THREAD, uid=uid, checkpoint=timed.scribe.mark()))
    slow = timed.run(timed.scribe.append(THREAD, blobs=(blob_of("y"),)))
    assert quick.row.updated == slow.row.updated == later
    assert quick.checkpoint is not None
    assert quick.checkpoint.micros == later
    entries = timed.run(timed.storage.entries(THREAD))
    assert verify_links("t1", 0, GENESIS, entries) == slow.row.head_digest


@pytest.mark.parametrize("jump", [3600, 0.5, -0.5, -3600])
@pytest.mark.usefixtures("compounds")
def test_a_server_whose_clock_jumps_is_followed(url: str, asked: list[bytes], jump: float) -> None:
    scene = Scene(url, "sync", drive, pool_max=1)
    uid = drive(scene.scribe.append()).row.uid
    last = drive(scene.scribe.append(THREAD, uid=uid, expected=1)).row.updated
    there = last / SECOND + jump
    drive(scene.storage._port.write(lambda tx: tx.rows(f"SET timestamp = {there:.6f}")))  # of this connection
    made = drive(scene.scribe.append(THREAD, uid=uid, expected=2, checkpoint=scene.scribe.mark()))
    assert made.row.updated == pytest.approx(max(last, there * SECOND), abs=2)
    drive(scene.storage._port.write(lambda tx: tx.rows(f"SET timestamp = {there + 0.005:.6f}")))  # a moment later
    scene.storage._port.time._told = (int(there * SECOND), monotonic())
    asked.clear()
    again = drive(scene.scribe.append(THREAD, uid=uid, expected=3))
    assert again.row.updated == pytest.approx(max(last, there * SECOND), abs=5_000 if jump > 0 else 2)
    assert [reads_the_line(text) for text in asked] == [False]
    assert verify_links("t1", 0, GENESIS, drive(scene.storage.entries(THREAD))) == again.row.head_digest
    scene.close()


def test_many_saves_have_times_that_are_the_servers_or_a_moment_before(timed: Scene) -> None:
    before = _server_now(timed.url)
    uid = timed.run(timed.scribe.append()).row.uid
    for version in range(2, 60):
        timed.run(timed.scribe.append(THREAD, uid=uid, expected=version - 1))
        now = _server_now(timed.url)
        made = timed.run(timed.storage.thread(THREAD))
        assert made is not None
        assert before - BEHIND <= made.updated <= now  # never after it
        before = now
    entries = timed.run(timed.storage.entries(THREAD))
    assert [entry.micros for entry in entries] == sorted(entry.micros for entry in entries)
    assert verify_links("t1", 0, GENESIS, entries) == made.head_digest


async def test_a_save_that_waited_for_a_connection_brings_the_time_of_its_sending(
    url: str, asked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_time, "_CLOSE", 60.0)
    storage = MysqlStorage(url, mode="async", pool_max=1)
    await storage.setup()
    scribe = Scribe(storage, ManualClock())
    uid = (await scribe.append()).row.uid
    await scribe.append(THREAD, STATE, uid=uid, expected=1)  # the time is heard
    asked.clear()
    busy = storage._port.read(lambda tx: tx.rows(f"SELECT SLEEP({3 * BEHIND / SECOND})"), alone=True)
    holder = asyncio.create_task(busy)
    await asyncio.sleep(0)  # it has the connection now
    await scribe.append(THREAD, STATE, uid=uid, expected=2)
    await holder
    await storage.close()
    assert [reads_the_line(text) for text in asked] == [False, False]


def test_leases_are_judged_by_the_servers_time(timed: Scene) -> None:
    uid = timed.run(timed.scribe.append()).row.uid
    now = timed.clock.now()
    before = _server_now(timed.url)
    lease = timed.run(timed.storage.claim(THREAD, "me", until=now + TTL, now=now))
    assert before + TTL <= lease.until <= _server_now(timed.url) + TTL
    for write in ({"uid": uid}, {"blobs": (blob_of("x"),)}):  # the caller's clock says that it ran out long ago
        with pytest.raises(LeaseHeldError):
            timed.run(timed.scribe.append(THREAD, micros=now + 9**15, **write))
    made = timed.run(timed.scribe.append(THREAD, uid=uid, epoch=1, renew_until=timed.clock.now() + 2 * TTL))
    assert lease.until < made.row.lease_until <= _server_now(timed.url) + 2 * TTL
    assert made.row == timed.run(timed.storage.thread(THREAD))


def test_a_lease_that_ran_out_by_the_servers_time_is_due(timed: Scene) -> None:
    timed.run(timed.scribe.append())
    timed.run(timed.storage.claim(THREAD, "me", until=1, now=0))
    run_mysql(timed.url, "UPDATE perdure_thread SET lease_until = 5")
    assert [row.key for row in timed.run(timed.storage.due("", 0))] == [THREAD]
    assert timed.run(timed.scribe.append(THREAD, STATE)).version == 2


def _server_now(url: str) -> int:
    return int(run_mysql(url, "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")[0][0])


# Users.


@pytest.mark.parametrize("kind", ["int", "bigint"])
def test_users_that_are_numbers_have_a_column_of_numbers(url: str, mode: Mode, run: Run, kind: Any) -> None:
    scene = Scene(url, mode, run, user_id_type=kind, server_time=False)
    users = ["", "1", "12", "-7", str((1 << (31 if kind == "int" else 63)) - 1)]
    uids = [run(scene.scribe.append(ThreadKey("", user, "t"))).row.uid for user in users]
    for user, uid in zip(users, uids, strict=True):
        key = ThreadKey("", user, "t")
        made = run(scene.scribe.append(key, uid=uid, checkpoint=scene.scribe.mark()))
        assert made.row.key == key
        assert [row.key for row in run(scene.storage.threads(ThreadQuery(user=user)))] == [key]
        assert run(scene.storage.user_checkpoints("", user, CheckpointQuery())) == [made.checkpoint]
    assert {row.key.user for row in run(scene.storage.find("", "t"))} == set(users)
    stored = run_mysql(url, "SELECT user_id FROM perdure_thread ORDER BY `row`")
    assert stored == [(None if user == "" else int(user),) for user in users]
    scene.close()
    other = MysqlStorage(url, mode=mode)
    with pytest.raises(NotAStorageError, match="user_id_type"):
        run(other.setup())
    run(other.close())
