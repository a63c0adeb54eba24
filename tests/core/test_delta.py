"""The change between two states, its application and the composition of changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.codec import decode, encode
from perdure.core.compose import compose
from perdure.core.delta import delta
from perdure.core.document import Document
from perdure.core.ops import Append, Op, Set, Splice, weight

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=2)
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from("abcde"), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
states = st.dictionaries(st.sampled_from("abcde"), trees, max_size=5)


def change(old: Any, new: Any) -> list[Op]:
    return delta(Document.of(encode(old)), encode(new))[0]


def applied(state: Any, ops: list[Op]) -> Any:
    document = Document.of(encode(state))
    document.apply(ops)
    return decode(document.encoded())


def exact(value: Any) -> bytes:
    """Type-exact and blind to the order of dict keys, like a state is."""
    return encode(_ordered(value))


def _ordered(value: Any) -> Any:
    if type(value) is dict:
        return {key: _ordered(value[key]) for key in sorted(value)}
    if type(value) in (list, tuple):
        return type(value)(_ordered(item) for item in value)
    return value


@given(states, states)
def test_applying_the_change_gives_the_new_state(old: Any, new: Any) -> None:
    assert exact(applied(old, change(old, new))) == exact(new)


@given(states, states)
def test_the_document_that_comes_with_a_change_is_what_folding_gives(old: Any, new: Any) -> None:
    ops, document = delta(Document.of(encode(old)), encode(new))
    folded = Document.of(encode(old))
    folded.apply(ops)
    assert document.encoded() == folded.encoded()


@given(st.lists(states, min_size=2, max_size=6))
def test_folding_many_changes_is_applying_one_after_another(versions: list[Any]) -> None:
    document = Document.of(encode(versions[0]))
    document.fold(op for old, new in pairwise(versions) for op in change(old, new))
    assert exact(decode(document.encoded())) == exact(versions[-1])


@given(states)
def test_an_equal_state_is_no_change(state: Any) -> None:
    assert change(state, state) == []


@given(st.lists(states, min_size=2, max_size=6))
def test_a_composed_change_does_what_its_parts_do(versions: list[Any]) -> None:
    parts = [change(old, new) for old, new in pairwise(versions)]
    composed = compose(*parts)
    assert exact(applied(versions[0], composed)) == exact(versions[-1])
    assert sum(map(weight, composed)) <= sum(weight(op) for part in parts for op in part) + 1


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=2, max_size=5))
def test_lists_of_all_shapes_compose(versions: list[list[int]]) -> None:
    parts = [change({"m": old}, {"m": new}) for old, new in pairwise(versions)]
    assert applied({"m": versions[0]}, compose(*parts)) == {"m": versions[-1]}


def test_an_appended_item_is_all_that_is_stored() -> None:
    old = {"messages": [{"text": "x" * 100, "n": n} for n in range(50)]}
    new = {"messages": [*old["messages"], {"text": "new"}]}
    assert change(old, new) == [Append(("messages",), [_raw({"text": "new"})])]


def test_a_change_inside_one_item_costs_that_change() -> None:
    old = {"messages": [{"text": "x" * 100, "n": n} for n in range(50)]}
    new = {"messages": [dict(message) for message in old["messages"]]}
    new["messages"][7]["n"] = True
    assert change(old, new) == [Set(("messages", 7, "n"), _raw(True))]


def test_items_cut_from_the_front_are_not_stored_again() -> None:
    old = {"messages": [f"message {n}" for n in range(100)]}
    new = {"messages": [*old["messages"][10:], "new"]}
    ops = change(old, new)
    assert sum(map(weight, ops)) < 60
    assert Splice(("messages",), 0, 10, []) in ops
    assert applied(old, ops) == new


@pytest.mark.parametrize("values", [(1, True, 1.0, 1), (0, False, -0.0, 0.0), ("1", b"1", ["1"], ("1",))])
def test_a_change_of_type_alone_is_a_change(values: tuple[Any, ...]) -> None:
    for old, new in pairwise(values):
        assert change({"v": old}, {"v": new}) == [Set(("v",), _raw(new))]


def test_an_order_only_change_is_no_change() -> None:
    assert change({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}) == []


def test_a_change_is_never_larger_than_the_state() -> None:
    old = {"box": {f"k{n}": n for n in range(100)}}
    new = {"box": {f"k{n}": n + 1 for n in range(100)}}
    assert change(old, new) == [Set(("box",), _raw(new["box"]))]


def _raw(value: Any) -> Any:
    from msgspec import Raw

    return Raw(encode(value))
