"""Bodies as JSON: every byte comes back, and text is text."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.codec import encode
from perdure.core.ops import Append, Set
from perdure.core.render import CannotRead, from_json, to_json

_KEYS = st.text(max_size=5) | st.sampled_from(["$", "$$", "$bytes", "$raw", "$$raw", "$tuple", ""])
_FLOATS = st.floats() | st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0])
_LEAVES = (
    st.none() | st.booleans() | st.integers() | _FLOATS | st.text() | st.binary(max_size=20)
    | st.datetimes(timezones=st.just(UTC) | st.none()) | st.dates() | st.times() | st.timedeltas() | st.uuids()
    | st.decimals() | st.fractions() | st.complex_numbers() | st.binary(max_size=9).map(bytearray)
    | st.text(st.characters(categories=["Cs", "Lu"]), max_size=5)
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_KEYS, inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=3)
    ),
    max_leaves=20,
)


@given(_VALUES)
def test_every_value_the_codec_keeps_comes_back_byte_for_byte(value: object) -> None:
    body = encode(value)
    assert from_json(to_json(body)) == body
    assert b'"$raw"' not in to_json(body) or "$raw" in repr(value)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_body_come_back_too(body: bytes) -> None:
    assert from_json(to_json(body)) == body


@given(st.integers(-128, 127), st.binary(max_size=20))
def test_any_extension_comes_back(code: int, data: bytes) -> None:
    body = msgspec.msgpack.encode([Ext(code, data)])
    assert from_json(to_json(body)) == body


def test_text_is_shown_as_text() -> None:
    body = msgspec.msgpack.encode([Append(("messages",), [msgspec.Raw(encode({"role": "user", "content": "Grüße"}))])])
    assert json.loads(to_json(body)) == [[3, ["messages"], [{"role": "user", "content": "Grüße"}]]]
    assert "Grüße".encode() in to_json(body)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\x00\x01", {"$bytes": "AAE="}),
        (math.nan, {"$float": "nan"}),
        (-math.inf, {"$float": "-inf"}),
        ({"$x": 1, "y": 2}, {"$$x": 1, "y": 2}),
        ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
        (10**30, {"$int": "1" + "0" * 30}),
        (
            datetime(2026, 1, 2, tzinfo=ZoneInfo("Europe/Rome")),
            {"$datetime": ["2026-01-02T00:00:00", 0, "Europe/Rome"]},
        ),
        (date(2026, 1, 2), {"$date": "2026-01-02"}),
        (time(3, 4, tzinfo=timezone(timedelta(hours=1))), {"$time": ["03:04:00", 0, [3600000000, None]]}),
        (timedelta(seconds=1), {"$timedelta": "1000000"}),
        (UUID(int=1), {"$uuid": "0" * 31 + "1"}),
        (Decimal("1.50"), {"$decimal": "1.50"}),
        (Fraction(1, 3), {"$fraction": ["1", "3"]}),
        (range(0, 9, 2), {"$range": ["0", "9", "2"]}),
        (PurePosixPath("/tmp/é"), {"$path": ["pure_posix", "/tmp/é"]}),
        ({1: "one"}, {"$mapping": [[1, "one"]]}),
        ({"b", "a"}, {"$set": ["a", "b"]}),
    ],
)
def test_other_types_are_readable(value: object, shown: object) -> None:
    assert json.loads(to_json(encode(value))) == shown
    assert from_json(to_json(encode(value))) == encode(value)


@pytest.mark.parametrize("number", [2**53 + 1, 2**64 - 1, -(2**63), 0, -0.0, 1e16, 1e300, 5e-324, 0.1, 1.0])
def test_numbers_keep_their_type_and_every_digit(number: float) -> None:
    body = encode(number)
    assert from_json(to_json(body)) == body
    assert b"$" not in to_json(body)


def _in_tuple(value: object) -> Ext:
    return Ext(zoo.TUPLE, msgspec.msgpack.encode([value]))


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"$k": value}, _in_tuple])
def test_three_hundred_levels_are_no_problem(wrap: Callable[[object], object]) -> None:
    value: object = "bottom"
    for _ in range(300):
        value = wrap(value)
    body = msgspec.msgpack.encode(value)
    assert from_json(to_json(body)) == body
    assert b"$raw" not in to_json(body)


def test_an_int_too_long_for_decimal_comes_back() -> None:
    body = encode(-(1 << 100_000))
    assert from_json(to_json(body)) == body


def test_an_operation_with_an_empty_path_comes_back() -> None:
    body = msgspec.msgpack.encode([Set((), msgspec.Raw(encode({"a": {"$bytes": 1}})))])
    assert from_json(to_json(body)) == body


@pytest.mark.parametrize("text", [b"", b"{", b'{"$nope":1}', b'{"$bytes":7}', b'{"$int":"x"}', b'{"$ext":3}', b"\xff"])
def test_foreign_text_is_refused(text: bytes) -> None:
    with pytest.raises(CannotRead):
        from_json(text)
