"""Which items of two lists are one: equal ones by a longest common subsequence, edited ones where that is plain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core import align
from perdure.core.align import longest
from perdure.core.codec import encode
from perdure.core.compare_items import paired

small = st.lists(st.integers(0, 4), max_size=12)


def pairs(old: list[Any], new: list[Any]) -> list[tuple[int, int]]:
    return paired([Raw(encode(item)) for item in old], [Raw(encode(item)) for item in new])


def length_of_longest(old: list[int], new: list[int]) -> int:
    """The textbook table."""
    row = [0] * (len(new) + 1)
    for one in old:
        above = row[:]
        for at, other in enumerate(new, 1):
            row[at] = above[at - 1] + 1 if one == other else max(above[at], row[at - 1])
    return row[-1]


def is_rising(found: list[tuple[int, int]]) -> bool:
    return all(a < c and b < d for (a, b), (c, d) in pairwise(found))


@given(small, small)
def test_as_many_equal_items_are_kept_as_can_be(old: list[int], new: list[int]) -> None:
    found = longest(old, new)
    assert is_rising(found)
    assert all(old[i] == new[j] for i, j in found)
    assert len(found) == length_of_longest(old, new)


@given(small, small)
def test_counting_edits_finds_as_many_as_following_pairs(old: list[int], new: list[int]) -> None:
    found = align._few_edits(old, new) if old or new else []
    assert found is not None
    assert is_rising(found)
    assert all(old[i] == new[j] for i, j in found)
    assert len(found) == length_of_longest(old, new)


@given(small, small)
def test_the_coarse_answer_is_a_common_subsequence_too(old: list[int], new: list[int]) -> None:
    found = align._greedy(align._places(old), new)
    assert is_rising(found)
    assert all(old[i] == new[j] for i, j in found)


def test_few_edits_of_a_long_list_of_repeated_items_are_found_exactly() -> None:
    old = [at % 2 for at in range(10_000)]
    new = [*old[:3_000], 1, 1, *old[3_000:7_000], *old[7_003:]]
    assert len(longest(old, new)) >= len(old) - 3


def test_lists_that_differ_everywhere_cost_little_however_long_they_are() -> None:
    """A table of all pairs would take minutes here."""
    old, new = [at * 7919 % 13 for at in range(20_000)], [at * 104_729 % 11 for at in range(20_000)]
    found = longest(old, new)
    assert is_rising(found)
    assert found


def test_a_shuffled_list_keeps_its_longest_rising_part() -> None:
    old = list(range(2000))
    new = [*range(1500, 2000), *range(1500)]
    assert len(longest(old, new)) == 1500


@given(st.lists(st.text(max_size=3) | st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)), max_size=8), st.data())
def test_pairs_rise_and_hold_every_equal_item_of_a_longest_subsequence(old: list[Any], data: st.DataObject) -> None:
    new = data.draw(st.permutations(old)) if old else []
    found = pairs(old, new)
    assert is_rising(found)
    assert len(found) >= len(longest([encode(item) for item in old], [encode(item) for item in new]))


def test_an_inserted_item_moves_nothing() -> None:
    old = [{"n": at} for at in range(1000)]
    assert pairs(old, [*old[:500], {"n": -1}, *old[500:]]) == [(at, at + (at >= 500)) for at in range(1000)]


def test_an_edited_item_is_the_same_item_beside_inserted_and_removed_ones() -> None:
    old = [{"role": "user", "content": text} for text in ("the first question", "the second question", "bye")]
    edited = {"role": "user", "content": "the second question, said better"}
    new = [{"role": "tool", "content": "{}"}, {"role": "tool", "content": "[]"}, edited, old[2]]
    assert pairs(old, new) == [(1, 2), (2, 3)]


def test_items_with_one_id_are_one_item_whatever_else_changed() -> None:
    old = [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]
    new = [{"id": "c", "text": "one"}, {"id": "a", "text": "nothing alike"}, {"id": "b", "text": "two"}]
    assert pairs(old, new) == [(0, 1), (1, 2)]


def test_items_with_different_ids_are_never_one() -> None:
    assert pairs([{"id": 1, "text": "the same text in both"}], [{"id": 2, "text": "the same text in both"}]) == []


def test_an_id_of_none_is_no_id() -> None:
    assert pairs([{"id": None, "text": "a"}], [{"id": None, "text": "b"}]) == [(0, 0)]


def test_a_field_added_to_every_item_of_a_long_list_is_seen_through() -> None:
    old = [{"content": f"message number {at} of many, each another"} for at in range(300)]
    new = [{**item, "seen": True} for item in old]
    new.insert(100, {"content": "and one that nobody had said before", "seen": True})
    assert pairs(old, new) == [(at, at + (at >= 100)) for at in range(300)]


def test_where_it_is_not_plain_which_item_was_edited_none_was() -> None:
    old = [{"text": "a question about Paris"}] * 2
    assert pairs(old, [{"text": "a question about Rome!"}]) == []


def test_items_of_different_kinds_are_never_one() -> None:
    assert pairs([1], [{"n": 1}]) == []
    assert pairs([{"n": 1}], [[1]]) == []


def test_equally_many_plain_values_were_changed_in_place() -> None:
    assert pairs([1, 2, 3], [1, 5, 3]) == [(0, 0), (1, 1), (2, 2)]
    assert pairs([1, 2, 3], [1, 5]) == [(0, 0)]


def test_long_lists_of_items_that_are_nothing_alike_are_compared_in_bounded_time() -> None:
    old = [{"content": f"{at} " * 50} for at in range(1500)]
    new = [{"content": f"{-at}! " * 50, "more": at} for at in range(1, 1601)]
    assert is_rising(pairs(old, new))
