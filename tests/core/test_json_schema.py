"""Our small check of JSON schemas says the same as the library, for schemas that come from types."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from perdure.core.answers import misfit
from perdure.core.json_schema import mismatch
from perdure.runtime.agents.tool import Tool


@dataclass
class Address:
    city: str
    zip: str | None = None


class Node(msgspec.Struct):
    name: str
    below: list[Node] = []


class Order(BaseModel, extra="forbid"):
    item: str = Field(min_length=2, pattern="^[a-z]+$")
    count: int = Field(default=1, ge=1, lt=10)
    to: Address | None = None


class Options(TypedDict, total=False):
    speed: Literal["slow", "fast"]
    on: date


def plain(a: int, b: float = 0, c: str = "", d: bool = False, e: None = None) -> None: ...
def nested(to: Address, tree: Node, order: Order, options: Options) -> None: ...
def many(a: list[int], b: tuple[int, str], c: dict[str, float], d: set[str], e: Literal[1, "x"], f: UUID) -> None: ...
def bounded(
    a: Annotated[int, msgspec.Meta(ge=0, multiple_of=5)],
    b: Annotated[str, msgspec.Meta(max_length=3)],
    c: Annotated[list[int], msgspec.Meta(min_length=1, max_length=2)],
) -> None: ...
def anything(a: Any, b: int | str | list[Address] = 0) -> None: ...


SCHEMAS: list[Mapping[str, Any]] = [Tool(each).parameters.schema for each in (plain, nested, many, bounded, anything)]
WORDS = st.sampled_from(
    [*"abcdef", "to", "tree", "order", "options", "city", "zip", "name", "below", "item", "count", "speed", "on"]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 12), st.floats(-3, 12), st.just(5.0),
    st.sampled_from(["", "x", "ab", "abcd", "AB", "fast", "slow", "2026-11-01", "2026-13-01", str(UUID(int=7))]),
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=6))


@st.composite
def near(draw: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """A value that mostly fits."""
    schema = root.get("$defs", {}).get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), schema)
    if draw(st.integers(0, 11)) == 0:
        return draw(VALUES)
    if schema.get("type") == "object" and "properties" in schema:
        wanted = [name for name in schema["properties"] if name in schema.get("required", ()) or draw(st.booleans())]
        return {name: draw(near(schema["properties"][name], root)) for name in wanted}
    if "anyOf" in schema:
        return draw(near(draw(st.sampled_from(schema["anyOf"])), root))
    if "prefixItems" in schema:
        return [draw(near(each, root)) for each in schema["prefixItems"]]
    if schema.get("type") == "array":
        return [draw(near(schema.get("items", {}), root)) for _ in range(draw(st.integers(0, 2)))]
    return draw(LEAVES)


@pytest.mark.parametrize("schema", SCHEMAS, ids=[each.__name__ for each in (plain, nested, many, bounded, anything)])
@given(data=st.data())
def test_it_accepts_what_the_library_accepts_and_nothing_else(schema: Any, data: Any) -> None:
    value = data.draw(near(schema, schema) | VALUES)
    assert (mismatch(schema, value, "args") is None) == (misfit(schema, value, "args") is None)


def test_it_names_the_place_and_what_was_expected() -> None:
    schema = Tool(nested).parameters.schema
    given = {"to": {"city": 5}, "tree": {"name": "a", "below": [{"name": None}]}, "order": {"item": "x"}, "options": {}}
    told = mismatch(schema, given, "args")
    assert told == misfit(schema, given, "args")
    assert "args.to.city: 5 is not of type 'string'; args.tree.below[0].name: None is not of type 'string'" in str(told)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"$ref": "#/$defs/gone"}, {"minimum": "x"},
        {"pattern": "("}, {"required": 5}, {"properties": []}, {"anyOf": 7}, {"enum": None}, {"type": 5},
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_told_and_nothing_else_is_raised(schema: Any) -> None:
    for value in (1, "text", {"a": 1}, [1]):
        told = mismatch(schema, value, "args")
        assert told is None or "args" in told


WITHOUT_FORMS = """
import asyncio, sys
sys.modules["jsonschema"] = sys.modules["referencing"] = None
import perdure
from perdure.errors import InvalidAnswerError, MissingExtraError

@perdure.tool(require_approval=True)
async def refund(amount: int) -> str:
    return f"refunded {amount}"

async def main():
    async with perdure.Perdure.open("memory://") as store:
        agent = store.agent("a", model=perdure.ScriptedModel([("refund", {"amount": 5}), "done"]), tools=[refund])
        waits = await agent.run("go", thread="t")
        try:
            await store.decide(waits.pauses[0], approved=True, by="ann", args={"amount": "much"})
        except InvalidAnswerError as error:
            print(error)
        await store.decide(waits.pauses[0], approved=True, by="ann", args={"amount": 4})
        print((await agent.resume("t")).messages[2]["content"])
        try:
            async with store.thread("u").run() as run:
                await run.pause("where", ask="Where?", expects={"type": "object"})
        except MissingExtraError as error:
            print(error)

asyncio.run(main())
"""


def test_tools_are_approved_with_other_arguments_without_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_FORMS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused, ran, forms = done.stdout.splitlines()
    assert "args.amount: 'much' is not of type 'integer'" in refused
    assert (ran, "perdure[forms]" in forms) == ("refunded 4", True)
