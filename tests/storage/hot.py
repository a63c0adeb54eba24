"""Storages behind the tests' Redis, and a telemetry that remembers."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import msgspec
from redis import Redis

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.checkpoints.engine import Engine
from perdure.core.codec import decode
from perdure.core.digest import digest_of, snapshot_digest
from perdure.core.entries import Entry
from perdure.core.identity import ThreadKey
from perdure.core.ports import Silence
from perdure.core.threads import ThreadRow
from perdure.core.writes import Restored, Snapshot
from perdure.storage.contract import INCARNATION, Storage
from perdure.storage.drive import drive
from perdure.storage.hot.ports import open_redis
from perdure.storage.hot.store import HotStorage
from perdure.storage.memory import MemoryStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.scribe import THREAD, Scribe, snapshot_of
from perdure.testing.servers import require, shared_redis

PATIENT = 5.0  # seconds: these machines are shared, and here a slow Redis is not what is tested
HIT, MISS, REFUSED, ERRORS = (f"perdure.hot.{name}" for name in ("hits", "misses", "refused", "errors"))


class Heard:
    """What was counted and logged."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        with self._lock:
            self.counts[name] += value

    def timing(self, name: str, seconds: float, /, **labels: str) -> None: ...

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message))

    def event(self, kind: str, /, **fields: object) -> None: ...


def hot(
    inner: Storage, mode: Mode, heard: Heard, *, url: str = "", timeout: float = PATIENT, **options: Any
) -> HotStorage:
    """A storage with Redis in front, the tests' own unless another is named."""
    redis = open_redis(url or require(shared_redis).url, mode=mode, telemetry=heard, timeout=timeout)
    parts: dict[str, Any] = {"clock": SystemClock(), "randomness": SystemRandomness(), "telemetry": heard}
    return HotStorage(inner, redis, **(parts | options))


class Counting(MemoryStorage):
    """A storage that counts how often each thing is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        self.reads["restore"] += 1
        return await super().restore(key, at=at, after=after)

    async def entries(self, key: ThreadKey, **rest: Any) -> list[Entry]:
        self.reads["entries"] += 1
        return await super().entries(key, **rest)

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        self.reads["thread"] += 1
        return await super().thread(key)


class Scene:
    """A storage behind Redis, driven in place."""

    def __init__(self, raw: Redis, inner: Counting | None = None, **options: Any) -> None:
        self.raw = raw
        self.inner = inner or Counting()
        self.heard = Heard()
        self.clock = ManualClock()
        self.storage = hot(self.inner, "sync", self.heard, **({"clock": self.clock} | options))
        self.scribe = Scribe(self.storage, self.clock)
        names = ("hot.id", INCARNATION)
        parts = [drive(MemoryStorage.keep(self.inner, name, SystemRandomness().bytes(6))) for name in names]
        self.place = digest_of(b"".join(parts))[:6]

    def names(self, ending: str = "") -> list[bytes]:
        """The keys of this scene in Redis."""
        return sorted(self.raw.keys(f"perdure:{self.place.hex()}:*{ending}"))  # type: ignore[arg-type]

    def name(self, ending: str) -> bytes:
        """The one that ends so."""
        (found,) = self.names(ending)
        return found

    def raw_values(self) -> dict[bytes, Any]:
        """What lies in Redis."""
        return {name: self.raw.dump(name) for name in self.names()}

    def put_raw(self, values: dict[bytes, Any]) -> None:
        """Put it back."""
        for name, value in values.items():
            self.raw.restore(name, 0, value, replace=True)

    def forget(self) -> None:
        """Redis loses everything of this scene."""
        for name in self.names():
            self.raw.delete(name)

    def close(self) -> None:
        drive(self.storage.close())
        self.forget()

    def restored(self, key: ThreadKey = THREAD) -> Restored:
        found = drive(self.storage.restore(key))
        assert found is not None
        return found

    def same_as_inner(self, key: ThreadKey = THREAD) -> None:
        """Whatever is served is what the storage says itself."""
        assert drive(self.storage.restore(key)) == drive(self.inner.restore(key))
        assert drive(self.storage.entries(key)) == drive(self.inner.entries(key))


def sound(version: int, chain: bytes) -> Snapshot:
    """A snapshot as the engine makes them, whose digest ties it to its place in the log."""
    made = snapshot_of(version, chain)
    return msgspec.structs.replace(made, digest=snapshot_digest(chain, made.payload))


def engine(storage: Storage) -> Engine:
    """An engine that knows nothing yet."""
    parts: dict[str, Any] = {"clock": ManualClock(), "randomness": SystemRandomness(), "telemetry": Silence()}
    return Engine(storage, **parts, cache_bytes=1 << 20)


def state(storage: Storage, key: ThreadKey) -> object:
    """What a process that knows nothing yet reads."""
    document = drive(engine(storage).head(key)).document
    return decode(document.encoded()) if document.root is not None else None
