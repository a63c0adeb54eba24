"""Forms on a terminal, as rules."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from perdure.cli.forms import ABSENT, Unreadable, fields_of, read, whole
from perdure.core.answers import expects_of


class Size(msgspec.Struct, frozen=True):
    cpu: int = 1


class Rollout(msgspec.Struct, kw_only=True):
    """Where to, and how much."""

    size: Size = Size()
    region: Literal["eu", "us"]
    replicas: int
    share: float = 0.5
    dry: bool = False
    note: str | None = None


SCHEMA = expects_of(Rollout).form
FIELDS = {field.name: field for field in fields_of(SCHEMA)}


def test_what_is_needed_comes_first_with_its_type_and_default() -> None:
    assert list(FIELDS) == [
        "region",
        "replicas",
        *(name for name in SCHEMA["properties"] if name not in ("region", "replicas")),
    ]
    assert {name: field.hint for name, field in FIELDS.items()} == {
        "region": "one of eu, us",
        "replicas": "whole number",
        "dry": "yes or no",
        "note": "text or null",
        "share": "number",
        "size": "JSON",
    }
    assert (FIELDS["replicas"].default, FIELDS["share"].default) == (ABSENT, 0.5)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("region", " us ", "us"),
        ("replicas", "3", 3),
        ("dry", "Yes", True),
        ("dry", "false", False),
        ("note", "12", "12"),
        ("note", "null", None),
        ("share", "", 0.5),
        ("size", '{"cpu": 4}', {"cpu": 4}),
    ],
)
def test_what_is_typed_becomes_a_value_of_its_type(name: str, text: str, value: Any) -> None:
    assert read(FIELDS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("region", "mars", "region: one of eu, us, not 'mars'"),
        ("replicas", "", "replicas is needed: whole number"),
        ("replicas", "many", "replicas: whole number, not 'many'"),
        ("replicas", "1.5", "replicas: 1.5 is not of type 'integer'"),
        ("size", '{"cpu": "x"}', "size.cpu: 'x' is not of type 'integer'"),
    ],
)
def test_what_does_not_fit_is_told_with_what_does(name: str, text: str, said: str) -> None:
    with pytest.raises(Unreadable) as raised:
        read(FIELDS[name], text)
    assert str(raised.value) == said


def test_an_answer_that_is_one_value_is_asked_for_as_one() -> None:
    schema = expects_of({"type": "integer", "minimum": 2, "description": "How  many"}).form
    assert (fields_of(schema), whole(schema).hint) == ([], "whole number; How many")
    with pytest.raises(Unreadable, match="1 is less than the minimum of 2"):
        read(whole(schema), "1")


def test_definitions_that_refer_to_each_other_end() -> None:
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert fields_of(loop) == []
