"""Functions as a model is told of them, and what it gives as they take it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest

from perdure import Tool, tool
from perdure.errors import InvalidInputError
from perdure.runtime.agents.tool import tools_of


@dataclasses.dataclass
class Place:
    city: str
    country: str = "FR"


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(gt=0)


@tool
def book(
    place: Place,
    kind: Literal["train", "plane"],
    when: date | None = None,
    tags: list[str] = [],  # noqa: B006
    counts: dict[str, int] | None = None,
    seats: Annotated[int, "how many"] = 1,
    run: Any = None,
    idempotency_key: str = "",
) -> str:
    """Book a journey.

    It cannot be undone.

    Args:
        place: where to go
        kind (str): by what
    Returns:
        A number.
    """
    return f"{place} {kind} {when} {tags} {seats}"


def test_a_tool_is_called_like_the_function_it_is() -> None:
    assert book(Place("Rome"), "train", seats=2) == "Place(city='Rome', country='FR') train None [] 2"
    assert (book.name, book.__name__, book.__doc__ is not None) == ("book", "book", True)


def test_a_model_is_told_of_parameters_by_annotations_and_docstring() -> None:
    schema = book.schema
    assert (schema.name, schema.description) == ("book", "Book a journey.\n\nIt cannot be undone.")
    properties = schema.parameters["properties"]
    assert list(properties) == ["place", "kind", "when", "tags", "counts", "seats"]
    assert (properties["kind"], schema.parameters["required"]) == (
        *({"enum": ["plane", "train"], "description": "by what"}, ["place", "kind"]),
    )
    assert properties["seats"] == {"type": "integer", "description": "how many", "default": 1}
    assert schema.parameters["additionalProperties"] is False
    assert schema.parameters["$defs"]["Place"]["required"] == ["city"]


def test_arguments_are_converted_to_what_the_function_takes() -> None:
    given = {"place": {"city": "Rome"}, "kind": "train", "when": "2026-11-01", "tags": ["a"]}
    converted = {"place": Place("Rome"), "kind": "train", "when": date(2026, 11, 1), "tags": ["a"]}
    assert book.parameters.convert(given) == converted


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"place": {"city": 1}, "kind": "train"}, "Expected `str`, got `int` - at `$.place.city`"),
        ({"place": {"city": "Rome"}, "kind": "car"}, "Invalid enum value 'car' - at `$.kind`"),
        ({"kind": "train"}, "missing required field `place`"),
        ({"place": {"city": "Rome"}, "kind": "train", "run": 1}, "unknown field `run`"),
        ([], "must be a JSON object"),
        (None, "must be a JSON object"),
    ],
)
def test_wrong_arguments_are_named(wrong: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said.replace("$", r"\$")):
        book.parameters.convert(wrong)


def test_pydantic_models_are_parameters_too() -> None:
    @tool
    def cancel(order: Order) -> None: ...

    assert cancel.schema.parameters["properties"]["order"]["properties"]["number"]["exclusiveMinimum"] == 0
    assert cancel.parameters.convert({"order": {"number": 7}}) == {"order": Order(number=7)}
    with pytest.raises(InvalidInputError, match="greater than 0"):
        cancel.parameters.convert({"order": {"number": -1}})


def test_parameters_without_annotations_take_anything() -> None:
    def echo(what, times=2): ...  # type: ignore[no-untyped-def]

    made = tool(name="say-it")(echo)
    assert (made.name, made.schema.parameters["properties"]) == ("say-it", {"what": {}, "times": {"default": 2}})
    assert made.parameters.convert({"what": [1, {}]}) == {"what": [1, {}]}


def _starred(*all: str) -> None: ...
def _named(**all: str) -> None: ...
def _by_place(one: int, /) -> None: ...
def _complex(one: Callable[[], None]) -> None: ...
def _unreadable(one: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037


def _pieces() -> Any:
    yield 1


async def _pieces_later() -> Any:
    yield 1


class Greeter:
    def __call__(self, name: str) -> str:
        """Greet somebody."""
        return f"hello {name}"


@pytest.mark.parametrize("made", [Tool(functools.partial(book.function, kind="train")), Tool(Greeter())])
def test_partial_functions_and_callable_objects_are_tools_by_what_they_call(made: Tool) -> None:
    assert (made.name, made.description[:5].strip()) in [("book", "Book"), ("Greeter", "Greet")]
    first = next(iter(made.schema.parameters["properties"].values()))
    assert first in [{"$ref": "#/$defs/Place", "description": "where to go"}, {"type": "string"}]


@pytest.mark.parametrize(
    "function", [_pieces, _pieces_later, _starred, _named, _by_place, _complex, _unreadable, lambda: None, 7]
)
def test_what_cannot_be_a_tool_is_refused_at_once(function: Any) -> None:
    with pytest.raises(InvalidInputError):
        Tool(function)


def test_a_plain_function_with_a_timeout_is_refused_because_nothing_could_stop_it() -> None:
    with pytest.raises(InvalidInputError, match=r"'pay': a plain function cannot be stopped .* make it async"):

        @tool(timeout=1)
        def pay() -> None: ...

    @tool(timeout=1)
    async def pays() -> None: ...


class Shop:
    def __init__(self) -> None:
        self.sold: list[int] = []

    @tool(require_approval=True)
    def sell(self, amount: int) -> int:
        """Sell so many."""
        self.sold.append(amount)
        return amount


def test_a_method_is_a_tool_of_its_object_and_self_is_nothing_that_a_model_gives() -> None:
    shop, other = Shop(), Shop()
    made = shop.sell
    assert list(made.schema.parameters["properties"]) == ["amount"]
    assert (made.name, made.description, made.options.require_approval) == ("sell", "Sell so many.", True)
    assert (made(3), tool(shop.sell.function)(4), shop.sold, other.sold) == (3, 4, [3, 4], [])
    with pytest.raises(InvalidInputError, match=r"tool 'sell' is a method of a class.*tools=\[it\.sell\]"):
        tools_of([Shop.sell])


@pytest.mark.parametrize(("given", "taken"), [(3.0, 3), (-0.0, 0), (3, 3)])
def test_a_whole_number_is_an_int_however_json_writes_it(given: float, taken: int) -> None:
    @tool
    def add(n: int, weight: float, more: list[int], rest: Any = None) -> None: ...

    args = {"n": given, "weight": 2.0, "more": [1.0, 2]}
    taken_as = add.parameters.convert(args)
    assert taken_as == {"n": taken, "weight": 2.0, "more": [1, 2]}
    assert [type(each) for each in (taken_as["n"], taken_as["weight"], *taken_as["more"])] == [int, float, int, int]
    assert add.parameters.convert({"n": 1, "weight": 1, "more": [], "rest": 3.0})["rest"] == 3.0
    with pytest.raises(InvalidInputError, match=r"Expected `int`, got `float` - at `\$\.n`"):
        add.parameters.convert({**args, "n": 3.5})
