"""Values of many types: exactly the same type and value comes back, after the database was opened again."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import enum
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

from perdure.testing.langgraph.bench import Bench
from perdure.testing.langgraph.examining import Check, each_of, group
from perdure.testing.langgraph.making import at, put
from perdure.testing.langgraph.same import difference


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass
class Line:
    start: Point
    end: Point
    more: list[Point] = field(default_factory=list)


@dataclass(frozen=True)
class Picture:
    """Fields of types that a plain encoder flattens."""

    size: tuple[int, int]
    tags: frozenset[str] = frozenset()
    drawn: datetime | None = None
    places: dict[int, Point] = field(default_factory=dict)


class Colour(enum.Enum):
    RED = "red"
    BLUE = ("b", 1)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    street: str
    code: Decimal | None = None


class Person(BaseModel):
    name: str
    born: datetime | None = None
    homes: list[Address] = []
    tags: set[str] = set()
    pair: tuple[int, int] = (0, 0)


TYPES = (Point, Line, Picture, Colour, Level, Address, Person)
"""The types that a saver has to be told of before it meets them."""

NOON = datetime(2026, 3, 4, 12, 30, 15, 250001)  # noqa: DTZ001 - one without a zone has to come back without
CALL = {"name": "look", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}

# Made when asked for: some messages get an id of their own when they are made.
PLAIN: dict[str, Callable[[], Any]] = {
    "tuple": lambda: (1, ("x", ())),
    "set": lambda: {1, "x"},
    "set of tuples": lambda: {(1, 2), (3,)},
    "frozenset": lambda: frozenset({1, "x"}),
    "datetime": lambda: NOON,
    "datetime in UTC": lambda: NOON.replace(tzinfo=UTC),
    "datetime with an offset": lambda: NOON.replace(tzinfo=timezone(timedelta(hours=5, minutes=45))),
    "datetime in a named zone": lambda: NOON.replace(tzinfo=ZoneInfo("Europe/Rome")),
    "date": lambda: date(2026, 2, 28),
    "time": lambda: time(23, 59, 1, 5),
    "time with an offset": lambda: time(23, 59, tzinfo=timezone(timedelta(hours=-3))),
    "timedelta": lambda: timedelta(days=-3, seconds=5, microseconds=7),
    "UUID": lambda: uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "Decimal": lambda: [Decimal("1.10"), Decimal("-0"), Decimal("1E+400"), Decimal("Infinity")],
    "bytes": lambda: b"\x00\xff text",
    "bytearray": lambda: bytearray(b"\x00\xff"),
    "PurePosixPath": lambda: PurePosixPath("/a/b c.txt"),
    "complex": lambda: complex(1.5, -0.0),
    "int over 64 bits": lambda: [2**63, 2**64, -(2**100)],
    "NaN": lambda: float("nan"),
    "infinity": lambda: [float("inf"), float("-inf")],
    "negative nought": lambda: -0.0,
    "int that is a float": lambda: [1, 1.0, True],
    "str with NUL": lambda: "a\x00b",
    "str with a lone surrogate": lambda: "a\ud800b",
    "str beyond the BMP": lambda: "🙂 e\u0301",
    "int keys": lambda: {1: "one", -2: "two"},
    "keys of other types": lambda: {(1, "x"): 1, None: 2, True: 3, 1.5: 4},
    "a long str": lambda: "long " * 50_000,
    "8 MB of bytes": lambda: b"\x01\xfe" * 4_000_000,
    "deeply nested": lambda: _nested(60),
    "deque": lambda: deque([1, "x"]),
    "deque with a maximum": lambda: deque([1, 2], maxlen=2),
}
REGISTERED: dict[str, Callable[[], Any]] = {
    "dataclass": lambda: Point(1, -0.0),
    "nested dataclass": lambda: Line(Point(1), Point(2), [Point(3)]),
    "dataclass of odd types": lambda: Picture((1, 2), frozenset({"a"}), NOON, {1: Point(3)}),
    "enum": lambda: Colour.RED,
    "enum of a tuple": lambda: Colour.BLUE,
    "int enum": lambda: Level.HIGH,
    "enum as a key": lambda: {Colour.RED: 1},
    "pydantic model": lambda: Person(name="Ada", tags={"x"}, pair=(1, 2)),
    "nested pydantic model": lambda: Person(name="A", born=NOON, homes=[Address(street="s", code=Decimal("1.0"))]),
}
LANGCHAIN: dict[str, Callable[[], Any]] = {
    "HumanMessage": lambda: HumanMessage("hi", id="m1", name="ada"),
    "HumanMessage of blocks": lambda: HumanMessage([{"type": "text", "text": "x"}, "y"], id="m1"),
    "AIMessage": lambda: AIMessage("ok", id="m2", response_metadata={"model": "x", "n": 1}),
    "AIMessage with calls": lambda: AIMessage(
        "", id="m3", tool_calls=[CALL], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    ),
    "AIMessage with an invalid call": lambda: AIMessage(
        "",
        id="m4",
        invalid_tool_calls=[{"name": "x", "args": "{", "id": "1", "error": "e", "type": "invalid_tool_call"}],
    ),
    "AIMessage with a tuple inside": lambda: AIMessage("", id="m5", additional_kwargs={"logprobs": (("a", -0.1),)}),
    "AIMessageChunk": lambda: AIMessageChunk("o", id="m6"),
    "SystemMessage": lambda: SystemMessage("be", id="m7"),
    "ToolMessage": lambda: ToolMessage("42", tool_call_id="c1", name="look", id="m8", status="error"),
    "ToolMessage with an artifact": lambda: ToolMessage("x", tool_call_id="c", id="m9", artifact={"rows": [1, None]}),
    "ToolMessage with an object": lambda: ToolMessage("x", tool_call_id="c", id="m10", artifact=Point(1)),
    "FunctionMessage": lambda: FunctionMessage("x", name="f", id="m11"),
    "ChatMessage": lambda: ChatMessage("x", role="critic", id="m12"),
    "RemoveMessage": lambda: RemoveMessage(id="m1"),
    "Document": lambda: Document("text", metadata={"page": 3}, id="d1"),
    "Send": lambda: Send("node", {"x": [1, "y"]}),
    "Send with a tuple": lambda: Send("node", (1, 2)),
    "Interrupt": lambda: Interrupt(value={"ask": "?"}, id="i1"),
}


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for n in range(depth):
        value = [value] if n % 2 else {"in": value}
    return value


async def comes_back(bench: Bench, make: Callable[[], Any]) -> None:
    """As a channel, deep inside one, and as a pending write."""
    given = {"value": make(), "deep": {"list": [make(), {"key": make()}]}}
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), given)
        await saver.put_writes(saved, [("value", make())], "task", "~p")
    async with bench.saver() as saver:
        found = await saver.get(saved)
    values = found.checkpoint["channel_values"]
    pairs = [(each, values.get(name), name) for name, each in given.items()] + [
        (make(), found.pending_writes[0][2], "write")
    ]
    wrong = next((far for one, two, where in pairs if (far := difference(one, two, where))), None)
    assert wrong is None, wrong


async def which_fields_of_a_pydantic_model_were_set(bench: Bench) -> None:
    """`model_dump(exclude_unset=True)` depends on it."""
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"value": Person(name="Ada")})
        found = (await saver.get(saved)).checkpoint["channel_values"]["value"].model_fields_set
    assert found == {"name"}, f"set: {sorted(found)}"


CHECKS: tuple[Check, ...] = (
    *each_of("types", comes_back, PLAIN),
    *each_of("types", comes_back, REGISTERED),
    *group("types", which_fields_of_a_pydantic_model_were_set),
    *each_of("types of LangChain", comes_back, LANGCHAIN),
)
