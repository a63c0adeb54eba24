"""Redis is killed, frozen, emptied, filled with old, foreign and hostile values: callers notice nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from perdure.checkpoints import snapshotting
from perdure.checkpoints.requests import Request
from perdure.core.changes import Change
from perdure.core.codec import decode
from perdure.core.identity import ThreadKey
from perdure.sessions.messages import Messages
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.hot import breaker
from perdure.storage.hot.ports import TIMEOUT, open_redis
from perdure.storage.hot.store import HotStorage
from perdure.storage.memory import MemoryStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.proxy import FaultProxy
from perdure.testing.scribe import THREAD, Scribe
from perdure.testing.servers import RedisServer, require
from tests.storage.hot import ERRORS, HIT, Heard, engine, hot

CLIENTS = 8
SHARED = ThreadKey("", "everybody", "shared")
MODES: tuple[Mode, ...] = ("sync", "async")
LEFT_ALONE = ("warning", "the hot layer is left alone")
SECONDS = float(os.environ.get("PERDURE_REDIS_SECONDS", "1"))  # of one campaign


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with require(lambda: RedisServer(durable=False)) as server:
        yield server


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is tried again soon, so that a campaign sees it come back; and snapshots are made often."""
    monkeypatch.setattr(breaker, "FIRST", 0.01)
    monkeypatch.setattr(breaker, "LONGEST", 0.05)
    monkeypatch.setattr(snapshotting, "SMALLEST", 2000)


@dataclass
class Campaign:
    """Clients that write and read through Redis, and compare with what the storage says itself."""

    storage: HotStorage
    inner: MemoryStorage
    until: float
    wrong: list[str] = field(default_factory=lambda: [])
    turns: int = 0
    slowest: float = 0.0

    async def client(self, number: int) -> None:
        mine = ThreadKey("", f"user {number % 3}", f"thread {number}")
        turn = 0
        while time.monotonic() < self.until:
            turn += 1
            said = f"client {number} turn {turn}"
            await self._say(mine, said)
            await self._say(SHARED, said)
            await self._look(mine, said, turn)
            await self._look_at_shared(number, said)
            self.turns += 1

    async def _say(self, key: ThreadKey, said: str) -> None:
        change = Change({}, {"messages": [{"text": said, "more": "x" * 200}]}, [])
        await self._timed(engine(self.storage).change(key, change, None, Request()))

    async def _look(self, mine: ThreadKey, said: str, turn: int) -> None:
        found = await self._timed(_said(self.storage, mine))
        if found != await _said(self.inner, mine) or found[-1] != said or len(found) != turn:
            self.wrong.append(f"{mine.id} after {said}: {found[-3:]}")
        newest = await Messages(self.storage).list(mine, 2)
        if [each["text"] for each in newest] != found[-2:]:
            self.wrong.append(f"{mine.id} after {said}, newest: {newest}")

    async def _look_at_shared(self, number: int, said: str) -> None:
        found = await self._timed(_said(self.storage, SHARED))
        own = [each for each in found if each.startswith(f"client {number} ")]
        if said != own[-1] or len(set(found)) != len(found):
            self.wrong.append(f"shared after {said}: {found[-3:]}")

    async def _timed(self, work: Coroutine[Any, Any, Any]) -> Any:
        began = time.monotonic()
        found = await work
        self.slowest = max(self.slowest, time.monotonic() - began)
        return found


async def _said(storage: Storage, key: ThreadKey) -> list[str]:
    """What a process that knows nothing yet reads."""
    document = (await engine(storage).head(key)).document
    return [each["text"] for each in decode(document.encoded())["messages"]]


def _run(campaign: Campaign, mode: Mode) -> None:
    """All clients at once, on threads or as tasks; an error of any of them is raised here."""
    if mode == "sync":
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda number: drive(campaign.client(number)), range(CLIENTS)))
    else:
        asyncio.run(_together(campaign))


async def _together(campaign: Campaign) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(campaign.client(number))


