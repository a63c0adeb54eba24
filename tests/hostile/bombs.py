"""Small bytes that would take much memory or time, and bytes that no codec wrote.

`LARGE`, `COLLIDING` and `broken` give encoded values by name, each to be decoded or to stand in an entry with a right
digest. `sealed` puts one into an envelope, `forged` into the export of a thread.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.compression import pack
from perdure.core.digest import GENESIS, digest_of, header_rest, link
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.ops import Set, Splice
from perdure.core.payload import StateChange, encode_body
from perdure.core.portable import Contents, Listed, Packer, first_line
from perdure.core.portable_threads import counts_of, records_of
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow
from perdure.core.transfer import CopiedBlob, ThreadCopy

PRIME = (1 << 61) - 1  # hashes of numbers are remainders of it
_encode = msgspec.msgpack.Encoder().encode


def array(count: int, item: bytes = b"\x00") -> bytes:
    """A list of so many times the same encoded item."""
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def sealed(body: bytes) -> bytes:
    """The body in an envelope, however much smaller that is."""
    return b"\x01\x01\x00" + pack(body)


def colliding_ints(count: int) -> list[int]:
    """Integers that all have the same hash."""
    return [number * PRIME + 7 for number in range(count)]


def colliding_tuples(count: int) -> list[tuple[int, ...]]:
    """Tuples that all have the same hash: those of -1 and -2 are the same."""
    return list(itertools.islice(itertools.product((-1, -2), repeat=17), count))


def meeting_ints(count: int) -> list[int]:
    """Integers with different hashes whose ways through a table of 65,536 slots meet: most of them fill one long row
    of slots, and each of the others walks to its end.
    """
    mask, taken, found = 0xFFFF, bytearray(0x10000), list[int]()
    slot = 1
    for _ in range(count * 4 // 5):
        found.append(slot)
        taken[slot] = 1
        slot = (5 * slot + 1) & mask
    source = random.Random(1)
    known = set(found)
    while len(found) < count:
        number = source.getrandbits(20)
        at, perturb, steps = number & mask, number, 0
        while taken[at] and steps < 64:
            steps, perturb = steps + 1, perturb >> 5
            at = (at * 5 + perturb + 1) & mask
        if steps == 64 and number not in known:
            known.add(number)
            found.append(number)
    return found


def mapping(keys: list[Any]) -> bytes:
    """A mapping with these keys, as the codec has one."""
    return _encode(Ext(zoo.MAPPING, _encode([[_key(key), 0] for key in keys])))


def members(keys: list[Any], code: int = zoo.SET) -> bytes:
    """A set of these, as the codec has one."""
    return _encode(Ext(code, _encode([_key(key) for key in keys])))


def native_mapping(keys: list[tuple[int, ...]]) -> bytes:
    """A mapping of msgpack itself whose keys are lists, which is never written."""
    return b"\xdf" + len(keys).to_bytes(4, "big") + b"".join(_encode(key) + b"\x00" for key in keys)


def _key(key: Any) -> Any:
    if type(key) is tuple:
        return Ext(zoo.TUPLE, _encode([_key(each) for each in key]))
    if type(key) is int and not -(1 << 63) <= key < 1 << 64:
        return Ext(zoo.BIG_INT, zoo.int_bytes(key))
    return key


COLLIDING: dict[str, Callable[[], bytes]] = {  # each would take minutes to build, or seconds at least
    "mapping of integers": lambda: mapping(colliding_ints(60_000)),
    "set of integers": lambda: members(colliding_ints(60_000)),
    "frozen set of tuples": lambda: members(colliding_tuples(60_000), zoo.FROZENSET),
    "mapping of tuples": lambda: mapping(colliding_tuples(60_000)),
    "mapping of other hashes": lambda: mapping(meeting_ints(40_000)),
    "mapping of msgpack": lambda: native_mapping(colliding_tuples(60_000)),
    "mapping of msgpack in a list": lambda: array(2, native_mapping(colliding_tuples(30_000))),
}
# Each takes 30 to 200 times its bytes in memory, and a few KB of zstd stand for it.
LARGE: dict[str, Callable[[int], bytes]] = {
    "numbers": array,
    "empty lists": lambda size: array(size, b"\x90"),
    "empty mappings": lambda size: array(size, b"\x80"),
    "mappings": lambda size: array(size // 3, b"\x81\xa0\x00"),
    "sets": lambda size: array(size // 3, bytes((0xD4, zoo.SET, 0x90))),
    "lists in lists": lambda size: b"\x91" * 20 + array(size, b"\x90"),
    "in a tuple": lambda size: _encode(Ext(zoo.TUPLE, array(size))),
}


def broken() -> dict[str, bytes]:
    """Encoded values that no codec wrote: each has to end in a typed error, or in a value."""

    def ext(code: int, value: Any) -> bytes:
        return _encode(Ext(code, value if isinstance(value, bytes) else _encode(value)))

    big = zoo.int_bytes(10**5000)
    return {
        "nothing": b"",
        "no such head": b"\xc1",
        "cut": b"\xdb\xff\xff\xff\xffabc",
        "many items claimed": b"\xdd\xff\xff\xff\xff",
        "many items claimed, nested": b"\xdd\x00\x80\x00\x00" * 900,
        "many keys claimed": b"\xdf\xff\xff\xff\xff",
        "deep lists": b"\x91" * 100_000 + b"\x00",
        "deep mappings": b"\x81\xa1a" * 100_000 + b"\x00",
        "more after the end": b"\x00\x00",
        "no UTF-8": b"\xa2\xff\xfe",
        "extension nobody knows": ext(99, b"x"),
        "a large value that was not put back": ext(zoo.BLOB, bytes(32)),
        "time stamp out of range": b"\xd7\xff" + b"\xff" * 8,
        "int of 5,000 digits": ext(zoo.BIG_INT, big),
        "empty int": ext(zoo.BIG_INT, b""),
        "tuple that is none": ext(zoo.TUPLE, 5),
        "tuple of nothing": ext(zoo.TUPLE, b""),
        "set of lists": ext(zoo.SET, [[1], [2]]),
        "set of mappings": ext(zoo.FROZENSET, [{}]),
        "mapping with a list as key": ext(zoo.MAPPING, [[[1], 2]]),
        "mapping of triples": ext(zoo.MAPPING, [[1, 2, 3]]),
        "mapping of numbers": ext(zoo.MAPPING, [1, 2]),
        "object without fields": ext(zoo.OBJECT, ["A", 1]),
        "object whose fields are a list": ext(zoo.OBJECT, ["Money", 1, []]),
        "object whose name is a list": ext(zoo.OBJECT, [[], 1, {}]),
        "object whose name is a number": ext(zoo.OBJECT, [5, 1, {}]),
        "object whose version is a text": ext(zoo.OBJECT, ["Money", "1", {}]),
        "object whose version is huge": ext(zoo.OBJECT, ["Money", 1 << 63, {}]),
        "enum without fields": ext(zoo.ENUM, ["A", 1, None]),
        "record that is none": ext(zoo.RECORD, 5),
        "record of four": ext(zoo.RECORD, ["a", {}, 1, 2]),
        "record whose name is a number": ext(zoo.RECORD, [5, {}]),
        "record whose fields are a text": ext(zoo.RECORD, ["a", "b"]),
        "date that is none": ext(zoo.DATE, b"2026-13-45"),
        "date of bytes": ext(zoo.DATE, b"\xff\xff"),
        "date out of range": ext(zoo.DATE, b"10000-01-01"),
        "datetime without a zone": ext(zoo.DATETIME, ["2026-01-01T00:00:00"]),
        "datetime of numbers": ext(zoo.DATETIME, [1, 2, 3]),
        "datetime with another fold": ext(zoo.DATETIME, ["2026-01-01T00:00:00", 7, None]),
        "zone that is none": ext(zoo.DATETIME, ["2026-01-01T00:00:00", 0, "Mars/Base"]),
        "zone that is a path": ext(zoo.DATETIME, ["2026-01-01T00:00:00", 0, "../../etc/passwd"]),
        "zone that is a folder": ext(zoo.DATETIME, ["2026-01-01T00:00:00", 0, "America"]),
        "zone with NUL": ext(zoo.DATETIME, ["2026-01-01T00:00:00", 0, "a\0b"]),
        "zone of years": ext(zoo.TIME, ["00:00:00", 0, [10**18, None]]),
        "zone of nothing": ext(zoo.TIME, ["00:00:00", 0, []]),
        "zone whose name is a number": ext(zoo.TIME, ["00:00:00", 0, [0, 5]]),
        "duration out of range": ext(zoo.TIMEDELTA, big),
        "uuid of three bytes": ext(zoo.UUID, b"abc"),
        "decimal that is none": ext(zoo.DECIMAL, b"1.2.3"),
        "decimal that signals": ext(zoo.SET, [Ext(zoo.DECIMAL, b"sNaN")]),
        "decimal out of range": ext(zoo.DECIMAL, b"1E+99999999999999999999"),
        "path of an unknown kind": ext(zoo.PATH, ["plan9", b"a"]),
        "path of a list": ext(zoo.PATH, [[], b"a"]),
        "path that is a text": ext(zoo.PATH, ["posix", "a"]),
        "fraction with zero": ext(zoo.FRACTION, [b"\x01", b"\x00"]),
        "fraction of three": ext(zoo.FRACTION, [b"\x01", b"\x01", b"\x01"]),
        "fraction of texts": ext(zoo.FRACTION, ["1", "2"]),
        "fraction of huge numbers": ext(zoo.FRACTION, [b"\x01" * 600_000, b"\x03" * 600_001]),
        "complex of texts": ext(zoo.COMPLEX, ["1", "2"]),
        "complex of three": ext(zoo.COMPLEX, [1.0, 2.0, 3.0]),
        "range with step 0": ext(zoo.RANGE, [b"\x00", b"\x01", b"\x00"]),
        "range of numbers": ext(zoo.RANGE, [0, 1, 2]),
        "text that is none": ext(zoo.TEXT, b"\xff\xff"),
    }  # fmt: skip


def copy_of(states: list[bytes], blobs: list[bytes] = [], name: str = "bomb") -> ThreadCopy:  # noqa: B006
    """A thread whose states are these encoded values, every digest right. Large values are named by their digests."""
    digests = [digest_of(body) for body in blobs]
    changes = [StateChange([Set((), Raw(state))], blobs=digests) for state in states]
    return copy_of_bodies(list(map(encode_body, changes)), blobs, name)


def copy_of_bodies(bodies: list[bytes], blobs: list[bytes] = [], name: str = "bomb") -> ThreadCopy:  # noqa: B006
    """The same of the bodies of its entries."""
    chain, entries = GENESIS, list[Entry]()
    for version, body in enumerate(bodies, 1):
        entry = Entry(
            version=version, kind=EntryKind.STATE_SAVED, micros=version, actor=None, write_id=bytes(16), key=None,
            request=None, schema=1, digest=digest_of(body), chain=b"", payload=sealed(body),
        )  # fmt: skip
        rest = header_rest(entry, entry.write_id, None, None)
        chain = link(chain, version, entry.micros, rest, entry.digest)
        entries.append(msgspec.structs.replace(entry, chain=chain))
    row = ThreadRow(
        key=ThreadKey("", "", name), uid="0" * 26, created=1, updated=len(bodies), head=len(bodies),
        state_version=len(bodies), head_digest=chain,
    )  # fmt: skip
    return ThreadCopy(row=row, entries=entries, blobs=[CopiedBlob(digest_of(each), sealed(each), 1) for each in blobs])


def forged(path: Path, copy: ThreadCopy) -> Path:
    """An export of this thread with every digest right, made without a look at what it unpacks to."""
    listed = Listed(id=copy.row.key.id, version=copy.row.head, counts=counts_of(copy))
    line = first_line(Contents(release="0.1.0", created="2026-11-16T00:00:00+00:00", threads=[listed]))
    return forged_records(path, line, [_encode(("thread", {"row": copy.row})), *list(_lists(copy))])


def _lists(copy: ThreadCopy) -> Any:
    for name in ("entries", "blobs"):
        for item in getattr(copy, name):
            yield _encode((name, [item]))
    yield list(records_of(copy))[-1]


def forged_records(path: Path, line: bytes, records: list[bytes]) -> Path:
    """A file of these records."""
    packer = Packer()
    blocks = [block for record in records for block in packer.add(record)]
    path.write_bytes(line + b"".join([*blocks, *packer.end(line, None)]))
    return path


def crowded(path: Path, size: int = 40_000_000) -> Path:
    """An export whose only record is a list of empty items."""
    listed = Listed(id="bomb", version=1, counts={"entries": size})
    line = first_line(Contents(release="0.1.0", created="2026-11-16T00:00:00+00:00", threads=[listed]))
    row = ThreadRow(key=ThreadKey("", "", "bomb"), uid="0" * 26, created=1, updated=1)
    crowd = b"\x92" + _encode("entries") + array(size, b"\x80")
    return forged_records(path, line, [_encode(("thread", {"row": row})), crowd])


def crowd_of_items(path: Path, name: str, size: int = 60_000_000) -> Path:
    """An export of records that are each within the limits: rewinds or entries without end."""
    items: dict[str, Any] = {
        "rewinds": Rewind(entry=2, to=1),
        "entries": Entry(
            version=1, kind=EntryKind.STATE_SAVED, micros=1, actor=None, write_id=b"", key=None, request=None, schema=1,
            digest=b"", chain=b"", payload=b"",
        ),
    }  # fmt: skip
    piece = _encode((name, [items[name]] * 5000))
    row = ThreadRow(key=ThreadKey("", "", "bomb"), uid="0" * 26, created=1, updated=1)
    line = first_line(Contents(release="0.1.0", created="2026-11-16T00:00:00+00:00", threads=[Listed(id="bomb")]))
    return forged_records(path, line, [_encode(("thread", {"row": row})), *[piece] * (size // len(piece))])


def crowd_of_threads(path: Path, size: int = 60_000_000) -> Path:
    """An export of more empty threads than its first line names."""
    line = first_line(Contents(release="0.1.0", created="2026-11-16T00:00:00+00:00", threads=[Listed(id="b0")]))
    records: list[bytes] = []
    while sum(map(len, records[:2])) * len(records) // 2 < size:
        name, uid = f"b{len(records) // 2}", f"{len(records):026d}"
        row = ThreadRow(key=ThreadKey("", "", name), uid=uid, created=1, updated=1)
        records += [_encode(("thread", {"row": row})), _encode(("end", {}))]
    return forged_records(path, line, records)


def moving(items: int, moves: int) -> ThreadCopy:
    """A thread with a long list, and a change that moves all of it again and again."""
    splice = Splice(("a",), 0, 0, [Raw(b"\x01")])
    bodies = [StateChange([Set((), Raw(b"\x81\xa1a" + array(items)))]), StateChange([splice] * moves)]
    return copy_of_bodies(list(map(encode_body, bodies)))
