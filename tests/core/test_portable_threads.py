"""Threads as records: whole threads come back equal, and what this release does not know is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.core.compression import zstd
from perdure.core.envelope import seal_record, unseal
from perdure.core.portable import NotAnExport
from perdure.core.portable_threads import copies, counts_of, records_of
from perdure.core.transfer import CopiedBlob, ThreadCopy
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.contract.transfer import busy_thread
from perdure.testing.scribe import THREAD, Scribe

encode = msgspec.msgpack.encode
PACKED = b"\x01\x01\x00"


@pytest.fixture
def copy() -> ThreadCopy:
    return drive(busy_thread(Scribe(MemoryStorage(), ManualClock(), seed=7)))


def parts(copy: ThreadCopy) -> list[tuple[str, Any]]:
    return [tuple(msgspec.msgpack.decode(record)) for record in records_of(copy)]  # type: ignore[misc]


def read(records: list[tuple[str, Any]]) -> list[ThreadCopy]:
    return list(copies(encode(record) for record in records))


def changed(copy: ThreadCopy, **fields: Any) -> ThreadCopy:
    return msgspec.structs.replace(copy, **fields)


def with_line(copy: ThreadCopy, **fields: Any) -> ThreadCopy:
    return changed(copy, row=msgspec.structs.replace(copy.row, **fields))


def test_threads_come_back_as_they_were(copy: ThreadCopy) -> None:
    rest = changed(
        copy, entries=copy.entries[3:], after=3, chain=copy.entries[2].chain, checkpoints=copy.checkpoints[1:]
    )
    rest = with_line(rest, parent_uid="other", parent_version=3)
    assert list(copies([*records_of(copy), *records_of(rest)])) == [copy, rest]


def test_a_long_thread_is_many_small_records() -> None:
    scribe = Scribe(MemoryStorage(), ManualClock())
    drive(scribe.grow(THREAD, 3000))
    copy = drive(take(scribe.storage, THREAD))
    records = list(records_of(copy))
    assert list(copies(records)) == [copy]
    assert (len(records) > 3, max(map(len, records)) < 300_000) == (True, True)


def test_what_has_its_default_is_not_written(copy: ThreadCopy) -> None:
    """So a release that knows more fields writes what older ones read, as long as it does not use them."""
    (name, line), *_ = parts(changed(copy, blobs=[]))
    assert (name, set(line)) == ("thread", {"row"})
    assert set(counts_of(changed(copy, blobs=[]))) == {"entries", "checkpoints"}


def test_a_field_of_a_later_release_is_refused_and_not_dropped(copy: ThreadCopy) -> None:
    begin, *rest = parts(copy)
    at = next(number for number, (name, _) in enumerate(rest) if name == "entries")
    entries = [{**item, "colour": "red"} for item in rest[at][1]]
    for records in (
        [("thread", {**begin[1], "colour": 1}), *rest],
        [("thread", {"row": {**begin[1]["row"], "colour": 1}}), *rest],
        [begin, ("colours", []), *rest],
        [begin, *rest[:at], ("entries", entries), *rest[at + 1 :]],
    ):
        with pytest.raises(NotAnExport, match=r"'colours?', which this release does not know"):
            read(records)


def test_records_that_do_not_belong_there_are_refused(copy: ThreadCopy) -> None:
    begin, *middle, end = parts(copy)
    for records in (
        [*middle, end],
        [begin, *middle],
        [begin, begin, *middle, end],
        [begin, *middle[1:], end],
        [begin, *middle, middle[0], end],
        [("thread", {}), *middle, end],
        [("thread", 3), *middle, end],
        [begin, ("entries", [{"version": 1}]), end],
        [begin, ("entries", 7), end],
        [begin, *middle, ("end", {"entries": "many"})],
    ):
        with pytest.raises(NotAnExport):
            read(records)
    for record in (b"", b"\xc1", b"\x93\x01\x02\x03", encode(["thread"]), encode([1, 2])):
        with pytest.raises(NotAnExport):
            list(copies([record]))


@pytest.mark.parametrize(
    "fields",
    [
        {"uid": ""},
        {"uid": "x\0y"},
        {"name": "x\0y"},
        {"tags": ("ok", "x\0y")},
        {"epoch": 1 << 63},
        {"state_version": 1},
        {"parent_version": 99},
        {"parent_version": -1},
    ],
)
def test_a_line_that_no_storage_could_keep_is_refused(copy: ThreadCopy, fields: dict[str, Any]) -> None:
    with pytest.raises(NotAnExport, match="thread 't1'"):
        list(copies(records_of(with_line(copy, **fields))))


@pytest.mark.parametrize("name", ["id", "user", "namespace"])
def test_an_id_that_cannot_be_used_is_refused(copy: ThreadCopy, name: str) -> None:
    key = msgspec.structs.replace(copy.row.key, **{name: "x\0y"})
    with pytest.raises(NotAnExport):
        list(copies(records_of(copy.under(key))))


def test_payloads_that_unpack_to_more_than_they_may_are_refused(copy: ThreadCopy) -> None:
    bomb, liar = zstd.compress(bytes(80 << 20)), zstd.compress(bytes(1000)) + zstd.compress(bytes(10))
    for payload in (PACKED + bomb, PACKED + liar, PACKED + b"nonsense"):
        records = [*map(encode, parts(changed(copy, blobs=[])))]
        records.insert(-1, encode(("blobs", [CopiedBlob(bytes(32), payload, 1)])))
        with pytest.raises(NotAnExport, match="a CopiedBlob that unpacks to more than it may"):
            list(copies(records))


def test_deflated_records_are_written_in_a_way_that_every_import_knows(copy: ThreadCopy) -> None:
    body = b"the order was refunded " * 100
    entry = msgspec.structs.replace(copy.entries[0], payload=seal_record(body))
    (found,) = copies(records_of(changed(copy, entries=[entry, *copy.entries[1:]])))
    assert (found.entries[0].payload or b"")[:3] == PACKED
    assert unseal(found.entries[0].payload or b"") == body
    assert found.entries[1:] == copy.entries[1:]


def test_deflated_payloads_are_refused_since_nobody_could_tell_how_much_they_unpack_to(copy: ThreadCopy) -> None:
    records = [*map(encode, parts(changed(copy, blobs=[])))]
    records.insert(-1, encode(("blobs", [CopiedBlob(bytes(32), seal_record(bytes(4000)), 1)])))
    with pytest.raises(NotAnExport, match="packed in a way that exports are not"):
        list(copies(records))


def test_a_value_that_compresses_like_a_bomb_is_written_so_that_it_is_none(copy: ThreadCopy) -> None:
    bomb = CopiedBlob(bytes(32), PACKED + zstd.compress(bytes(70 << 20)), 1)
    (back,) = copies(records_of(changed(copy, blobs=[bomb])))
    assert back.blobs[0].payload == bytes((1, 0, 0)) + bytes(70 << 20)
