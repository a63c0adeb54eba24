"""Two states, compared: every changed path, and a patch that leads from one to the other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core.codec import encode
from perdure.core.comparison import Comparison, Side, compare
from perdure.core.diff import MISSING
from perdure.core.json_patch import rendered
from perdure.core.record import Record
from perdure.core.registry import Registry, register
from tests.core.patching import applied

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=2)
    | st.sampled_from(
        ["a longer text that was edited", "a longer text that is edited", datetime(2026, 1, 1, tzinfo=UTC)]
    )
)
keys = st.sampled_from(["a", "b", "id", "$c", "d/e", "~", "", "messages"])
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=16,
)


def found(old: Any, new: Any) -> Comparison:
    return compare(Side(encoded=Raw(encode(old))), Side(encoded=Raw(encode(new))))


def paths(old: Any, new: Any) -> list[str]:
    return list(map(str, found(old, new).differences))


def exact(value: Any) -> bytes:
    """Type-exact, blind to the order of the keys of dicts that are not inside a tuple, as a state is."""
    return encode(_ordered(value))


def _ordered(value: Any) -> Any:
    if type(value) is dict:
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if type(value) is list else value


def shown(value: Any) -> Any:
    return rendered(Raw(encode(value)))


@given(trees, trees)
def test_the_patch_leads_from_the_old_state_to_the_new_one(old: Any, new: Any) -> None:
    patch = json.loads(json.dumps(found(old, new).patch(), allow_nan=False))
    assert json.dumps(applied(shown(old), patch), sort_keys=True) == json.dumps(shown(new), sort_keys=True)


@given(trees, trees)
def test_there_are_differences_exactly_when_the_states_differ(old: Any, new: Any) -> None:
    comparison = found(old, new)
    assert comparison.equal == (not comparison.differences) == (exact(old) == exact(new))
    assert found(old, old).differences == []


@given(trees, st.data())
def test_a_patch_of_an_edited_state_is_right_too(old: Any, data: st.DataObject) -> None:
    new = data.draw(edited(old))
    patch = found(old, new).patch()
    assert json.dumps(applied(shown(old), patch), sort_keys=True) == json.dumps(shown(new), sort_keys=True)


def edited(value: Any) -> st.SearchStrategy[Any]:
    """The value with parts of it changed, moved, doubled and dropped."""
    if type(value) is list and value:
        kept = st.lists(st.sampled_from(range(len(value))), max_size=len(value) + 2)
        return kept.flatmap(lambda order: st.tuples(*(edited(value[at]) for at in order)).map(list))
    if type(value) is dict and value:
        names = st.lists(st.sampled_from(sorted(value)), unique=True)
        return names.flatmap(lambda order: st.fixed_dictionaries({name: edited(value[name]) for name in order}))
    return st.just(value) | leaves


@given(trees, trees)
def test_text_and_data_can_be_made_of_any_comparison(old: Any, new: Any) -> None:
    comparison = found(old, new)
    assert json.loads(json.dumps(comparison.data(), allow_nan=False)) == comparison.data()
    assert all(line.isprintable() for line in comparison.text().splitlines())


def test_a_changed_path_has_its_old_and_its_new_value() -> None:
    """S1.19, S1.20."""
    old = {"status": "open", "context": {"city": "Paris", "days": 3}, "gone": 1}
    new = {"status": "open", "context": {"city": "Rome", "days": 3}, "new": [1]}
    comparison = found(old, new)
    assert [(each.path, each.old, each.new) for each in comparison.differences] == [
        ("context.city", "Paris", "Rome"),
        ("gone", 1, MISSING),
        ("new", MISSING, [1]),
    ]
    assert comparison.changed_fields == ["context", "gone", "new"]


def test_one_message_in_the_middle_of_a_thousand_is_one_difference() -> None:
    messages = [{"role": "user", "content": f"message {at}"} for at in range(1000)]
    new = [*messages[:500], {"role": "tool", "content": "found it"}, *messages[500:]]
    assert paths({"messages": messages}, {"messages": new}) == [
        "messages[500:500]: [] -> [{'role': 'tool', 'content': 'found it'}]"
    ]
    assert [row.kind for row in found({"messages": messages}, {"messages": new}).messages].count("same") == 1000


def test_an_edit_after_an_insertion_has_the_path_of_the_old_state() -> None:
    old = {"messages": [{"role": "user", "content": "hello, who is there?"}, {"role": "ai", "content": "me"}]}
    new = {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello, who are you?"}]}
    assert paths(old, new) == [
        "messages[0:0]: [] -> [{'role': 'system', 'content': 'be brief'}]",
        "messages[0].content: 'hello, who is there?' -> 'hello, who are you?'",
        "messages[1:2]: [{'role': 'ai', 'content': 'me'}] -> []",
    ]
    assert applied(old, found(old, new).patch()) == new


def test_types_are_compared_exactly_and_the_order_of_keys_is_not() -> None:
    assert paths({"n": 1}, {"n": True}) == ["n: 1 -> True"]
    assert paths({"n": 1}, {"n": 1.0}) == ["n: 1 -> 1.0"]
    one, other = {"x": 1, "y": 2}, {"y": 2, "x": 1}
    assert paths({"a": [one]}, {"a": [other]}) == []
    assert paths({"a": [one, other, [one]]}, {"a": [other, one, [other]]}) == []


def test_a_field_whose_name_has_a_dot_is_named_as_it_is() -> None:
    assert found({"a.b": {"c": 1}}, {"a.b": {"c": 2}}).changed_fields == ["a.b"]
    assert found({"a.b": {"c": 1}}, {"a.b": {"c": 2}}).differences[0].path == "['a.b'].c"
    assert found([1, {"n": 1}], [1, {"n": 2}]).changed_fields == ["(state)"]


@dataclass
class Order:
    id: int
    items: list[str]


def test_objects_of_a_users_class_are_compared_without_that_class() -> None:
    registry = Registry()
    register(Order, tag="order", registry=registry)
    old, new = ({"orders": [Order(1, items)]} for items in (["a"], ["a", "b"]))
    sides = [Side(encoded=Raw(encode(state, registry=registry))) for state in (old, new)]
    comparison = compare(*sides)
    assert str(comparison) == "orders[0].items[1:1]: [] -> ['b']"
    assert comparison.old.state == {"orders": [Record("order", {"id": 1, "items": ["a"]})]}
    assert comparison.patch() == [{"op": "add", "path": "/orders/0/$object/2/items/1", "value": "b"}]
    assert applied(rendered(sides[0].encoded), comparison.patch()) == rendered(sides[1].encoded)


@dataclass(frozen=True)
class Place:
    name: str


def test_a_value_that_needs_a_users_class_is_shown_as_json_has_it() -> None:
    registry = Registry()
    register(Place, tag="place", registry=registry)
    sides = [Side(encoded=Raw(encode({"seen": {Place(name)}}, registry=registry))) for name in ("Paris", "Rome")]
    assert compare(*sides).differences[0].new == {"$set": [{"$object": ["place", 1, {"name": "Rome"}]}]}


def test_what_json_has_no_word_for_is_rendered_in_a_patch() -> None:
    patch = found({"at": None, "$n": 1}, {"at": (1, b"\0"), "$n": float("inf")}).patch()
    assert patch == [
        {"op": "replace", "path": "/at", "value": {"$tuple": [1, {"$bytes": "AA=="}]}},
        {"op": "replace", "path": "/$$n", "value": {"$float": "inf"}},
    ]


def test_nested_as_deep_as_a_state_can_be_it_is_compared_too() -> None:
    old, new = ({"leaf": leaf} for leaf in (1, 2))
    for _ in range(49):
        old, new = {"in": [old]}, {"in": [new]}
    assert len(found(old, new).differences) == 1


@pytest.mark.parametrize("state", [None, 1, "text", [], {}, [1], {"messages": 3}])
def test_a_state_of_any_shape_is_compared(state: Any) -> None:
    comparison = found(state, {"messages": [1]})
    assert [each.path for each in comparison.differences]
    assert [row.kind for row in comparison.messages] == ["right"]
    assert applied(shown(state), comparison.patch()) == {"messages": [1]}
