"""What becomes of objects of subclasses that are not registered."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from datetime import datetime, timedelta, timezone
from enum import IntEnum, IntFlag, StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

import perdure
from perdure import sync
from perdure.core.codec import decode, encode
from perdure.core.registry import Registry, register
from perdure.core.subclasses import LOST, plain_base
from perdure.errors import InvalidInputError, UnsupportedValueError


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Number(int): ...


class Share(float): ...


class Data(bytes): ...


class Bag(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return self[name]


class Row(list[Any]): ...


class Pair(tuple[int, int]): ...


class Names(set[str]): ...


class Point(NamedTuple):
    x: int
    y: int


class Level(IntEnum):
    LOW = 1


class Access(IntFlag):
    READ = 1
    WRITE = 2


class Color(StrEnum):
    RED = "red"


class Old(str):
    RED: Old

    def __str__(self) -> str:
        return f"Old.{self.upper()}"


class Moment(datetime): ...


ordered = OrderedDict(b=1, a=2)
ordered.move_to_end("b")
SUBCLASSES = [
    (Text("a"), "a"),
    (Number(1 << 70), 1 << 70),
    (Share(0.5), 0.5),
    (Data(b"a"), b"a"),
    (Bag(a=1), {"a": 1}),
    (Row([1]), [1]),
    (Pair((1, 2)), (1, 2)),
    (Names({"a"}), {"a"}),
    (Point(1, 2), (1, 2)),
    (Level.LOW, 1),
    (Access.READ | Access.WRITE, 3),
    (Color.RED, "red"),
    (Old("red"), "red"),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (ordered, {"a": 2, "b": 1}),
    (Moment(2026, 11, 1, 12, tzinfo=timezone(timedelta(hours=1))), datetime.fromisoformat("2026-11-01T12:00+01:00")),
]


@pytest.mark.parametrize(("value", "plain"), SUBCLASSES, ids=lambda value: type(value).__name__)
def test_a_subclass_is_refused_or_kept_as_its_plain_base(value: Any, plain: Any) -> None:
    with pytest.raises(UnsupportedValueError, match=r"^state\.tools\[1\]: "):
        encode({"tools": [0, value]})
    kept = decode(encode({"tools": [0, value]}, subclasses="plain"))["tools"][1]
    assert (type(kept), kept, repr(kept)) == (type(plain), plain, repr(plain))


def test_what_is_inside_of_a_subclass_and_its_keys_are_plain_too() -> None:
    value = Bag({"a": Row([Text("b")]), Text("c"): {Color.RED: {Level.LOW}}})
    kept = decode(encode(value, subclasses="plain"))
    assert kept == {"a": ["b"], "c": {"red": {1}}}
    assert list(map(type, [*kept, *kept["c"], *kept["c"]["red"], kept["a"][0]])) == [str, str, str, int, str]


def test_a_registered_class_comes_back_as_itself_all_the_same() -> None:
    registry = Registry()
    register(Point, registry=registry)
    register(Color, registry=registry)
    value = {"at": Point(1, 2), Color.RED: Color.RED}
    kept = decode(encode(value, registry=registry, subclasses="plain"), registry=registry)
    assert (type(kept["at"]), kept[Color.RED]) == (Point, Color.RED)


def test_keys_that_would_become_one_are_refused() -> None:
    class Other(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    for value in ({"a": 1, Other("a"): 2}, {"a", Other("a")}):
        with pytest.raises(UnsupportedValueError, match="differ by nothing but their classes"):
            encode({"x": value}, subclasses="plain")


def test_what_has_no_plain_base_is_refused_all_the_same() -> None:
    for value in (object(), lambda: None, Path):
        assert plain_base(value) is LOST
        with pytest.raises(UnsupportedValueError, match=r"state\.x"):
            encode({"x": value}, subclasses="plain")
    loop = Row()
    loop.append(loop)
    with pytest.raises(UnsupportedValueError, match="contains itself"):
        encode({"x": loop}, subclasses="plain")


def test_a_uuid_of_a_driver_is_kept_as_a_uuid() -> None:
    class DriverUUID(UUID): ...

    kept = decode(encode({"id": DriverUUID(int=5)}, subclasses="plain"))["id"]
    assert (type(kept), kept.int) == (UUID, 5)


async def test_the_option_counts_for_one_call_or_for_the_store() -> None:
    async with perdure.Perdure.open("memory://") as store:
        thread = store.thread("t")
        with pytest.raises(UnsupportedValueError, match='subclasses="plain"'):
            await thread.save({"a": Text("a")})
        with pytest.raises(InvalidInputError, match='must be "refuse" or "plain"'):
            await thread.save({}, subclasses="loose")  # type: ignore[arg-type]
        await thread.save({"a": Text("a"), "list": []}, subclasses="plain", key="k")
        await thread.save({"a": Text("a"), "list": []}, subclasses="plain", key="k")
        await thread.update(set={"b": Text("b")}, subclasses="plain")
        await thread.append("list", Bag(c=1), subclasses="plain")
        assert await thread.load() == {"a": "a", "list": [{"c": 1}], "b": "b"}
        for refused in (thread.update(set={"b": Text("b")}), thread.append("list", Text("c"))):
            with pytest.raises(UnsupportedValueError):
                await refused
    with pytest.raises(InvalidInputError, match="subclasses"):
        perdure.Perdure.open("memory://", subclasses="loose")  # type: ignore[arg-type]


async def test_a_store_that_keeps_plain_values_keeps_those_of_its_runs_and_messages() -> None:
    async with perdure.Perdure.open("memory://", subclasses="plain") as store:
        thread = store.thread("t")
        await thread.add_messages({"role": "user", "content": Text("hello")})
        async with thread.run(input=Bag(a=Text("a"))) as run:
            await run.save({"n": Number(1)})
            await run.update(set={"m": Number(2)})
            made = [await run.step("s", lambda: Text("s")), await run.tool("t", lambda: Row([Text("t")]))]
        assert [type(each) for each in (run.input, made[0], made[1][0])] == [dict, str, str]
        assert await thread.load() == {"n": 1, "m": 2}
        with pytest.raises(UnsupportedValueError):
            await thread.save({"a": Text("a")}, subclasses="refuse")


def test_the_synchronous_face_has_the_option_too() -> None:
    with sync.Perdure.open("memory://", subclasses="plain") as store:
        store.thread("t").save({"a": Text("a"), "list": []})
        store.thread("t").append("list", Text("b"))
        assert store.thread("t").load() == {"a": "a", "list": ["b"]}
    with sync.Perdure.open("memory://") as store:
        thread = store.thread("t")
        thread.save({"a": Text("a"), "list": []}, subclasses="plain")
        thread.update(set={"b": Text("b")}, subclasses="plain")
        thread.append("list", Text("c"), subclasses="plain")
        assert thread.load() == {"a": "a", "list": ["c"], "b": "b"}


def test_a_long_list_of_subclasses_grows_by_what_was_added() -> None:
    with sync.Perdure.open("memory://", subclasses="plain") as store:
        thread, rows = store.thread("t"), [Text(str.__str__(f"row {at}")) for at in range(50)]
        for count in (20, 21, 22, 50):
            thread.save({"rows": rows[:count], "n": Number(count)})
            assert thread.load() == {"rows": [f"row {at}" for at in range(count)], "n": count}
