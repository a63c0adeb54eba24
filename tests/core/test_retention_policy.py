"""Retention policies: what may be said, what is refused, and how they read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.core.errors import InvalidInputError
from perdure.core.retention_policy import PRE_OPERATION, RECOVERY, ROUTINE, SEED_KINDS, Retention, Rule, older_than


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"last": -1}, "last must be an int from 0 on, or None for no limit, not -1"),
        ({"last": True}, "last must be an int from 0 on, or None for no limit, not True"),
        ({"last": 3.0}, "last must be an int from 0 on, or None for no limit, not 3.0"),
        ({"last": "3"}, "last must be an int from 0 on, or None for no limit, not '3'"),
        ({"bytes": -5}, "bytes must be an int from 0 on, or None for no limit, not -5"),
        ({"bytes": 1e6}, "bytes must be an int from 0 on, or None for no limit, not 1000000.0"),
        ({"days": -0.5}, "days must be a number from 0 on, or None for no limit, not -0.5"),
        ({"days": float("nan")}, "days must be a number from 0 on, or None for no limit, not nan"),
        ({"days": float("inf")}, "days must be a number from 0 on, or None for no limit, not inf"),
        ({"days": False}, "days must be a number from 0 on, or None for no limit, not False"),
        ({"days": "30"}, "days must be a number from 0 on, or None for no limit, not '30'"),
        ({"last": 1, "per": "team"}, "per must be 'agent' or 'thread' or 'user' or 'store', not 'team'"),
        ({"last": 1, "per": None}, "per must be 'agent' or 'thread' or 'user' or 'store', not None"),
        ({"days": 1, "per": "user"}, "per='user' counts nothing: give last or bytes beside it, or leave it out"),
        ({"until": "done"}, "until must be 'completed' or 'cleared', not 'done'"),
        ({"messages": True}, "messages must be 'keep' or 'drop', not True"),
        ({"kinds": [("routine", ROUTINE)]}, "kinds must be a dict of rules, not [('routine', "),
        ({"kinds": {"routine": 3}}, "kinds['routine'] must be a Rule, not 3"),
        ({"kinds": {"": ROUTINE}}, "kinds must have non-empty strs as keys, not ''"),
        ({"kinds": {7: ROUTINE}}, "kinds must have non-empty strs as keys, not 7"),
        ({"kinds": {"*": ROUTINE}}, "kinds has no '*': all other kinds follow the limits of the policy itself"),
        ({"tags": {"*": ROUTINE}}, "tags has no '*': a tag without a rule keeps its points for ever"),
        ({"tags": {"nightly": None}}, "tags['nightly'] must be a Rule, not None"),
        ({"kinds": {"routine": SEED_KINDS}}, "kinds['routine'] must have limits only: kinds, tags and messages"),
        ({"tags": {"x": Retention(messages="drop")}}, "tags['x'] must have limits only: kinds, tags and messages"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}"):
        Retention(**given)


def test_a_rule_is_refused_like_a_policy() -> None:
    with pytest.raises(InvalidInputError, match="last must be an int"):
        Rule(last=-1)


def test_a_policy_cannot_change_after_it_was_made() -> None:
    kinds = {"routine": Rule(last=3)}
    policy = Retention(kinds=kinds)
    kinds["routine"] = Rule(last=0)
    assert policy == Retention(kinds={"routine": Rule(last=3)})
    with pytest.raises(TypeError):
        policy.kinds["routine"] = Rule(last=0)  # type: ignore[index]
    with pytest.raises(AttributeError):
        policy.last = 3  # type: ignore[misc]


def test_a_policy_with_limits_only_may_stand_for_a_rule() -> None:
    assert Retention(kinds={"routine": Retention(last=3)}) == Retention(kinds={"routine": Rule(last=3)})


def test_the_seeds_kinds_have_the_seeds_rules() -> None:
    assert SEED_KINDS.to_text() == (
        "pre_operation: until completed; recovery: at most 7 days old, until cleared; "
        "routine: newest 3 per agent and thread; other kinds: everything; messages: keep"
    )
    assert dict(SEED_KINDS.kinds) == {"routine": ROUTINE, "pre_operation": PRE_OPERATION, "recovery": RECOVERY}


def test_older_than_is_a_policy_of_age_alone() -> None:
    assert older_than(30) == Retention(days=30)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Retention(), "everything; messages: keep"),
        (
            Retention(last=1000, days=30.0, bytes=5_000_000, until="cleared", per="user", messages="drop"),
            "newest 1,000 per user, at most 30 days old, at most 5,000,000 bytes per user, until cleared; "
            "messages: drop",
        ),
        (
            Retention(days=0.5, bytes=0, per="store"),
            "at most 0.5 days old, at most 0 bytes in the store; messages: keep",
        ),
        (
            Retention(days=30, tags={"nightly": Rule(last=7, per="thread")}),
            "tagged 'nightly': newest 7 per thread; other points: at most 30 days old; messages: keep",
        ),
    ],
)
def test_a_policy_says_itself_on_one_line(policy: Retention, text: str) -> None:
    assert policy.to_text() == text


def test_a_name_cannot_break_the_line() -> None:
    policy = Retention(kinds={"a\nb": Rule()}, tags={"c\x1b[31m": Rule()})
    assert policy.to_text() == (
        "tagged 'c\\x1b[31m': everything; 'a\\nb': everything; other kinds: everything; messages: keep"
    )


def test_equal_policies_have_equal_words() -> None:
    one = Retention(days=7, kinds={"a": Rule(last=1), "b": Rule(last=2)})
    other = Retention(days=7.0, kinds={"b": Rule(last=2), "a": Rule(last=1)})
    assert one == other
    assert one.to_text() == other.to_text()
