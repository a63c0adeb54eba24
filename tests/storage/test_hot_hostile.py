"""Whatever Redis says, nothing but the truth is served."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from perdure.checkpoints import snapshotting
from perdure.checkpoints.requests import Request
from perdure.core.changes import Change
from perdure.core.entries import Entry
from perdure.core.errors import StorageReadOnlyError
from perdure.core.identity import ThreadKey
from perdure.core.writes import Restored
from perdure.sessions.messages import Messages
from perdure.storage.contract import INCARNATION
from perdure.storage.drive import drive
from perdure.storage.hot.signing import Base, Refused, Signer
from perdure.storage.memory import MemoryStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import BOBS, OTHER, THREAD, Scribe
from perdure.testing.servers import require, shared_redis
from tests.storage.hot import ERRORS, HIT, REFUSED, Counting, Scene, engine, sound, state
from tests.storage.test_hot import raw, scene  # noqa: F401  # fixtures


def damaged(value: bytes) -> list[bytes]:
    flips = [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in range(0, len(value), 7)]
    return [b"", b"\x01", b"\x01\x00\x00", value[:-1], value[1:], value + b"\0", value * 2, *flips]


def _three_entries() -> list[Entry]:
    storage = MemoryStorage()
    drive(Scribe(storage, ManualClock()).grow(THREAD, 3))
    return drive(storage.entries(THREAD))


def test_a_value_of_which_any_bit_was_changed_is_refused(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 2))
    tail, base = scene.name("tail::alice:t1"), scene.name("base::alice:t1")
    for bad in damaged(scene.raw.lindex(tail, -1)):
        scene.raw.lset(tail, -1, bad)
        scene.same_as_inner()
    for bad in damaged(scene.raw.get(base)):
        scene.raw.set(base, bad)
        scene.same_as_inner()
    assert scene.heard.counts[REFUSED] > 50


@pytest.mark.parametrize("kind", ["string", "list", "set", "hash", "zset"])
def test_a_key_of_any_other_type_is_a_miss_and_is_mended(scene: Scene, kind: str) -> None:
    put: dict[str, Callable[[bytes], Any]] = {
        "string": lambda name: scene.raw.set(name, b"\x01\x00\x00hello"),
        "list": lambda name: scene.raw.rpush(name, b"hello", b""),
        "set": lambda name: scene.raw.sadd(name, b"hello"),
        "hash": lambda name: scene.raw.hset(name, b"hello", b"you"),
        "zset": lambda name: scene.raw.zadd(name, {b"hello": 1, b"\xff:": 2}),
    }
    drive(scene.scribe.grow(THREAD, 2))
    for name in scene.names():
        scene.raw.delete(name)
        put[kind](name)
    for _ in range(3):
        scene.same_as_inner()
        drive(scene.scribe.append())
    scene.heard.counts.clear()
    scene.same_as_inner()
    assert scene.heard.counts == {HIT: 2}


def test_a_value_is_believed_only_for_what_it_was_signed_for() -> None:
    signer = Signer(b"k" * 32)
    entries = _three_entries()
    signed, based = signer.entries(b":a:t", "uid", entries), signer.base(b":a:t", "uid", None)
    assert signer.entries_in(b":a:t", "uid", signed) == entries
    assert signer.base_in(b":a:t", "uid", based) == Base(None)
    for member, uid in ((b":a:T", "uid"), (b":b:t", "uid"), (b":a:t", "uid2"), (b":a:tuid", "")):
        for read, value in ((signer.entries_in, signed), (signer.base_in, based)):
            with pytest.raises(Refused):
                read(member, uid, value)
    for read, value in ((signer.entries_in, based), (signer.base_in, signed), (Signer(b"K" * 32).entries_in, signed)):
        with pytest.raises(Refused):
            read(b":a:t", "uid", value)


def test_values_of_another_thread_or_user_are_refused(scene: Scene) -> None:
    keys = (THREAD, OTHER, BOBS, ThreadKey("staging", "alice", "t1"))
    for key in keys:
        drive(scene.scribe.grow(key, 3))
    for what in ("tail", "base"):
        names = [name for name in scene.names() if what.encode() in name]
        values = [scene.raw.dump(name) for name in names]
        for name, value in zip(names, values[1:] + values[:1], strict=True):
            scene.raw.restore(name, 0, value, replace=True)
    for key in keys:
        scene.same_as_inner(key)
    assert scene.heard.counts[REFUSED] >= 4


def test_tail_and_base_cannot_stand_for_each_other(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 2))
    tail, base = scene.name("tail::alice:t1"), scene.name("base::alice:t1")
    element, value = scene.raw.lindex(tail, 0), scene.raw.get(base)
    scene.raw.set(base, element)
    scene.raw.lset(tail, 0, value)
    scene.same_as_inner()


def test_old_values_that_come_back_are_not_served(scene: Scene) -> None:
    old: list[dict[bytes, bytes]] = []
    for _ in range(5):
        made = drive(scene.scribe.grow(THREAD, 2))
        drive(scene.storage.put_snapshot(THREAD, made.row.uid, sound(made.version, made.row.head_digest)))
        old.append(scene.raw_values())
    for values in old:
        scene.put_raw(values)
        found = drive(scene.storage.restore(THREAD))
        assert found is not None
        assert found.row == drive(scene.inner.thread(THREAD))
        assert (found.snapshot.version if found.snapshot else 0) + len(found.entries) == 10
        assert drive(scene.storage.entries(THREAD)) == drive(scene.inner.entries(THREAD))


def test_values_of_a_deleted_thread_do_not_speak_for_the_next_of_its_id(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 3))
    old = scene.raw_values()
    drive(scene.storage.delete(THREAD))
    assert scene.names() == [scene.name("gone::alice:t1")]  # the tombstone alone
    scene.put_raw(old)
    assert drive(scene.storage.restore(THREAD)) is None
    drive(scene.scribe.grow(THREAD, 3))
    scene.put_raw(old)
    scene.same_as_inner()


def test_a_storage_put_back_to_a_backup_is_not_answered_from_its_later_life(scene: Scene, raw: Redis) -> None:
    made = drive(scene.scribe.grow(THREAD, 3))
    backup = Counting()  # the same secret, the same thread, another life since
    for name in ("hot.id", "hot.secret", INCARNATION):
        drive(backup.keep(name, drive(scene.inner.keep(name, b""))))
    again = Scribe(backup, ManualClock(), seed=2)
    drive(backup.append(again.write(THREAD, new_uid=made.row.uid)))
    drive(again.grow(THREAD, 2))
    other = Scene(raw, backup)
    assert drive(other.storage.entries(THREAD)) == drive(backup.entries(THREAD))
    for _ in range(2):
        other.same_as_inner()
        scene.same_as_inner()
    drive(other.storage.close())


def test_a_write_that_went_past_the_hot_layer_is_seen_at_once(scene: Scene) -> None:
    drive(scene.scribe.grow(THREAD, 3))
    elsewhere = Scribe(scene.inner, scene.clock, seed=2)
    for _ in range(5):
        drive(elsewhere.append())
        scene.same_as_inner()


def test_what_a_damaged_storage_says_is_not_kept(raw: Redis) -> None:
    class Damaged(Counting):
        broken = True

        async def restore(self, key: ThreadKey, **rest: Any) -> Restored | None:
            found = await super().restore(key, **rest)
            assert found is not None
            bad = msgspec.structs.replace(found.entries[1], payload=b"\x01\x00\x00oh")
            return msgspec.structs.replace(found, entries=[found.entries[0], bad]) if self.broken else found

    inner = Damaged()
    drive(Scribe(inner, ManualClock()).grow(THREAD, 2))
    scene = Scene(raw, inner)
    assert drive(scene.storage.restore(THREAD)) == drive(inner.restore(THREAD))
    inner.broken = False
    scene.same_as_inner()
    scene.close()


def test_a_snapshot_that_fails_its_digest_is_not_kept(scene: Scene) -> None:
    made = drive(scene.scribe.grow(THREAD, 2))
    drive(scene.scribe.snapshot(made))  # the scribe's digest is not the engine's
    for _ in range(2):
        scene.same_as_inner()
        assert scene.names("base::alice:t1") == []


def test_a_storage_that_can_only_be_read_is_read_without_redis(raw: Redis) -> None:
    class Sealed(Counting):
        async def keep(self, name: str, value: bytes) -> bytes:
            raise StorageReadOnlyError("here", "sealed")

    scene = Scene(raw, Sealed())
    drive(Scribe(scene.inner, ManualClock()).grow(THREAD, 2))
    scene.same_as_inner()
    assert scene.names() == []
    scene.close()


# Random histories.

steps = st.lists(
    st.tuples(
        st.sampled_from([THREAD, OTHER, BOBS]),
        st.sampled_from(["append", "append", "save", "fork", "delete", "flush", "old", "elsewhere", "load"]),
    ),
    max_size=40,
)


@given(steps=steps)
def test_every_state_read_through_redis_is_the_storages_own(steps: list[tuple[ThreadKey, str]]) -> None:
    with Redis.from_url(require(shared_redis).url) as raw, pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshotting, "SMALLEST", 50)  # many snapshots, so that they are served too
        scene = Scene(raw, max_cached_threads=2)
        play = Play(scene)
        for key, what in steps:
            play.step(key, what)
            play.check()
        assert scene.heard.counts[ERRORS] == 0
        scene.close()


class Play:
    """Writes through engines, and compares what a fresh one reads with and without Redis."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._warm = engine(scene.storage)
        self._old = scene.raw_values()
        self._turn = 0

    def step(self, key: ThreadKey, what: str) -> None:
        self._turn += 1
        change = Change({"turn": self._turn}, {"messages": [f"{what} {self._turn}"]}, [])
        if what == "append":
            drive(self._warm.change(key, change, None, Request()))
        elif what == "save":
            drive(self._warm.save(key, {"messages": ["x" * 200], "turn": self._turn}, None, Request()))
        elif what == "elsewhere":
            drive(engine(self._scene.inner).change(key, change, None, Request()))
        elif what == "delete":
            drive(self._scene.storage.delete(key))
        elif what == "fork" and (row := drive(self._scene.inner.thread(key))):
            drive(self._scene.scribe.fork(key, row.head // 2, ThreadKey("", key.user, f"fork {self._turn}")))
        elif what == "flush":
            self._old = self._scene.raw_values()
            self._scene.forget()
        elif what == "old":
            self._scene.put_raw(self._old)

    def check(self) -> None:
        for key in (THREAD, OTHER, BOBS, ThreadKey("", "alice", f"fork {self._turn}")):
            assert state(self._scene.storage, key) == state(self._scene.inner, key)
            newest = [drive(Messages(each).list(key, 2)) for each in (self._scene.storage, self._scene.inner)]
            assert newest[0] == newest[1]
