"""A server that hangs while its machine acknowledges: no call waits for ever, and nothing is lost or made twice."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from perdure import Perdure, sync
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import InvalidInputError, StorageUnavailableError
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.postgres.store import PostgresStorage
from perdure.testing.proxy import FaultProxy
from perdure.testing.scribe import MESSAGE, THREAD, blob_of
from tests.faults.hanging import (  # noqa: F401  # fixtures
    BOUND,
    SHORT,
    Hanging,
    Scene,
    frozen,
    mariadb,
    mode_of,
    opened,
    postgres,
    running,
    server,
    url,
    way,
)

OUR_OWN = ["psycopg", "psycopg-async", "pymysql", "asyncmy"]
AWAY, BACK = ("warning", "the server is away, trying again"), ("info", "the server is back")


@pytest.fixture
def proxy(server: Hanging) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


def whole(scene: Scene) -> list[int]:
    """The versions that are there, and the chain over them holds."""
    found = scene.run(scene.storage.entries(THREAD))
    assert verify_links(THREAD.id, 0, GENESIS, found) == found[-1].chain
    assert len({entry.digest for entry in found}) == len(found)
    return [entry.version for entry in found]


@pytest.mark.parametrize("call", ["read", "save", "slow"])
def test_a_call_to_a_server_that_hangs_ends_with_a_typed_error(way: str, server: Hanging, url: str, call: str) -> None:
    with opened(way, url) as scene:
        uid = scene.run(scene.scribe.append()).row.uid
        blobs = (blob_of("x"),) if call == "slow" else ()
        write = scene.scribe.write(THREAD, uid=uid, expected=1, idem_key="k", request=b"r", blobs=blobs)
        work = scene.storage.thread(THREAD) if call == "read" else scene.storage.append(write)
        begun = time.monotonic()
        with frozen(server), pytest.raises(StorageUnavailableError):
            scene.run(work)
        assert time.monotonic() - begun < BOUND
        assert scene.run(scene.storage.append(write)).version == 2  # with the same key: made once, by whichever try
        assert scene.run(scene.scribe.append(THREAD, uid=uid, expected=2)).version == 3
        assert whole(scene) == [1, 2, 3]


@pytest.mark.parametrize("call", ["read", "save", "message", "slow"])
def test_a_server_that_hangs_for_a_while_is_waited_for_and_nothing_is_made_twice(
    way: str, server: Hanging, url: str, call: str
) -> None:
    with opened(way, url, retry_seconds=BOUND) as scene:
        uid = scene.run(scene.scribe.append()).row.uid
        more = {"blobs": (blob_of("x"),)} if call == "slow" else {}
        kinds = (MESSAGE,) if call == "message" else ()
        work = scene.storage.thread(THREAD) if call == "read" else scene.scribe.append(THREAD, *kinds, uid=uid, **more)
        with frozen(server):
            later = threading.Timer(4 * SHORT, server.thaw)
            later.start()
            answer = scene.run(work)
            later.join()
        head = answer.head if call == "read" else answer.version
        assert head == (1 if call == "read" else 2)
        scene.run(scene.scribe.append(THREAD, uid=uid))
        assert whole(scene) == list(range(1, head + 2))


@pytest.mark.parametrize("lost", ["question", "answer"])
def test_what_a_dead_way_swallowed_and_delivers_late_is_made_once(
    way: str, url: str, server: Hanging, proxy: FaultProxy, lost: str
) -> None:
    with opened(way, url.replace(f":{server.port}/", f":{proxy.port}/"), retry_seconds=BOUND) as scene:
        uid = scene.run(scene.scribe.append()).row.uid
        for turn, kind in enumerate([(), (MESSAGE,), (), (MESSAGE,)], 2):
            proxy.half_open(to_server=lost == "question", to_client=lost == "answer")
            healing = threading.Timer(2 * SHORT, proxy.heal)
            healing.start()
            assert scene.run(scene.scribe.append(THREAD, *kind, uid=uid)).version == turn
            healing.join()
        assert whole(scene) == [1, 2, 3, 4, 5]


def test_many_at_once_are_all_told_and_all_go_on(way: str, server: Hanging, url: str) -> None:
    with opened(way, url, pool_max=3) as scene:
        uid = scene.run(scene.scribe.append()).row.uid
        assert [await_all(scene, uid, 6).count(None)] == [0]
        with frozen(server):
            told = await_all(scene, uid, 6)
        assert {type(each) for each in told} == {StorageUnavailableError}
        assert not [each for each in await_all(scene, uid, 6) if isinstance(each, Exception)]
        versions = whole(scene)
        assert versions == list(range(1, len(versions) + 1))


def await_all(scene: Scene, uid: str, count: int) -> list[object]:
    """Append as many at once, on threads or as tasks, and give the versions or the errors."""
    writes = [scene.scribe.write(THREAD, MESSAGE, uid=uid) for _ in range(count)]
    answers: list[object] = []

    async def one(number: int) -> None:
        try:
            answers.append((await scene.storage.append(writes[number])).version)
        except Exception as exc:
            answers.append(exc)

    async def as_tasks() -> None:
        await asyncio.gather(*(one(number) for number in range(count)))

    if not isinstance(getattr(scene.run, "__self__", None), asyncio.Runner):
        threads = [threading.Thread(target=scene.run, args=(one(number),)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        scene.run(as_tasks())
    return answers


@pytest.mark.parametrize("way", OUR_OWN, indirect=True)
def test_what_works_through_whole_tables_may_take_longer(way: str, url: str, server: Hanging) -> None:
    asleep = f"SELECT SLEEP({4 * SHORT})" if way in ("pymysql", "asyncmy") else f"SELECT pg_sleep({4 * SHORT})::text"
    with opened(way, url) as scene:
        assert len(scene.run(scene.storage._port.unhurried(lambda tx: tx.rows(asleep)))) == 1
        with pytest.raises(StorageUnavailableError):
            scene.run(scene.storage._port.read(lambda tx: tx.rows(asleep), alone=True))


def test_an_outage_is_told_once_and_so_is_its_end(way: str, server: Hanging, url: str) -> None:
    with opened(way, url) as scene:
        scene.run(scene.scribe.append())
        with frozen(server):
            for _ in range(2):
                with pytest.raises(StorageUnavailableError):
                    scene.run(scene.storage.thread(THREAD))
        scene.run(scene.storage.thread(THREAD))
        scene.run(scene.storage.thread(THREAD))
        assert (scene.heard.logged, scene.heard.counts["perdure.storage.outages"]) == ([AWAY, BACK], 1)


@pytest.mark.parametrize("way", ["psycopg", "psycopg-async"], indirect=True)
def test_an_ear_that_hears_nothing_for_long_is_no_server_that_hangs(way: str, url: str, server: Hanging) -> None:
    with opened(way, url) as scene:
        watch = scene.storage.watch("")
        assert scene.run(watch.wait(BOUND))
        assert not scene.run(watch.wait(4 * SHORT))
        assert scene.run(watch.wait(0.0)) is False
        assert scene.heard.counts["perdure.postgres.polling"] == 0
        scene.run(watch.close())


@pytest.mark.parametrize("way", ["psycopg", "psycopg-async"], indirect=True)
def test_a_watch_that_begins_at_a_server_that_hangs_says_look(way: str, url: str, server: Hanging) -> None:
    with opened(way, f"{url}?connect_timeout=2") as scene:
        watch = scene.storage.watch("")
        with frozen(server):
            assert scene.run(watch.wait(BOUND))
        assert scene.heard.counts["perdure.postgres.polling"] == 1
        scene.run(watch.close())


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("way", OUR_OWN)
def test_a_server_that_accepts_and_says_nothing_is_given_up(way: str, silent: int) -> None:
    begun = time.monotonic()
    with running(way) as run:
        if way in ("pymysql", "asyncmy"):
            at = f"mysql://root@127.0.0.1:{silent}/x"
            storage: MysqlStorage | PostgresStorage = MysqlStorage(at, mode=mode_of(way), connect_timeout=SHORT)
        else:
            storage = PostgresStorage(
                f"postgresql://postgres@127.0.0.1:{silent}/x?connect_timeout=2", mode=mode_of(way)
            )
        with pytest.raises(StorageUnavailableError):
            run(storage.setup())
        run(storage.close())
    assert time.monotonic() - begun < BOUND


@pytest.mark.parametrize("at", ["postgresql://localhost/x", "mysql://localhost/x"])
@pytest.mark.parametrize("wrong", [0, -1, True, "30", float("nan"), float("inf"), 1e12])
def test_a_limit_that_is_no_time_is_refused(at: str, wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="call_timeout"):
        Perdure.open(at, call_timeout=wrong)  # type: ignore[arg-type]


def test_a_storage_that_asks_nobody_takes_no_limit() -> None:
    for seconds in (30.0, None):
        with pytest.raises(InvalidInputError, match="mysql:// and postgresql://"):
            Perdure.open("memory://", call_timeout=seconds)


@pytest.mark.parametrize("way", ["psycopg", "pymysql"], indirect=True)
def test_a_store_without_a_limit_waits_until_the_server_goes_on(way: str, url: str, server: Hanging) -> None:
    with sync.Perdure.open(url, call_timeout=None, retry_seconds=0) as store:
        store.thread("t").append("a", 1)
        with frozen(server):
            later = threading.Timer(1.0, server.thaw)
            later.start()
            assert store.thread("t").append("a", 2) == 2
            later.join()


@pytest.mark.parametrize("way", ["psycopg", "pymysql"], indirect=True)
def test_a_store_opened_with_a_limit_keeps_it(way: str, url: str, server: Hanging) -> None:
    with sync.Perdure.open(url, call_timeout=SHORT, retry_seconds=0.1) as store:
        store.thread("t").append("a", 1)
        with frozen(server), pytest.raises(StorageUnavailableError):
            store.thread("t").append("a", 2, key="k")
        assert store.thread("t").append("a", 2, key="k") == 2
        assert store.thread("t").load() == {"a": [1, 2]}
