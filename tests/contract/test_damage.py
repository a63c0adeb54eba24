"""Stored bytes that were changed behind our back are noticed; never is another state given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from perdure.checkpoints.restoring import Restorer
from perdure.core import digest
from perdure.core.codec import encode
from perdure.core.entries import Entry
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.ops import Append, Set
from perdure.core.payload import StateChange, encode_body
from perdure.core.ports import Silence
from perdure.core.writes import Restored
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import STATE, THREAD, Scribe

Change = Callable[[Entry], list[Entry]]
SEEN_BY_LOADING: dict[str, Change] = {
    "payload": lambda entry: _with(entry, payload=(entry.payload or b"").replace(b"\xa4word", b"\xa4wore")),
    "digest": lambda entry: _with(entry, digest=_flipped(entry.digest)),
    "version": lambda entry: _with(entry, version=entry.version + 1),
    "missing": lambda entry: [],
    "doubled": lambda entry: [entry, entry],
}
SEEN_BY_VERIFYING: dict[str, Change] = {
    "digest": SEEN_BY_LOADING["digest"],
    "missing": SEEN_BY_LOADING["missing"],
    "time": lambda entry: _with(entry, micros=entry.micros + 1),
    "actor": lambda entry: _with(entry, actor="mallory"),
    "key": lambda entry: _with(entry, key="k2"),
    "chain": lambda entry: _with(entry, chain=_flipped(entry.chain)),
}


class Tampered(MemoryStorage):
    """A storage whose second entry comes back changed."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        found = await super().restore(key, at=at, after=after)
        assert found is not None
        return msgspec.structs.replace(found, entries=self.changed(found.entries))

    def changed(self, entries: list[Entry]) -> list[Entry]:
        return [shown for entry in entries for shown in (self.change(entry) if entry.version == 2 else [entry])]


@pytest.mark.parametrize("what", SEEN_BY_LOADING)
def test_a_changed_entry_is_never_folded_into_a_state(what: str) -> None:
    storage = _three_entries(SEEN_BY_LOADING[what])
    with pytest.raises(EntryDamagedError):
        drive(Restorer(storage, Silence()).restore(THREAD))


@pytest.mark.parametrize("what", SEEN_BY_VERIFYING)
def test_a_changed_entry_does_not_follow_from_the_one_before(what: str) -> None:
    storage = _three_entries(SEEN_BY_VERIFYING[what])
    entries = storage.changed(drive(storage.entries(THREAD)))
    with pytest.raises(EntryDamagedError) as caught:
        digest.verify_links("t1", 0, digest.GENESIS, entries)
    assert caught.value.version == 2


def test_an_untouched_log_is_read() -> None:
    storage = _three_entries(lambda entry: [entry])
    assert drive(Restorer(storage, Silence()).restore(THREAD)).last == 3


def _three_entries(change: Change) -> Tampered:
    storage = Tampered(change)
    scribe = Scribe(storage, ManualClock())
    for op in (Set((), Raw(encode({"words": []}))), *[Append(("words",), [Raw(encode("word"))])] * 2):
        body = encode_body(StateChange([op]))
        drive(scribe.append(THREAD, entries=(scribe.entry(STATE, body=body),)))
    return storage


def _with(entry: Entry, **changes: Any) -> list[Entry]:
    return [msgspec.structs.replace(entry, **changes)]


def _flipped(data: bytes) -> bytes:
    return data[:4] + bytes([data[4] ^ 1]) + data[5:]
