"""What may lie in Redis: poisoned, cut off, swapped between users, of another type, giant; none of it is believed."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redis import Redis

from perdure.app.store import parts_of
from perdure.core.digest import digest_of
from perdure.storage.contract import INCARNATION
from perdure.testing.servers import require, shared_redis
from tests.checkpoints.places import PLACES, opened
from tests.hostile.canary import Canary
from tests.hostile.catalogue import CODE, Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.scene import NAMESPACE, SHARED, Scene, playing
from tests.hostile.trials import TRIALS, Trial

Spoil = Callable[[Redis, list[bytes]], Any]
_PICKLE = pickle.dumps(pickle.PickleBuffer, 4)  # unpickled, it would look a class up


def _bytes(change: Callable[[bytes], bytes]) -> Spoil:
    """Each value of texts and lists, changed."""

    def spoil(raw: Redis, names: list[bytes]) -> None:
        for name in names:
            kind = raw.type(name)
            if kind == b"string":
                raw.set(name, change(raw.get(name)))  # type: ignore[arg-type]
            elif kind == b"list":
                values = [change(each) for each in raw.lrange(name, 0, -1)]  # type: ignore[union-attr]
                raw.delete(name)
                raw.rpush(name, *values)

    return spoil


def _instead(put: Callable[[Redis, bytes], Any]) -> Spoil:
    def spoil(raw: Redis, names: list[bytes]) -> None:
        for name in names:
            raw.delete(name)
            put(raw, name)

    return spoil


def _swapped(shift: int) -> Spoil:
    """Every key gets what lies at another: of another user, another thread, another kind."""

    def spoil(raw: Redis, names: list[bytes]) -> None:
        values = [raw.dump(name) for name in names]
        for name, value in zip(names, values[shift:] + values[:shift], strict=True):
            raw.restore(name, 0, value, replace=True)  # type: ignore[arg-type]

    return spoil


def _between_users(raw: Redis, names: list[bytes]) -> None:
    for name in names:
        other = name.replace(b":mallory:", b":alice:")
        if other != name and raw.exists(other):
            raw.restore(name, 0, raw.dump(other), replace=True)  # type: ignore[arg-type]


VALUES: dict[str, Spoil] = {
    "empty": _bytes(lambda value: b""), "one byte": _bytes(lambda value: value[:1]),
    "cut by one": _bytes(lambda value: value[:-1]),
    "half": _bytes(lambda value: value[: len(value) // 2]), "without the proof": _bytes(lambda value: value[:-32]),
    "only the proof": _bytes(lambda value: value[-32:]), "one more": _bytes(lambda value: value + b"\0"),
    "twice": _bytes(lambda value: value * 2), "backwards": _bytes(lambda value: value[::-1]),
    "first bit": _bytes(lambda value: bytes([value[0] ^ 1]) + value[1:]),
    "last bit": _bytes(lambda value: value[:-1] + bytes([value[-1] ^ 1])),
    "middle": _bytes(lambda value: value[: len(value) // 2] + b"\xff" + value[len(value) // 2 + 1 :]),
    "zeros": _bytes(lambda value: bytes(len(value))), "a proof of zeros": _bytes(lambda value: value[:-32] + bytes(32)),
    "a pickle": _bytes(lambda value: _PICKLE), "a pickle with a proof": _bytes(lambda value: _PICKLE + value[-32:]),
    "code": _bytes(lambda value: CODE.encode()), "JSON": _bytes(lambda value: b'{"state": {"mine": false}}'),
    "deep msgpack": _bytes(lambda value: b"\x91" * 100_000),
    "a huge array": _bytes(lambda value: b"\xdd\xff\xff\xff\xff"),
    "a huge map": _bytes(lambda value: b"\xdf\xff\xff\xff\xff" + bytes(32)),
    "a megabyte": _bytes(lambda value: b"x" * (1 << 20)),
    "a zstd frame": _bytes(lambda value: b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\x7f" + value),
    "a text": _instead(lambda raw, name: raw.set(name, b"hello")), "an int": _instead(lambda raw, name: raw.set(name,
    2**63 - 1)),
    "a list": _instead(lambda raw, name: raw.rpush(name, b"", b"x")), "a set": _instead(lambda raw,
    name: raw.sadd(name, b"x")),
    "a hash": _instead(lambda raw, name: raw.hset(name, b"x", b"y")), "a sorted set": _instead(lambda raw,
    name: raw.zadd(name, {b"\xff:": 1})),
    "a stream": _instead(lambda raw, name: raw.xadd(name, {b"x": b"y"})), "a counter": _instead(lambda raw,
    name: raw.pfadd(name, b"x")),
    "a long list": _instead(lambda raw, name: raw.rpush(name, *[b"x" * 10] * 50_000)),
    "32 MB": _instead(lambda raw, name: raw.set(name, b"x" * (32 << 20))), "nothing": _instead(lambda raw, name: None),
    "swapped by one": _swapped(1), "swapped by two": _swapped(2), "swapped back": _swapped(-1),
    "alice's for mallory's": _between_users,
}  # fmt: skip
register("redis", VALUES)


async def _play(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    (folder / "redis").mkdir()
    with Redis.from_url(require(shared_redis).url) as raw:
        async with playing(PLACES[kind](folder / "redis"), "async", folder, canary) as scene:
            storage = parts_of(scene.store).storage
            parts = [await storage.keep(name, b"") for name in ("hot.id", INCARNATION)]
            own = digest_of(b"".join(parts))[: len(parts[0])]  # the keys of this store: others use Redis too
            for each in chosen:
                await _spoil(judge, scene, each, raw, f"perdure:{own.hex()}:*")


async def _spoil(judge: Judge, scene: Scene, hostile: Hostile, raw: Redis, pattern: str) -> None:
    thread = scene.mallory.thread(SHARED)
    await thread.append("log", str(hostile))
    truth = await thread.load()
    names = sorted(raw.keys(pattern))  # type: ignore[arg-type]
    judge.broken(str(hostile), "" if names else "there was nothing in Redis to spoil")
    hostile.value(raw, names)
    async with opened(scene.place, "async", namespace=NAMESPACE) as store:  # one that has seen nothing yet
        again = store.scope(user="mallory").thread(SHARED)
        answer = await judge.call(str(hostile), again.load)
        judge.broken(str(hostile), "" if answer == truth else f"another state: {answer!r:.200}")
        await judge.call(f"{hostile}, messages", again.messages)
        await judge.call(f"{hostile}, append", lambda: again.append("log", "after"))
    judge.broken(str(hostile), await scene.changed())


TRIALS.append(Trial(category="redis", backends=("hot_sqlite", "hot_postgres"), play=_play))
