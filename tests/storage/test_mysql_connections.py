"""Connections to MySQL and MariaDB: locks, pools, event loops, forks, and what is told when there are none."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import pytest

from perdure.core.errors import (
    InvalidUrlError,
    MissingExtraError,
    StorageBusyError,
    StorageFullError,
    StorageUnavailableError,
)
from perdure.core.identity import ThreadKey
from perdure.core.ports import Silence
from perdure.storage.baton import Baton
from perdure.storage.drive import drive
from perdure.storage.mysql import ports
from perdure.storage.mysql.address import read_address
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.ports import outcome
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.contract.running import Run
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe
from perdure.testing.servers import MariadbServer, require, shared_mariadb
from tests.storage.mysql import run_mysql
from tests.storage.test_mysql import _NUMBERS, Scene, mode, run, scene, url  # noqa: F401  # fixtures

LOOK = 0.15  # seconds: who looks again within a tenth of one is shown what was there before
BOUND = 10.0  # seconds: what is over in some hundredths of one waits for ever, if it takes longer

# Locks and connections.


class Heard(Silence):
    """Counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        self.counts[name] += value


class Held:
    """Another client that holds a thread's line."""

    def __init__(self, url: str, key: ThreadKey = THREAD) -> None:
        import pymysql

        at = urlsplit(url)
        where: dict[str, Any] = {"host": at.hostname, "port": at.port, "user": at.username, "database": at.path[1:]}
        self._raw = pymysql.connect(**where, autocommit=False)
        self.name = bytes.fromhex(key.digest()).hex()
        self.ask(f"UPDATE perdure_thread SET attempts = attempts + 1 WHERE name_key = x'{self.name}'")

    def ask(self, statement: str) -> None:
        with self._raw.cursor() as cursor:
            cursor.execute(statement)

    def let_go(self) -> None:
        self._raw.rollback()
        self._raw.close()


def test_a_deadlock_is_tried_again(url: str) -> None:
    scene = Scene(url, "sync", drive, server_time=False)
    drive(scene.scribe.append())
    drive(scene.scribe.fork(THREAD, 1, OTHER))
    for number in range(20):
        drive(scene.scribe.append(ThreadKey("", "", f"t{number}")))
    before = _deadlocks(url)
    held = Held(url)
    held.ask("UPDATE perdure_thread SET attempts = 9 WHERE user_id = ''")  # who changed less gives way
    answers: list[bool] = []
    deletion = threading.Thread(target=lambda: answers.append(drive(scene.storage.delete(OTHER))))
    deletion.start()  # locks the fork, then its parent, which is held
    _wait_for_lock(url, deletion)
    held.ask(f"SELECT 1 FROM perdure_thread WHERE name_key = x'{OTHER.digest()}' FOR UPDATE")
    held.let_go()
    deletion.join()
    assert answers == [True]
    assert _deadlocks(url) == before + 1
    assert drive(scene.storage.thread(OTHER)) is None
    scene.close()


def test_a_session_is_what_it_has_to_be_on_any_server(mode: Mode, run: Run) -> None:
    require(shared_mariadb)
    odd = {"completion-type": "CHAIN", "autocommit": "0", "sql-mode": "ORACLE,NO_BACKSLASH_ESCAPES"}
    with MariadbServer(durable=False, settings=odd) as server:
        scene = Scene(server.database("odd"), mode, run, pool_max=1)
        uid = run(scene.scribe.append()).row.uid
        for version in range(2, 5):
            made = run(scene.scribe.append(THREAD, uid=uid, expected=version - 1, checkpoint=scene.scribe.mark()))
            assert run(scene.storage.thread(THREAD)) == made.row
            assert len(run(scene.storage.entries(THREAD))) == version
        scene.close()