class Trouble:
    """What happens to Redis meanwhile, again and again."""

    def __init__(self, server: RedisServer, folder: Path, heard: Heard, until: float) -> None:
        self.server = server
        self.happened = 0
        self._heard = heard
        self._until = until
        self.raw = Redis.from_url(server.url, socket_timeout=1.0)
        self._folder = folder
        self._random = Random(1)
        self._old: dict[bytes, Any] = {}

    def stir(self, happens: Callable[[Trouble], None]) -> None:
        """Let it happen, again and again, each time to clients that were using Redis."""
        self.wait_for(HIT)
        while time.monotonic() < self._until:
            self.happened += 1
            with suppress(RedisError):  # it was not back yet
                happens(self)
            self.wait_for(HIT)
        self.server.thaw()
        self.server.start()

    def wait_for(self, count: str) -> None:
        """Wait until the clients have counted one more, or are at their end."""
        before = self._heard.counts[count]
        while self._heard.counts[count] == before and time.monotonic() < self._until:
            time.sleep(0.001)

    def killed(self) -> None:
        self.server.crash()
        self.wait_for(ERRORS)
        self.server.start()

    def emptied(self) -> None:
        self.raw.flushall()

    def frozen(self) -> None:
        self.server.freeze()
        self.wait_for(ERRORS)
        self.server.thaw()

    def read_only(self) -> None:
        self.raw.replicaof("127.0.0.1", "1")  # type: ignore[attr-defined]
        self.wait_for(ERRORS)
        self.raw.replicaof("NO", "ONE")  # type: ignore[attr-defined]

    def out_of_memory(self) -> None:
        self.raw.config_set("maxmemory", "1")
        self.wait_for(ERRORS)
        self.raw.config_set("maxmemory", "0")

    def restored_from_an_old_dump(self) -> None:
        old = self._folder / "old.rdb"
        if not old.exists():
            self.raw.save()
            shutil.copy(self.server.folder / "dump.rdb", old)
            self.wait_for(HIT)
        self.server.crash()
        shutil.copyfile(old, self.server.folder / "dump.rdb")
        self.server.start()

    def filled_with_old_values(self) -> None:
        for name in self._names():
            if self._random.random() < 0.5 or name not in self._old:
                self._old[name] = self.raw.dump(name)
            elif self._old[name] is not None:
                self.raw.restore(name, 0, self._old[name], replace=True)

    def swapped(self) -> None:
        names = self._names()
        for one in names:
            value = self.raw.dump(self._random.choice(names))
            if value is not None:
                self.raw.restore(one, 0, value, replace=True)

    def hostile(self) -> None:
        for name in self._names():
            self._random.choice((self._garbage, self._flipped, self._cut, self._other_type))(name)

    def _garbage(self, name: bytes) -> None:
        self.raw.set(name, self._random.randbytes(self._random.choice((0, 1, 40, 5000))))

    def _other_type(self, name: bytes) -> None:
        self.raw.delete(name)
        self.raw.hset(name, "a", "b")

    def _flipped(self, name: bytes) -> None:
        if self.raw.type(name) == b"list" and (value := self.raw.lindex(name, -1)):
            at = self._random.randrange(len(value))
            self.raw.lset(name, -1, value[:at] + bytes([value[at] ^ 4]) + value[at + 1 :])  # type: ignore[arg-type]

    def _cut(self, name: bytes) -> None:
        if self.raw.type(name) == b"list":
            self.raw.rpop(name)
        elif self.raw.type(name) == b"string":
            self.raw.setrange(name, 1, b"\xff\xff")

    def _names(self) -> list[bytes]:
        return sorted(self.raw.keys("perdure:*"))  # type: ignore[arg-type]


