"""What goes in comes out, of exactly the same type, or is refused with its path."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import math
import sys
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.codec import decode, decode_tagged, encode, encode_result
from perdure.core.errors import (
    CyclicValueError,
    InvalidInputError,
    NestingTooDeepError,
    UnknownTypeError,
    UnsupportedValueError,
    ValueDamagedError,
)
from perdure.core.message import Message
from perdure.core.record import Record
from perdure.core.registry import Registry, register

ZOO = [
    None, True, 1, 1.0, -0.0, math.inf, "", "text", "\0", "\ud800", b"", b"\xff", bytearray(b"x"), 2**63, -(2**63),
    2**64, 10**200,
    -(10**200), (), (1, (2, [3])), set(), {1, "a", (2,)}, frozenset({frozenset({1}), b"x"}), [], {}, {"": {}},
    {1: "a", False: "b"}, {None: 1, (1, 2): 2}, {"\udfff": 1}, datetime(2026, 11, 1), datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
    datetime(1, 1, 1, microsecond=1, tzinfo=timezone(timedelta(hours=-5, seconds=1), "EST")), datetime.max,
    date(2026, 11, 1), time(1, 2, 3, 4), time(tzinfo=UTC), timedelta(days=-1, microseconds=1), timedelta.max,
    uuid.UUID(int=7), Decimal("1.10"), Decimal("-0"), Decimal("NaN123"), Decimal("1E+400"), Fraction(-1, 3), 1 - 2j,
    range(1, 10, 3), range(10**30, 0, -1), Path("a/b"), PurePosixPath("/x"), PureWindowsPath(r"C:\x"),
]  # fmt: skip


@pytest.mark.parametrize("value", ZOO, ids=lambda value: type(value).__name__)
def test_every_type_comes_back_exactly(value: Any) -> None:
    for shape in (value, [value], {"k": [{"v": value}]}, (value,)):
        back = decode(encode(shape))
        assert type(back) is type(shape)
        assert encode(back) == encode(shape)
        assert back == shape or "NaN" in repr(shape)


def test_nan_comes_back_as_nan() -> None:
    assert math.isnan(decode(encode({"v": math.nan}))["v"])


def test_equal_sets_have_equal_bytes() -> None:
    assert encode({"b", "a", "c"}) == encode({"c", "b", "a"})


def test_values_that_python_takes_for_equal_have_different_bytes() -> None:
    assert len({encode(value) for value in (1, 1.0, True, (1,), [1], {1}, "1", b"1", Decimal(1), Fraction(1))}) == 10


@dataclasses.dataclass
class Point:
    x: int
    y: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    name: str
    made: int = dataclasses.field(init=False, default=3)


class Colour(enum.Enum):
    RED = "r"


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 1
    b: tuple[int, ...] = ()
    _secret: str = pydantic.PrivateAttr(default="s")


class Struct(msgspec.Struct):
    a: int
    b: Any = None


class Pair(NamedTuple):
    one: int
    two: Any


OBJECTS = [Point(1, [(2,)]), Sealed("n"), Colour.RED, Model(a=2, b=(1,), c={"d": {1}}), Struct(1, {2}), Pair(1, [2])]


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    for cls in (Point, Sealed, Colour, Model, Struct, Pair):
        register(cls, registry=made)
    return made


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_objects_of_registered_classes_come_back(value: Any, registry: Registry) -> None:
    back = decode(encode({"o": [value]}, registry=registry), registry=registry)["o"][0]
    assert type(back) is type(value)
    assert back == value


def test_a_pydantic_model_keeps_what_was_set_and_what_is_private(registry: Registry) -> None:
    model = Model(a=2)
    model._secret = "other"
    back = decode(encode(model, registry=registry), registry=registry)
    assert (back.model_fields_set, back._secret) == ({"a"}, "other")


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_objects_of_unknown_classes_are_refused_with_path_and_remedy(value: Any) -> None:
    with pytest.raises(UnsupportedValueError) as caught:
        encode({"tools": [0, {"client": value}]}, registry=Registry())
    assert caught.value.path == "state.tools[1].client"
    assert f"perdure.register({type(value).__qualname__})" in str(caught.value)


def test_a_subclass_that_would_be_flattened_is_refused() -> None:
    for value in (collections.OrderedDict(a=1), collections.defaultdict(int), type("S", (str,), {})("x"), Colour):
        with pytest.raises(UnsupportedValueError, match=r"state\.v"):
            encode({"v": value})


def test_a_step_result_of_an_unknown_class_comes_back_as_a_record() -> None:
    back = decode(encode_result([Point(1, [2])]))[0]
    assert isinstance(back, Record)
    assert (back.x, back["y"], back) == (1, [2], {"x": 1, "y": [2]})


def test_stored_objects_can_be_read_without_their_class(registry: Registry) -> None:
    data = encode({"p": Point(1)}, registry=registry)
    assert decode_tagged(data) == {"p": {"x": 1, "y": []}}
    with pytest.raises(UnknownTypeError, match=r"perdure\.register\(YourClass, tag='Point'\)"):
        decode(data, registry=Registry())


def test_an_old_version_is_brought_up_step_by_step() -> None:
    old, new = Registry(), Registry()
    register(Point, tag="point", version=1, registry=old)
    steps = {1: lambda fields: {"x": fields["x"] * 10}, 2: lambda fields: {**fields, "y": ["new"]}}
    register(Point, tag="point", version=3, upcast=steps, registry=new)
    assert decode(encode(Point(1), registry=old), registry=new) == Point(10, ["new"])
    with pytest.raises(InvalidInputError, match="newer than the registered"):
        decode(encode(Point(1), registry=new), registry=old)


def test_a_missing_upcast_says_what_to_add() -> None:
    old, new = Registry(), Registry()
    register(Point, tag="point", registry=old)
    register(Point, tag="point", version=2, registry=new)
    with pytest.raises(InvalidInputError, match="upcast=\\{1: function_from_1_to_2\\}"):
        decode(encode(Point(1), registry=old), registry=new)


def test_one_tag_belongs_to_one_class() -> None:
    registry = Registry()
    register(Point, tag="p", registry=registry)
    with pytest.raises(InvalidInputError, match="belongs to Point"):
        register(Struct, tag="p", registry=registry)


def test_a_module_registers_its_classes() -> None:
    registry = Registry()
    register(sys.modules[__name__], registry=registry)
    assert registry.of(Point) is not None
    assert registry.of(Colour) is not None
    assert registry.of(Message) is None


def test_a_message_is_frozen_and_comes_back() -> None:
    message = Message("user", "hi", [{"name": "f"}], {"tags": ["a"]})
    with pytest.raises(TypeError):
        message.metadata["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        message.metadata["tags"].append("b")
    assert decode(encode([message])) == [message]


def _nested(depth: int, kind: type) -> Any:
    value: Any = kind()
    for _ in range(depth):
        value = {"a": value} if kind is dict else kind((value,))
    return value


@pytest.mark.parametrize("kind", [list, dict, tuple])
@pytest.mark.parametrize("depth", [50, 99])
def test_reasonable_nesting_comes_back(kind: type, depth: int) -> None:
    value = _nested(depth, kind)
    assert decode(encode(value)) == value


@pytest.mark.parametrize("kind", [list, dict, tuple])
def test_absurd_nesting_is_refused_without_a_recursion_error(kind: type) -> None:
    with pytest.raises(NestingTooDeepError):
        encode({"v": _nested(100_000, kind)})


def test_a_cycle_is_refused_with_its_path() -> None:
    cycle: dict[str, Any] = {"a": [1]}
    cycle["a"].append(cycle)
    with pytest.raises(CyclicValueError) as caught:
        encode(cycle)
    assert caught.value.path == "state.a[1]"


def test_a_value_that_unfolds_without_end_is_refused() -> None:
    bomb: list[Any] = []
    for _ in range(60):
        bomb = [bomb, bomb]
    with pytest.raises(UnsupportedValueError):
        encode(bomb)


def test_a_million_keys_come_back() -> None:
    value = {f"k{n}": n for n in range(1_000_000)}
    assert decode(encode(value)) == value


@given(st.binary(max_size=60))
def test_bytes_that_are_not_ours_are_refused_and_never_run(data: bytes) -> None:
    with contextlib.suppress(ValueDamagedError, InvalidInputError):
        decode(data)
