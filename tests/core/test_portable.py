"""The format of an export: what is written is read back, and nothing else is believed."""

from __future__ import annotations

import io
import random
import struct
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.compression import zstd
from perdure.core.portable import (
    BLOCK,
    MAX_LINE,
    Allowance,
    Contents,
    FormatTooNew,
    Listed,
    NotAnExport,
    Packer,
    Unpacker,
    contents_of,
    first_line,
    unpacked,
)

CONTENTS = Contents(
    release="0.1.0", created="2026-11-16T12:00:00+00:00", threads=[Listed(id="t", counts={"entries": 3})]
)
LINE = first_line(CONTENTS)
RANDOM = random.Random(7)


def export(*records: bytes, line: bytes = LINE) -> bytes:
    packer = Packer()
    blocks = [block for record in records for block in packer.add(record)]
    return b"".join((line, *blocks, *packer.end(line, None)))


def read(data: bytes) -> list[bytes]:
    return list(Unpacker(io.BytesIO(data)).records())


def forged(*blocks: tuple[bytes, int]) -> bytes:
    """An export whose digests are right, whatever its blocks are and claim."""
    made, digest = [LINE], bytes(32)
    for stored, plain in blocks:
        sizes = struct.pack(">II", len(stored), plain)
        digest = sha256(digest + sizes + stored).digest()
        made.append(sizes + stored + digest)
    return b"".join((*made, bytes(8), sha256(digest + bytes(8) + LINE).digest()))


def framed(record: bytes) -> bytes:
    return struct.pack(">I", len(record)) + record


@given(st.lists(st.binary(max_size=300)))
def test_records_come_back_in_order(records: list[bytes]) -> None:
    assert read(export(*records)) == records


def test_large_records_are_cut_into_blocks_and_come_back_whole() -> None:
    records = [RANDOM.randbytes(3 * BLOCK + 17), b"", bytes(5 * BLOCK), b"end"]
    data = export(*records)
    assert read(data) == records
    assert len(data) < 4 * BLOCK


def test_the_first_line_is_for_people_and_can_be_filled_in_later() -> None:
    wide = first_line(CONTENTS, len(LINE) + 40)
    assert wide.startswith(b'perdure-export 1 {"release":"0.1.0",')
    assert (len(wide), wide[-1:], contents_of(wide)) == (len(LINE) + 40, b"\n", CONTENTS)
    assert read(export(b"x", line=wide)) == [b"x"]


def test_every_flipped_bit_is_found() -> None:
    data = export(b"one", b"two " * 100, RANDOM.randbytes(200))
    for at in range(len(data)):
        for bit in (1, 16, 128):
            damaged = bytearray(data)
            damaged[at] ^= bit
            with pytest.raises((NotAnExport, FormatTooNew)):
                read(bytes(damaged))


def test_every_cut_is_found() -> None:
    data = export(b"one", b"two " * 100)
    for end in range(len(data)):
        with pytest.raises(NotAnExport):
            read(data[:end])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(NotAnExport, match="there are bytes after the end"):
        read(export(b"one") + b"\0")


def test_blocks_in_another_order_are_refused_and_the_place_is_named() -> None:
    data = export(RANDOM.randbytes(3 * BLOCK))
    size = len(data) - len(LINE)
    start, length = len(LINE), struct.unpack_from(">I", data, len(LINE))[0] + 40
    assert size > 2 * length
    first, second = data[start : start + length], data[start + length : start + 2 * length]
    with pytest.raises(NotAnExport, match=f"the block at byte {start} fails its digest"):
        read(data[:start] + second + first + data[start + 2 * length :])


def test_a_block_left_out_or_given_twice_is_refused() -> None:
    data = export(RANDOM.randbytes(2 * BLOCK))
    start, length = len(LINE), BLOCK + 40
    first = data[start : start + length]
    for damaged in (data[:start] + data[start + length :], data[:start] + first + data[start:]):
        with pytest.raises(NotAnExport, match="fails its digest"):
            read(damaged)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "does not begin"),
        (b"SQLite format 3\0", "does not begin"),
        (b"perdure-export \n", "no format number"),
        (b"perdure-export x {}\n", "no format number"),
        (b"perdure-export 1 {}\n", "cannot be read"),
        (b"perdure-export 1 " + b"[" * 5000 + b"\n", "cannot be read"),
        (b'perdure-export 1 {"release":"\xff","created":"","threads":[]}\n', "cannot be read"),
        (b"perdure-export 1 {}", "has no end"),
        (b"perdure-export 1 " + b" " * (MAX_LINE + 1), "has no end"),
    ],
)
def test_another_first_line_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(NotAnExport, match=said):
        read(line)


def test_a_later_format_is_told_from_damage() -> None:
    with pytest.raises(FormatTooNew, match="has export format 2, this release reads 1"):
        read(LINE.replace(b"export 1", b"export 2"))


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([(b"x", 1 << 31)], "claims"),
        ([(b"x", BLOCK + 1)], "claims"),
        ([(b"xx", 1)], "claims"),
        ([(b"x" * 10, 500)], "cannot be unpacked"),
        ([(zstd.compress(bytes(1000)), 999)], "cannot be unpacked"),
        ([(zstd.compress(bytes(1000)), 1001)], "cannot be unpacked"),
        ([(zstd.compress(bytes(500)) + zstd.compress(bytes(500)), 1000)], "cannot be unpacked"),
        ([(zstd.compress(bytes(500))[:-3], 500)], "cannot be unpacked"),
        ([(framed(b"ab")[:-1], 5)], "ends inside a record"),
        ([(struct.pack(">I", 4_000_000_000), 4)], "claims 4,000,000,000 bytes"),
    ],
)
def test_forged_blocks_are_refused(blocks: list[tuple[bytes, int]], said: str) -> None:
    with pytest.raises(NotAnExport, match=said):
        read(forged(*blocks))


def test_a_bomb_is_refused_long_before_it_fills_the_memory() -> None:
    first, bomb = zstd.compress(struct.pack(">I", 1 << 31) + bytes(BLOCK - 4)), zstd.compress(bytes(BLOCK))
    data = forged((first, BLOCK), *[(bomb, BLOCK)] * 2047, (bomb[:4], 4))
    assert len(data) < 1 << 20
    source = Unpacker(io.BytesIO(data))
    with pytest.raises(NotAnExport, match="unpacks to more than 100 times its size"):
        list(source.records())


def test_what_compresses_like_a_bomb_is_written_so_that_it_is_none() -> None:
    records = [bytes(BLOCK)] * 100
    data = export(*records)
    assert read(data) == records
    assert len(data) > 100 * BLOCK // 100 - BLOCK


def test_an_allowance_counts_what_was_taken() -> None:
    allowance = Allowance()
    assert allowance.takes(64 << 20, 0)
    assert not allowance.takes(101, 1)
    assert allowance.takes(100, 1)
    assert not allowance.takes(1, 0)


def test_unpacking_never_gives_more_than_was_asked_for() -> None:
    frame = zstd.compress(bytes(10_000))
    assert unpacked(frame, 10_000) == bytes(10_000)
    for size in (0, 1, 9_999, 10_001):
        assert unpacked(frame, size) is None
    assert unpacked(b"nonsense", 3) is None