TROUBLES: tuple[Callable[[Trouble], None], ...] = (
    Trouble.killed,
    Trouble.emptied,
    Trouble.frozen,
    Trouble.read_only,
    Trouble.out_of_memory,
    Trouble.restored_from_an_old_dump,
    Trouble.filled_with_old_values,
    Trouble.swapped,
    Trouble.hostile,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("happens", TROUBLES, ids=lambda happens: happens.__name__)
def test_nobody_reads_anything_wrong_while_redis_is(
    happens: Callable[[Trouble], None], mode: Mode, server: RedisServer, tmp_path: Path
) -> None:
    server.start()
    inner, heard = MemoryStorage(), Heard()
    campaign = Campaign(hot(inner, mode, heard, url=server.url, timeout=TIMEOUT), inner, time.monotonic() + SECONDS)
    trouble = Trouble(server, tmp_path, heard, campaign.until)
    stirring = threading.Thread(target=trouble.stir, args=(happens,))
    stirring.start()
    _run(campaign, mode)
    stirring.join()
    drive(campaign.storage.close())
    trouble.raw.close()
    print(
        f"{happens.__name__} {mode}: {trouble.happened} times in {campaign.turns} turns, "
        f"slowest {campaign.slowest:.3f} s, {dict(heard.counts)}"
    )
    assert campaign.wrong == []
    assert campaign.turns > CLIENTS
    assert trouble.happened > 0
    assert heard.counts[HIT] > 0


def test_a_push_that_is_cut_anywhere_leaves_no_key_that_never_expires(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "LONGEST", 0.01)
    heard, raw = Heard(), Redis.from_url(server.start().url)
    with FaultProxy(server.port) as proxy:
        storage = hot(MemoryStorage(), "sync", heard, url=f"redis://127.0.0.1:{proxy.port}")
        scribe = Scribe(storage, ManualClock())
        for count in range(0, 1500, 50):
            raw.flushall()
            whole = ThreadKey("", "", f"connects {count}")
            drive(scribe.append(whole))
            proxy.cut_after(bytes_to_server=count)
            drive(scribe.append(ThreadKey("", "", f"cut {count}")))
            proxy.heal()
            while heard.lines[-1:] == [LEFT_ALONE]:
                drive(storage.restore(whole))
            assert all(raw.ttl(name) > 0 for name in raw.keys("*"))
        assert heard.counts[ERRORS] > 10
        drive(storage.close())
    raw.close()


def test_a_redis_that_is_down_is_told_of_once_and_once_when_it_is_back(server: RedisServer) -> None:
    heard = Heard()
    storage = hot(MemoryStorage(), "sync", heard, url=server.url)
    scribe = Scribe(storage, ManualClock())
    server.crash()
    calls = 0
    while heard.counts[ERRORS] < 3:
        drive(scribe.append())
        calls += 1
    assert heard.lines == [LEFT_ALONE]
    assert calls > heard.counts[ERRORS]
    server.start()
    while len(heard.lines) < 2:
        drive(storage.restore(THREAD))
    assert heard.lines[1:] == [("info", "the hot layer is used again")]
    drive(storage.close())


@pytest.mark.parametrize("mode", MODES)
def test_a_hung_redis_stalls_its_callers_for_one_timeout_and_then_not_at_all(mode: Mode) -> None:
    """What is asserted are calls and states; the time is printed."""
    heard = Heard()
    with require(lambda: RedisServer(durable=False)) as server, FaultProxy(server.port) as proxy:
        redis = open_redis(f"redis://127.0.0.1:{proxy.port}", mode=mode, telemetry=heard)
        settings = redis.client.settings
        assert (settings["socket_timeout"], settings["socket_connect_timeout"]) == (TIMEOUT, TIMEOUT) == (0.05, 0.05)
        assert settings["retry"].get_retries() == 0
        run = drive if mode == "sync" else asyncio.run
        assert run(redis.run([("PING",)])) == [True]
        proxy.half_open()
        began = time.monotonic()
        assert run(redis.run([("PING",)])) is None
        first = time.monotonic() - began
        assert (redis.client.breaker.state, heard.counts[ERRORS]) == ("open", 1)
        tried = proxy.traffic.connections
        redis.client.breaker.wait = 3600.0
        assert [run(redis.run([("PING",)])) for _ in range(100)] == [None] * 100
        assert (proxy.traffic.connections, heard.counts[ERRORS]) == (tried, 1)
        redis.close()
    print(f"{mode}: the first stall took {first * 1000:.0f} ms")
