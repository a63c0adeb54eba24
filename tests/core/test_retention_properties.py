"""When a point is dropped: what holds for every policy and every store."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.retention import Plan, Point, clear, plan
from perdure.core.retention_policy import Retention, Rule

DAY = 86_400_000_000
NOW = 1_800_000_000_000_000
KINDS = ["routine", "pre_operation", "recovery", "manual"]
TAGS = ["nightly", "weekly", "release"]

limits: dict[str, st.SearchStrategy[Any]] = {
    "last": st.none() | st.integers(0, 5),
    "days": st.none() | st.sampled_from([0, 0.5, 3, 7.0]),
    "bytes": st.none() | st.integers(0, 400),
    "until": st.sampled_from([None, "completed", "cleared"]),
}


def _per(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    counts = fields["last"] is not None or fields["bytes"] is not None
    known = ["agent", "thread", "user", "store"] if counts else ["agent"]
    return st.sampled_from(known).map(lambda per: {**fields, "per": per})


fields = st.fixed_dictionaries(limits).flatmap(_per)
rules = fields.map(lambda given: Rule(**given))
kinds = st.dictionaries(st.sampled_from(KINDS), rules)
tags = st.dictionaries(st.sampled_from(TAGS), rules)
policies = st.builds(lambda own, kinds, tags: Retention(**own, kinds=kinds, tags=tags), fields, kinds, tags)


STEPS = [0, 1, DAY // 2, DAY]
USERS = ["alice", "bob", ""]
CHOICES: dict[str, list[Any]] = {
    "agent": ["agent-1", "agent-10", "agent-1 ", None],
    "kind": KINDS,
    "size": [0, 1, 60, 200],
    "tags": [(), (), ("nightly",), ("weekly",), ("release",), ("nightly", "weekly"), ("weekly", "release")],
    "cleared": [False, True],
    "held": [None, None, None, None, "newest", "tagged", "forked from", "paused"],
    "id": list(range(10)),
}
# One draw for all choices of a point: a draw for each made these tests four times slower.
drafts = st.tuples(st.integers(0, 2), st.sampled_from(STEPS), st.integers(0, prod(map(len, CHOICES.values())) - 1))


def _store(drawn: list[tuple[int, int, int]]) -> list[Point]:
    """Points of a few threads; those of a thread never go back in time."""
    micros = NOW - sum(step for _, step, _ in drawn)
    made: list[Point] = []
    heads = [0, 0, 0]
    for thread, step, code in drawn:
        micros += step
        heads[thread] += 1
        made.append(_point(thread, heads[thread], micros, code))
    return made


def _point(thread: int, entry: int, micros: int, code: int) -> Point:
    chosen: dict[str, Any] = {}
    for name, values in CHOICES.items():
        code, place = divmod(code, len(values))
        chosen[name] = values[place]
    chosen["id"] = f"chk_{chosen['id']}{entry}"
    where = {"thread": f"uid-{thread}", "thread_id": f"t{thread // 2}", "user": USERS[thread]}
    return Point(**where, **chosen, version=entry, entry=entry, micros=micros)


def stores() -> st.SearchStrategy[list[Point]]:
    return st.lists(drafts, max_size=20).map(_store)


def gone(made: Plan) -> set[Point]:
    return {verdict.point for verdict in made.dropped}


def stay(made: Plan) -> set[Point]:
    return {verdict.point for verdict in made.kept}


def newest(store: Sequence[Point]) -> set[Point]:
    return set({point.thread: point for point in sorted(store, key=lambda point: point.entry)}.values())


@given(stores(), policies)
def test_every_point_stays_or_goes_with_a_reason(store: list[Point], policy: Retention) -> None:
    made = plan(store, policy, NOW)
    assert sorted(v.point.id + v.point.thread for v in made.kept + made.dropped) == sorted(
        point.id + point.thread for point in store
    )
    assert stay(made) | gone(made) == set(store)
    assert all(verdict.why.startswith("kept: ") and len(verdict.why) > 6 for verdict in made.kept)
    assert all(verdict.why and not verdict.why.startswith("kept") for verdict in made.dropped)
    assert made.bytes == sum(point.size for point in gone(made))
    assert len(made.text().splitlines()) == (3 + len(store) if store else 1)


@given(stores(), policies)
def test_protected_points_never_go(store: list[Point], policy: Retention) -> None:
    protected = {point for point in store if point.held or any(tag not in policy.tags for tag in point.tags)}
    assert not gone(plan(store, policy, NOW)) & (protected | newest(store))


@given(stores(), policies)
def test_planning_again_over_what_was_kept_drops_nothing(store: list[Point], policy: Retention) -> None:
    kept = stay(plan(store, policy, NOW))
    assert gone(plan(kept, policy, NOW)) == set()


@given(stores(), policies, st.integers(0, 5), st.integers(0, 5))
def test_a_stricter_count_drops_those_and_more(store: list[Point], policy: Retention, one: int, other: int) -> None:
    strict, loose = (msgspec.structs.replace(policy, last=last) for last in sorted((one, other)))
    unlimited = msgspec.structs.replace(policy, last=None, per="agent")
    assert gone(plan(store, loose, NOW)) <= gone(plan(store, strict, NOW))
    if policy.bytes is None:
        assert gone(plan(store, unlimited, NOW)) <= gone(plan(store, loose, NOW))


@given(stores(), policies, st.integers(0, 400), st.integers(0, 400))
def test_a_stricter_size_drops_those_and_more(store: list[Point], policy: Retention, one: int, other: int) -> None:
    strict, loose = (msgspec.structs.replace(policy, bytes=size) for size in sorted((one, other)))
    assert gone(plan(store, loose, NOW)) <= gone(plan(store, strict, NOW))


@given(stores(), policies, st.integers(0, 9))
def test_a_point_that_went_does_not_come_back_when_time_passes_by_age_alone(
    store: list[Point], policy: Retention, days: int
) -> None:
    aged = Retention(days=7, kinds={kind: Rule(days=rule.days) for kind, rule in policy.kinds.items()})
    assert gone(plan(store, aged, NOW)) <= gone(plan(store, aged, NOW + days * DAY))


@given(stores(), policies, st.randoms(use_true_random=False))
def test_the_order_in_which_points_are_given_does_not_matter(store: list[Point], policy: Retention, dice: Any) -> None:
    shuffled = list(store)
    dice.shuffle(shuffled)
    assert plan(shuffled, policy, NOW) == plan(store, policy, NOW)


@given(stores(), policies)
def test_a_plan_lists_the_newest_first(store: list[Point], policy: Retention) -> None:
    made = plan(store, policy, NOW)
    for verdicts in (made.kept, made.dropped):
        order = [(v.point.micros, v.point.entry, v.point.id, v.point.thread) for v in verdicts]
        assert order == sorted(order, reverse=True)


@given(stores(), rules)
def test_what_one_agent_does_changes_nothing_for_another(store: list[Point], rule: Rule) -> None:
    rule = msgspec.structs.replace(rule, per="agent")
    policy = Retention(kinds=dict.fromkeys(KINDS, rule))
    alone = [point for point in store if point.agent == "agent-1" or point in newest(store)]
    mine = {point for point in store if point.agent == "agent-1"}
    assert gone(plan(store, policy, NOW)) & mine == gone(plan(alone, policy, NOW)) & mine


@given(stores(), st.integers(0, 5))
def test_a_count_keeps_exactly_the_newest_and_the_protected(store: list[Point], last: int) -> None:
    groups: dict[object, list[Point]] = {}
    for point in sorted(store, key=lambda point: point.entry, reverse=True):
        groups.setdefault((point.thread, point.agent), []).append(point)
    wanted = {point for group in groups.values() for point in group[:last]}
    protected = {point for point in store if point.held or point.tags} | newest(store)
    assert stay(plan(store, Retention(last=last), NOW)) == wanted | protected


@given(stores(), st.sampled_from(["alice", "bob", "", "carol"]))
def test_clearing_a_user_touches_nobody_else(store: list[Point], user: str) -> None:
    needed = ("forked from", "paused")
    assert gone(clear(store, user)) == {point for point in store if point.user == user and point.held not in needed}
    assert stay(clear(store, user)) == set(store) - gone(clear(store, user))
