"""The rules of copying, on plain values."""

from __future__ import annotations

import msgspec
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.blobs import referred
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy, past
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import OTHER, THREAD, Scribe

ONE, OTHER_ONE = bytes(range(32)), b"\xc7\x20\x15" * 10 + b"xy"


def test_references_are_found_wherever_they_stand() -> None:
    inside = Ext(zoo.TUPLE, msgspec.msgpack.encode([Ext(zoo.BLOB, ONE)]))
    body = msgspec.msgpack.encode({"a": [inside], "b": Ext(zoo.BLOB, OTHER_ONE)})
    assert {ONE, OTHER_ONE} <= set(referred(body))


def test_what_looks_like_a_reference_does_not_hide_one() -> None:
    body = msgspec.msgpack.encode([b"\xc7\x20\x15 and so on", Ext(zoo.BLOB, ONE), "\n", Ext(zoo.SET, ONE)])
    assert ONE in referred(body)
    assert referred(msgspec.msgpack.encode([Ext(zoo.SET, ONE), "text"])) == []


def test_a_past_without_keys_is_one_thread_of_the_parents_name() -> None:
    copy = fork_with_keys(None, None, None)
    (line,) = past(copy, "mine", parent_is_free=True)
    assert (line.uid, line.head, line.parent_uid, line.parent_version) == (copy.row.parent_uid, 3, None, 0)
    assert line.head_digest == copy.entries[2].chain
    assert [each.uid for each in past(copy, "mine", parent_is_free=False)] == ["mine.1"]


def test_a_past_is_cut_where_a_key_was_used_again() -> None:
    lines = past(fork_with_keys("k", "l", "k"), "mine", parent_is_free=False)
    assert [_place(line) for line in lines] == [("mine.1", None, 0, 2), ("mine.2", "mine.1", 2, 3)]
    lines = past(fork_with_keys("k", "k", "k"), "mine", parent_is_free=True)
    assert [(line.parent_version, line.head) for line in lines] == [(0, 1), (1, 2), (2, 3)]


def test_a_thread_that_is_no_fork_has_no_past() -> None:
    scribe = Scribe(MemoryStorage(), ManualClock())
    drive(scribe.grow(THREAD, 2))
    assert past(drive(take(scribe.storage, THREAD)), "mine", parent_is_free=True) == []


def _place(line: ThreadRow) -> tuple[str, str | None, int, int]:
    return line.uid, line.parent_uid, line.parent_version, line.head


def fork_with_keys(*keys: str | None) -> ThreadCopy:
    """A copy of a fork whose parents had these keys, each of them another thread."""
    scribe = Scribe(MemoryStorage(), ManualClock())
    name = THREAD
    for number, key in enumerate(keys):
        drive(scribe.append(name, idem_key=key))
        child = msgspec.structs.replace(THREAD, id=f"child {number}")
        drive(scribe.fork(name, number + 1, child))
        name = child
    drive(scribe.fork(name, len(keys), OTHER))
    drive(scribe.append(OTHER, idem_key="own"))
    return drive(take(scribe.storage, OTHER))
