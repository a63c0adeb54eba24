"""What a record is packed by, and that hostile bytes are told from it."""

from __future__ import annotations

import random
import zlib
from contextlib import suppress

import pytest

from perdure.core.envelope import EnvelopeError, seal, seal_packed, seal_record, unseal, weight

WORDS = ("the order was refunded to the customer " * 200).encode()
HEAD = bytes((1, 2, 0))


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 4095, 4096, 4097, 7000])
@pytest.mark.parametrize("noise", [False, True])
def test_a_record_comes_back_whole(size: int, noise: bool) -> None:
    body = random.Random(size).randbytes(size) if noise else WORDS[:size]
    sealed = seal_record(body)
    assert unseal(sealed) == body
    assert len(sealed) <= len(body) + 3


def test_short_records_are_deflated_and_long_ones_are_not() -> None:
    assert [seal_record(WORDS[:size])[1] for size in (511, 512, 4096, 4097)] == [0, 2, 2, 1]
    assert seal_record(WORDS[:5000]) == seal_packed(WORDS[:5000])
    assert seal_record(random.Random(1).randbytes(2000))[1] == 0  # nothing to gain


def deflated(body: bytes) -> bytes:
    return zlib.compress(body, 9, -15)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xff" * 40,
        deflated(WORDS)[:-3],
        deflated(WORDS) + b"x",
        deflated(bytes(65_537)),
        deflated(bytes(1 << 30)),
        zlib.compress(WORDS),
    ],
    ids=["nothing", "noise", "cut", "more", "too long", "bomb", "with a header"],
)
def test_bytes_that_are_no_record_are_told(packed: bytes) -> None:
    with pytest.raises(EnvelopeError):
        unseal(HEAD + packed)


def test_the_longest_record_that_is_read() -> None:
    assert unseal(HEAD + deflated(bytes(65_536))) == bytes(65_536)


def test_flags_together_are_refused() -> None:
    with pytest.raises(EnvelopeError, match="flags 3"):
        unseal(bytes((1, 3, 0)) + deflated(WORDS))


def test_any_bit_that_is_turned_gives_other_bytes_or_an_error() -> None:
    body = WORDS[:600]
    sealed = seal_record(body)
    for bit in range(len(sealed) * 8):
        turned = bytearray(sealed)
        turned[bit // 8] ^= 1 << bit % 8
        with suppress(EnvelopeError):
            assert unseal(bytes(turned)) != body or bit // 8 == len(sealed) - 1  # the last byte has bits to spare


def test_the_weight_is_that_of_what_is_there_to_fold() -> None:
    assert weight(seal(WORDS)) == len(WORDS) + 3
    assert weight(seal_packed(WORDS)) == len(WORDS)
