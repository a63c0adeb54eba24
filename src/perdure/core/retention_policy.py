"""Retention policies: how many points are kept, how long and how large, by kind and by tag.

A limit that is not given does not limit. Where several are given, a point has to pass all of them: it is dropped as
soon as one says so. `core/retention.py` applies a policy to the points of a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal, cast, get_args

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.message import FrozenDict
from perdure.core.retention_words import days, shown
from perdure.core.vocabulary import suggestion

Per = Literal["agent", "thread", "user", "store"]
Until = Literal["completed", "cleared"]
Messages = Literal["keep", "drop"]

_PER = {"agent": "per agent and thread", "thread": "per thread", "user": "per user", "store": "in the store"}
_OTHERS = {
    "kinds": "all other kinds follow the limits of the policy itself",
    "tags": "a tag without a rule keeps its points for ever",
}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one kind or tag. A rule with nothing in it keeps everything.

    `last`   the newest N of a group
    `days`   those at most that old
    `bytes`  the newest of a group, as far as they cost no more than this together
    `until`  those whose operation has not completed yet, or that nobody cleared yet
    `per`    the group in which `last` and `bytes` count: an agent within a thread, a thread, a user, or the store;
             agents and users are told apart exactly ("agent-1" is neither "agent-10" nor "agent-1 ")

    Raises `InvalidInputError`, naming the argument, for a value that cannot be meant.
    """

    last: int | None = None
    days: float | None = None
    bytes: int | None = None
    until: Until | None = None
    per: Per = "agent"

    def __post_init__(self) -> None:
        _check_count("last", self.last)
        _check_days(self.days)
        _check_count("bytes", self.bytes)
        if self.until is not None:
            _check_word("until", self.until, get_args(Until))
        _check_word("per", self.per, get_args(Per))
        if self.per != "agent" and self.last is None and self.bytes is None:
            raise InvalidInputError(f"per={self.per!r} counts nothing: give last or bytes beside it, or leave it out")

    def to_text(self) -> str:
        """The rule in words, on one line."""
        return self.limits() or "everything"

    def limits(self) -> str:
        """The limits of this rule alone, in words; "" when there is none."""
        per = _PER[self.per]
        limits = [
            *([f"newest {self.last:,} {per}"] if self.last is not None else []),
            *([f"at most {days(self.days)} old"] if self.days is not None else []),
            *([f"at most {self.bytes:,} bytes {per}"] if self.bytes is not None else []),
            *([f"until {self.until}"] if self.until is not None else []),
        ]
        return ", ".join(limits)


class Retention(Rule, frozen=True, kw_only=True):
    """Which points of a store are kept (S1.43). A policy with nothing in it drops nothing.

    `kinds`     a rule for each kind; kinds without one share the policy's own limits, and are counted together
    `tags`      a rule for each tag, in the place of the one for the kind; a tag without one keeps its points for ever
    `messages`  "keep": messages that lived only in dropped states are kept; "drop": they go with them

    A rule of `kinds` or `tags` is a `Rule`, or a `Retention` that has nothing but limits. `Rule()` exempts a kind.
    Raises `InvalidInputError`, naming the argument, for a value that cannot be meant.
    """

    kinds: Mapping[str, Rule] = {}
    tags: Mapping[str, Rule] = {}
    messages: Messages = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_word("messages", self.messages, get_args(Messages))
        msgspec.structs.force_setattr(self, "kinds", _rules("kinds", self.kinds))
        msgspec.structs.force_setattr(self, "tags", _rules("tags", self.tags))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The policy's own limits and all its rules."""
        return (self, *self.kinds.values(), *self.tags.values())

    @property
    def weighs(self) -> bool:
        """Whether it asks how large points are."""
        return any(rule.bytes is not None for rule in self.rules)

    def to_text(self) -> str:
        """The policy in words, on one line; equal policies have equal words."""
        tags = [f"tagged {tag!r}: {rule.to_text()}" for tag, rule in sorted(self.tags.items())]
        kinds = [f"{shown(kind)}: {rule.to_text()}" for kind, rule in sorted(self.kinds.items())]
        own = super().to_text()
        rest = f"other kinds: {own}" if kinds else f"other points: {own}" if tags else own
        return "; ".join([*tags, *kinds, rest, f"messages: {self.messages}"])


def drops_messages(words: str) -> bool:
    """Whether a policy in words lets messages go with the states they lived in."""
    return words.endswith("messages: drop")


def policy_of(keep: object) -> Retention:
    """A policy, or the one that an int stands for; raise `InvalidInputError` for anything else."""
    if isinstance(keep, Retention):
        return keep
    if type(keep) is not int or keep < 0:
        raise InvalidInputError(f"keep must be an int from 0 on, or a Retention, not {keep!r}")
    return Retention(last=keep, per="thread")


def older_than(days: float) -> Retention:
    """The policy that drops what is older than this many days, whatever its kind (S0.10, S1.38)."""
    return Retention(days=days)


def _check_count(name: str, value: object) -> None:
    if value is not None and (type(value) is not int or value < 0):
        raise InvalidInputError(f"{name} must be an int from 0 on, or None for no limit, not {value!r}")


def _check_days(value: object) -> None:
    if value is not None and not (isinstance(value, int | float) and type(value) is not bool and 0 <= value < inf):
        raise InvalidInputError(f"days must be a number from 0 on, or None for no limit, not {value!r}")


def _check_word(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInputError(
            f"{name} must be {' or '.join(map(repr, known))}, not {value!r}{suggestion(value, known)}"
        )


def _rules(name: str, given: object) -> FrozenDict:
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{name} must be a dict of rules, not {given!r}")
    rules = cast("Mapping[object, object]", given)
    return FrozenDict({_named(name, key): _limits_only(f"{name}[{key!r}]", rule) for key, rule in rules.items()})


def _named(name: str, key: object) -> str:
    if type(key) is not str or not key:
        raise InvalidInputError(f"{name} must have non-empty strs as keys, not {key!r}")
    if key == "*":
        raise InvalidInputError(f"{name} has no '*': {_OTHERS[name]}")
    return key


def _limits_only(place: str, rule: object) -> Rule:
    """The limits of a rule, one class for all, so that equal policies are equal."""
    if not isinstance(rule, Rule):
        raise InvalidInputError(f"{place} must be a Rule, not {rule!r}")
    if isinstance(rule, Retention) and (rule.kinds or rule.tags or rule.messages != "keep"):
        raise InvalidInputError(f"{place} must have limits only: kinds, tags and messages are for the policy itself")
    return Rule(last=rule.last, days=rule.days, bytes=rule.bytes, until=rule.until, per=rule.per)


ROUTINE = Rule(last=3)  # S3.15
PRE_OPERATION = Rule(until="completed")  # S3.16
RECOVERY = Rule(days=7, until="cleared")  # S3.17
SEED_KINDS = Retention(kinds={"routine": ROUTINE, "pre_operation": PRE_OPERATION, "recovery": RECOVERY})
