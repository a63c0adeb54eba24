"""A conversation followed forward through a log: the same after rewinds, and where ranges were made one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core.codec import decode, encode
from perdure.core.conversation import MESSAGE_PATH, Conversation
from perdure.core.following import Following
from perdure.core.payload import StateChange, WholeState
from perdure.core.pruning import Composed, Talk
from tests.core.lists import change, ops_between


def said(following: Following) -> list[Any]:
    return [decode(each) for each in following.now.messages()]


@dataclass
class Log:
    """A list that is added to, cut and rewound, beside what was said: one change per version."""

    lists: list[list[int]] = field(default_factory=lambda: [[]])  # by version
    said: list[list[int]] = field(default_factory=lambda: [[]])
    back: dict[int, int] = field(default_factory=dict[int, int])  # rewinds
    made: int = 0

    @property
    def head(self) -> int:
        return len(self.lists) - 1

    def play(self, what: str, number: int) -> None:
        shown, heard = list(self.lists[-1]), list(self.said[-1])
        if what == "say":
            new = [self.made + each for each in range(number % 3 + 1)]
            self.made += len(new)
            shown, heard = shown + new, heard + new
        elif what == "cut":
            shown = shown[number % 4 :]
        else:
            to = number % (self.head + 1)
            self.back[self.head + 1] = to
            shown, heard = self.lists[to], self.said[to]
        self.lists.append(shown)
        self.said.append(heard)

    def step(self, version: int) -> StateChange:
        return change(self.lists[version - 1], self.lists[version], self.back.get(version))

    def follow(self, upto: int, targets: set[int] | None = None) -> Following:
        """Follow it from the beginning."""
        following = Following(MESSAGE_PATH, set(self.back.values()) if targets is None else targets)
        following.passed(0)
        for version in range(1, upto + 1):
            following.take(self.step(version))
            following.passed(version)
        return following


plays = st.lists(st.tuples(st.sampled_from(["say", "say", "cut", "back"]), st.integers(0, 40)), max_size=16)


def played(steps: list[tuple[str, int]]) -> Log:
    log = Log()
    for step in steps:
        log.play(*step)
    return log


@given(plays)
def test_what_was_said_is_what_was_said_on_the_way_to_a_version(steps: list[tuple[str, int]]) -> None:
    log = played(steps)
    for version in range(log.head + 1):
        following = log.follow(version)
        assert said(following) == log.said[version]
        assert [decode(each) for each in map(bytes, following.now.items())] == log.lists[version]


@given(steps=plays, data=st.data())
def test_a_range_that_was_made_one_tells_the_same_conversation(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    log = played([*steps, ("say", 1), ("say", 2)])
    low = data.draw(st.integers(0, log.head - 2))
    high = data.draw(st.integers(low + 2, log.head))
    later = {to for entry, to in log.back.items() if entry > high}
    if any(low < to < high for to in later):
        return  # a rewind that goes back into the range is made one with it, or tells all by itself
    turned = any(low < entry <= high and to <= low for entry, to in log.back.items())
    known = log.follow(low).now.talk()
    talk = log.follow(high).now.talk(None if turned or high in log.back else known)
    following = log.follow(low, later | {to for entry, to in log.back.items() if entry <= low})
    following.take(Composed(low, b"", ops_between(log.lists[low], log.lists[high]), talk=talk))
    following.passed(high)
    for version in range(high, log.head + 1):
        if version > high:
            following.take(log.step(version))
            following.passed(version)
        assert said(following) == log.said[version]


@given(steps=plays, data=st.data())
def test_a_base_tells_the_conversation_up_to_it(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    log = played([*steps, ("say", 1)])
    at = data.draw(st.integers(1, log.head))
    whole = log.follow(at).now.talk()
    assert whole.whole
    following = Following(MESSAGE_PATH, {to for entry, to in log.back.items() if entry > at and to >= at})
    following.take(WholeState(Raw(encode({"messages": log.lists[at]})), talk=whole))
    following.passed(at)
    for version in range(at + 1, log.head + 1):
        if log.back.get(version, at) < at:
            return  # its past is gone
        following.take(log.step(version))
        following.passed(version)
        assert said(following) == log.said[version]


def test_a_rewind_takes_back_what_was_said_and_a_redo_says_it_again() -> None:
    log = played([("say", 0), ("say", 0), ("back", 1), ("say", 0), ("back", 2)])
    assert [log.follow(version).now.messages() for version in (2, 3, 4, 5)] == [
        [encode(each) for each in heard] for heard in ([0, 1], [0], [0, 2], [0, 1])
    ]


def test_a_cut_list_keeps_its_messages_in_the_conversation_through_a_rewind() -> None:
    log = played([("say", 2), ("cut", 2), ("say", 0), ("back", 2)])
    assert said(log.follow(4)) == [0, 1, 2]
    assert log.lists[4] == [2]


def test_messages_in_no_list_are_taken_back_too() -> None:
    following = Following(MESSAGE_PATH, {1})
    following.take(change([], ["a"]))
    following.passed(1)
    following.now.add(Raw(encode("apart")))
    following.passed(2)
    assert said(following) == ["a", "apart"]
    following.take(change(["a"], ["a"], to=1))
    assert said(following) == ["a"]


def test_a_rewind_to_a_version_that_nobody_looked_for_changes_the_list_alone() -> None:
    following = Following(MESSAGE_PATH)
    following.take(change([], ["a"]))
    following.take(change(["a"], ["a", "b"]))
    following.take(change(["a", "b"], ["a"], to=1))
    assert said(following) == ["a", "b"]


def test_dropped_messages_leave_a_gap_and_the_rest_in_order() -> None:
    following = Following(MESSAGE_PATH)
    following.take(WholeState(Raw(encode({"messages": ["c", "d"]})), talk=Talk(4, [2, 3])))
    assert said(following) == ["c", "d"]
    following.take(change(["c", "d"], ["c", "d", "e"]))
    assert said(following) == ["c", "d", "e"]
    assert following.now.talk() == Talk(5, [2, 3, 4])
    assert following.now.copy().talk() == Talk(5, [2, 3, 4])


def test_a_talk_that_does_not_fit_its_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        Conversation().jump(Talk(2, [0, 1]), [Raw(encode("a"))])


def test_a_copy_goes_its_own_way() -> None:
    conversation = Conversation()
    conversation.follow(change([], [{"n": 1}]).ops)
    other = conversation.copy()
    other.follow(ops_between([{"n": 1}], [{"n": 2}]))
    assert [decode(each) for each in conversation.messages()] == [{"n": 1}]
    assert [decode(each) for each in other.messages()] == [{"n": 2}]
