"""Texts with places for values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.record import Record
from perdure.core.templates import filled


class Sly:
    """A value that tells when somebody looks into it."""

    secret = "hunter2"

    def __str__(self) -> str:
        raise AssertionError("was asked")

    __format__ = __repr__ = __str__  # type: ignore[assignment]


def test_a_prompt_names_the_arguments_of_its_tool() -> None:
    """N4: `approval_prompt`."""
    assert filled("Execute: {command}?", {"command": "rm -r build"}) == "Execute: rm -r build?"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ä {b}", "ä {b}"), (3, "3"), (2.5, "2.5"), (True, "true"), (None, "null"), (Decimal("1.50"), "1.50"),
        (datetime(2026, 11, 1, 12, tzinfo=UTC), "2026-11-01T12:00:00+00:00"), (PurePosixPath("/a/b"), "/a/b"),
        ({"a": [1, "x"]}, '{"a":[1,"x"]}'), (b"\x00", '{"$bytes":"AA=="}'), ("\ud800", "?"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_values_are_written_as_people_read_them(value: Any, text: str) -> None:
    assert filled("{a}", {"a": value, "b": "not again"}) == text


def test_paths_lead_into_mappings_lists_and_records() -> None:
    values = {"args": {"env": "prod", "files": ["a.py", "b.py"], "who": Record("User", {"name": "Ann"})}}
    assert filled("{args.env} {args.files.1} {args.who.name}", values) == "prod b.py Ann"


@pytest.mark.parametrize(
    "place",
    [
        "{b}", "{a.x}", "{a.0.y}", "{a.__class__}", "{a.files.7}", "{a.files.-1}", "{a!r}", "{a:>999999999}", "{}",
        "{0}", "{a[files]}", "{ a }", "{a.}", "{a.files." + "9" * 5000 + "}", "{", "}", "{a", "{a.files.__len__}", "{{",
        "{a.n.real}",
    ],
)  # fmt: skip
def test_what_is_no_name_of_a_value_stays_visible(place: str) -> None:
    assert filled(f"<{place}>", {"a": {"files": ["a"], "n": 1}}) == f"<{place}>"


def test_doubled_braces_stand_for_themselves() -> None:
    assert filled("{{a}} is {a}", {"a": 1}) == "{a} is 1"


def test_nothing_of_an_object_is_called_or_reached() -> None:
    assert filled("{a.secret} {a.__class__} {a.b}", {"a": Sly()}) == "{a.secret} {a.__class__} {a.b}"
    assert filled("{a}", {"a": Sly}) == '"<type>"'
    assert Sly.__name__ in filled("{a}", {"a": Sly()})


def test_a_long_value_is_cut_and_says_so() -> None:
    assert filled("{a}!", {"a": "x" * 1010}, longest=10) == "xxxxxxxxxx… (1,000 more characters)!"


def test_an_int_of_any_size_is_written() -> None:
    assert len(filled("{a}", {"a": 10**20_000})) > 5000


@given(st.text(), st.dictionaries(st.text(max_size=3), st.recursive(st.text() | st.integers(), st.lists)))
def test_no_template_and_no_values_fail(template: str, values: dict[str, Any]) -> None:
    assert isinstance(filled(template, values), str)


@given(st.text())
def test_a_value_arrives_as_it_is(value: str) -> None:
    expected = value.encode("utf-8", "replace").decode()
    assert filled("<{a}>", {"a": value}) == f"<{expected}>"