def _deadlocks(url: str) -> int:
    return int(run_mysql(url, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")[0][1])


def _wait_for_lock(url: str, caller: threading.Thread) -> None:
    """Wait until the server says that somebody waits for a lock; in vain if the caller has ended."""
    while caller.is_alive() and not _somebody_waits(url):
        time.sleep(LOOK)


async def _look_for_lock(url: str, caller: asyncio.Task[Any]) -> None:
    """The same beside a task."""
    while not (caller.done() or _somebody_waits(url)):
        await asyncio.sleep(LOOK)


def _somebody_waits(url: str) -> bool:
    return bool(run_mysql(url, "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))


def test_threads_that_share_a_store_wait_for_the_server_at_the_same_time(url: str) -> None:

    baton = Baton()
    scene = Scene(url, "sync", drive, server_time=False, baton=baton)
    drive(scene.scribe.append())
    drive(scene.scribe.append(OTHER))
    held = Held(url)
    slow = scene.scribe.write(THREAD)

    def waits() -> None:
        with baton.held:
            drive(scene.storage.append(slow))

    waiting = threading.Thread(target=waits)
    waiting.start()
    _wait_for_lock(url, waiting)
    with baton.held:
        assert drive(scene.scribe.append(OTHER)).version == 2
    held.let_go()
    waiting.join()
    assert drive(scene.storage.thread(THREAD)).head == 2  # type: ignore[union-attr]
    scene.close()


def test_who_finds_no_free_connection_is_told_what_to_raise(url: str, mode: Mode, run: Run) -> None:
    scene = Scene(url, mode, run, pool_max=1, pool_timeout=0.05, retry_seconds=0)
    run(scene.scribe.append())
    held = Held(url)
    first, second = (scene.storage.append(scene.scribe.write(THREAD)) for _ in range(2))
    if mode == "async":
        made, refused = run(_as_two_tasks(url, first, second, held))
    else:
        made, refused = _on_two_threads(url, first, second, held)
    assert made.version == 2
    assert isinstance(refused, StorageBusyError)
    assert "pool_max" in str(refused)
    scene.close()


async def _as_two_tasks(url: str, first: Any, second: Any, held: Held) -> tuple[Any, BaseException | None]:
    """What became of both, if the first has the one connection until the second has given up."""
    writing = asyncio.create_task(first)
    await _look_for_lock(url, writing)
    (refused,) = await asyncio.gather(second, return_exceptions=True)
    held.let_go()
    return await writing, refused


def _on_two_threads(url: str, first: Any, second: Any, held: Held) -> tuple[Any, BaseException | None]:
    """The same on threads."""
    answers: list[Any] = []
    writing = threading.Thread(target=lambda: answers.append(drive(first)))
    writing.start()
    _wait_for_lock(url, writing)
    _, refused = outcome(lambda: drive(second))
    held.let_go()
    writing.join()
    return answers[0], refused


async def test_a_cancelled_call_takes_its_connection_along(url: str) -> None:
    heard = Heard()
    storage = MysqlStorage(url, mode="async", telemetry=heard, pool_max=1)
    await storage.setup()
    scribe = Scribe(storage, ManualClock())
    await scribe.append()
    held = Held(url)
    task = asyncio.create_task(scribe.append(THREAD))
    await _look_for_lock(url, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.let_go()
    made = await scribe.append(THREAD, MESSAGE)
    assert heard.counts["perdure.mysql.connections"] == 2
    assert made.row == await storage.thread(THREAD)
    await storage.close()


def test_a_storage_is_used_from_one_event_loop_after_another(url: str) -> None:
    storage = MysqlStorage(url, mode="async", server_time=False)
    scribe = Scribe(storage, ManualClock())
    asyncio.run(_set_up_and_write(storage, scribe))
    assert asyncio.run(scribe.append()).version == 2
    assert asyncio.run(_twice_at_once(scribe)) == {3, 4}
    drive(storage.close())


async def _set_up_and_write(storage: MysqlStorage, scribe: Scribe) -> None:
    await storage.setup()
    await scribe.append()


async def _twice_at_once(scribe: Scribe) -> set[int]:
    made = await asyncio.gather(scribe.append(), scribe.append())
    return {each.version for each in made}


async def test_a_storage_is_closed_without_waiting(url: str) -> None:
    storage = MysqlStorage(url, mode="async")
    await storage.setup()
    drive(storage.close())  # as a finaliser does, on the loop's own thread
    await asyncio.sleep(0)


# In a process of its own: forking one that has threads is deprecated.
FORK = """
import asyncio, os, sys
from perdure.core.errors import ForkedProcessError
from perdure.storage.drive import drive
from perdure.storage.mysql.store import MysqlStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import THREAD, Scribe

url, mode = sys.argv[1:]
runner = asyncio.Runner()
run = drive if mode == "sync" else runner.run
storage = MysqlStorage(url, mode=mode)
scribe = Scribe(storage, ManualClock())
run(storage.setup())
run(scribe.append())
child = os.fork()
if child == 0:
    try:
        drive(storage.thread(THREAD))
    except ForkedProcessError:
        drive(storage.close())
        sys.exit(7)
    sys.exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, run(scribe.append()).version)
run(storage.close())
runner.close()
"""


def test_an_inherited_storage_is_refused_and_the_parents_goes_on(url: str, mode: Mode) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, url, mode], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["7", "2"], "")


# Errors.


def test_a_wrong_password_fails_at_once_and_is_never_shown(url: str, mode: Mode, run: Run) -> None:
    user = f"u{os.getpid()}_{next(_NUMBERS)}"
    run_mysql(url, f"CREATE USER {user} IDENTIFIED BY 'right'")
    heard, at = Heard(), urlsplit(url)
    wrong = f"mysql://{user}:hunter2@{at.hostname}:{at.port}{at.path}"
    storage = MysqlStorage(wrong, mode=mode, telemetry=heard)
    with pytest.raises(StorageUnavailableError, match="Access denied") as caught:
        run(storage.setup())
    shown = f"{caught.value!r} {caught.value} {vars(storage)} {vars(storage._port)} {vars(storage._port._pool)}"
    assert "hunter2" not in shown
    assert heard.counts["perdure.mysql.connections"] == 1
    run_mysql(url, f"DROP USER {user}")
    run(storage.close())


def test_the_password_is_asked_for_every_connection(url: str, mode: Mode, run: Run) -> None:
    user, asked = f"u{os.getpid()}_{next(_NUMBERS)}", []
    run_mysql(url, f"CREATE USER {user} IDENTIFIED BY 'pässwörd'")
    run_mysql(url, f"GRANT ALL ON *.* TO {user}")
    at = urlsplit(url)

    def password() -> Any:
        asked.append(1)
        return _later("pässwörd") if mode == "async" else "pässwörd"

    storage = MysqlStorage(f"mysql://{user}@{at.hostname}:{at.port}{at.path}", mode=mode, password=password)
    run(storage.setup())
    run(storage.setup())
    assert len(asked) == 2
    run(storage.close())
    run_mysql(url, f"DROP USER {user}")


async def _later(text: str) -> str:
    return text


def test_a_database_that_is_not_there_is_named_with_advice(url: str, mode: Mode, run: Run) -> None:
    storage = MysqlStorage(url + "_gone", mode=mode)
    with pytest.raises(StorageUnavailableError, match="CREATE DATABASE"):
        run(storage.setup())
    run(storage.close())


def test_a_server_that_is_not_there_is_named(mode: Mode, run: Run) -> None:
    heard = Heard()
    storage = MysqlStorage("mysql://root@127.0.0.1:1/x", mode=mode, telemetry=heard, retry_seconds=0)
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1"):
        run(storage.setup())
    assert heard.counts["perdure.mysql.connections"] == 1
    run(storage.close())


def test_a_write_larger_than_the_server_takes_names_the_setting(scene: Scene) -> None:
    limit = int(run_mysql(scene.url, "SELECT @@max_allowed_packet")[0][0])
    uid = scene.run(scene.scribe.append()).row.uid
    entry = scene.scribe.entry(STATE, body=os.urandom(limit))
    for write in ({"uid": uid}, {}):
        with pytest.raises(StorageFullError, match="max_allowed_packet"):
            scene.run(scene.scribe.append(THREAD, entries=(entry,), **write))
    assert scene.run(scene.scribe.append(THREAD)).version == 2


@pytest.mark.parametrize(("mode", "driver"), [("sync", "pymysql"), ("async", "asyncmy")])
def test_a_missing_driver_names_the_extra(mode: Any, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(MissingExtraError, match=r"perdure\[mysql\]"):
        MysqlStorage("mysql://root@localhost/x", mode=mode)


@pytest.mark.parametrize(
    "wrong",
    [
        "mysql://u:hunter2@h:99999/x",
        "mysql://u:hunter2@h/",
        "mysql://u:hunter2@h/x?tls=1",
        "mysql://u:hunter2@h/x?ssl_mode=no",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(wrong: str) -> None:
    with pytest.raises(InvalidUrlError) as caught:
        MysqlStorage(wrong, mode="sync")
    assert "hunter2" not in str(caught.value)


def test_an_address_says_how_it_is_encrypted() -> None:
    import ssl

    def read(query: str) -> Any:
        context = read_address(f"mysql://u:hunter2@h/x{query}").ssl_context()
        return None if context is None else (context.verify_mode, context.check_hostname)

    assert "hunter2" not in repr(read_address("mysql://u:hunter2@h/x"))
    assert read("") is None
    assert read("?ssl_mode=required") == (ssl.CERT_NONE, False)
    assert read("?ssl_mode=verify_ca") == (ssl.CERT_REQUIRED, False)
    assert read("?ssl_mode=verify_identity") == (ssl.CERT_REQUIRED, True)
    with pytest.raises(StorageUnavailableError, match="certificates"):
        read("?ssl_ca=/nowhere")


def test_whoever_waits_while_connections_come_back_as_it_looks_again_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_LOOK_SECONDS", 0.001)
    for _ in range(150):
        permits = ports.Permits(3)

        def borrow(permits: ports.Permits = permits) -> None:
            permit = permits.take(BOUND)
            assert permit is not None
            time.sleep(0.003)  # ends just when the others look
            permits.give(permit)

        threads = [threading.Thread(target=borrow, daemon=True) for _ in range(12)]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + BOUND
        for thread in threads:
            thread.join(max(0.0, ends - time.monotonic()))
        assert not [thread for thread in threads if thread.is_alive()]
