"""When a point is dropped: each rule by example."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.core.errors import InvalidInputError
from perdure.core.retention import Plan, Point, Verdict, clear, plan
from perdure.core.retention_policy import PRE_OPERATION, RECOVERY, SEED_KINDS, Retention, Rule, older_than

DAY = 86_400_000_000
NOW = 1_800_000_000_000_000


def point(n: int, *, age: float = 0, **fields: Any) -> Point:
    """The n-th point of thread t1; a higher n is a newer one."""
    made: dict[str, Any] = {
        "id": f"chk_{n:02}",
        "thread": "uid-1",
        "thread_id": "t1",
        "user": "alice",
        "agent": "a1",
        "kind": "routine",
        "version": n,
        "entry": n,
        "micros": NOW - int(age * DAY) - 100 + n,
        "size": 100,
    }
    return Point(**{**made, **fields})


def points(count: int, **fields: Any) -> list[Point]:
    return [point(n, **fields) for n in range(1, count + 1)]


HEAD = point(99, kind="head")  # the newest of its thread, so that the rules may have all others


def fates(made: Plan) -> dict[str, str]:
    """What becomes of each point but the newest of the thread t1."""
    assert HEAD.id not in {verdict.point.id for verdict in made.dropped}
    return {
        **{verdict.point.id: verdict.why for verdict in made.kept if verdict.point != HEAD},
        **{verdict.point.id: f"DROP {verdict.why}" for verdict in made.dropped},
    }


def judged(given: list[Point], policy: Retention) -> dict[str, str]:
    return fates(plan([*given, HEAD], policy, NOW))


def test_a_policy_with_nothing_in_it_drops_nothing() -> None:
    given = points(2, age=10_000, cleared=True)
    assert plan(given, Retention(), NOW) == Plan(
        kept=(
            Verdict(point=given[1], why="kept: newest of its thread"),
            Verdict(point=given[0], why="kept: no limit"),
        ),
        dropped=(),
    )


def test_the_newest_are_kept_and_the_others_say_their_place() -> None:
    given = points(5)
    assert plan(given, Retention(kinds={"routine": Rule(last=3)}), NOW) == Plan(
        kept=(
            Verdict(point=given[4], why="kept: newest of its thread"),
            Verdict(point=given[3], why="kept: newest 3 per agent and thread"),
            Verdict(point=given[2], why="kept: newest 3 per agent and thread"),
        ),
        dropped=(
            Verdict(point=given[1], why="4th newest routine of agent 'a1', keeps 3"),
            Verdict(point=given[0], why="5th newest routine of agent 'a1', keeps 3"),
        ),
    )


def test_routine_keeps_the_last_three_of_each_agent() -> None:
    """S3.15. Agents are told apart exactly."""
    agents = ["agent-1", "agent-10", "agent-1 ", "Agent-1", "", None]
    given = [
        point(10 * place + n, agent=agent, id=f"{agent!r}.{n}") for place, agent in enumerate(agents) for n in (1, 2, 3)
    ]
    kept = "kept: newest 3 per agent and thread"
    assert judged(given, SEED_KINDS) == {each.id: kept for each in given}
    extra = point(0, agent="agent-1", id="old")
    assert judged([*given, extra], SEED_KINDS) == {
        "old": "DROP 4th newest routine of agent 'agent-1', keeps 3",
        **{each.id: kept for each in given},
    }


def test_an_agent_counts_in_each_of_its_threads() -> None:
    given = [point(1), point(2), point(3, thread="uid-2", thread_id="t2"), point(4, thread="uid-2", thread_id="t2")]
    assert judged(given, Retention(last=1, kinds={"head": Rule()})) == {
        "chk_01": "DROP 2nd newest of other kinds of agent 'a1', keeps 1",
        "chk_02": "kept: newest 1 per agent and thread",
        "chk_03": "DROP 2nd newest of other kinds of agent 'a1', keeps 1",
        "chk_04": "kept: newest of its thread",
    }


def test_pre_operation_points_are_kept_until_the_operation_completed() -> None:
    """S3.16. However many there are, however old."""
    given = [point(1, age=400), point(2, cleared=True), *(point(n) for n in range(3, 9))]
    open_ones = {each.id: "kept: until completed" for each in given if not each.cleared}
    given = [msgspec.structs.replace(each, kind="pre_operation") for each in given]
    assert SEED_KINDS.kinds["pre_operation"] == PRE_OPERATION
    assert judged(given, SEED_KINDS) == {**open_ones, "chk_02": "DROP its operation completed"}


def test_recovery_points_are_kept_seven_days_or_until_cleared() -> None:
    """S3.17."""
    given = [
        point(1, age=7.01),
        point(2, age=6.99),
        point(3, age=1, cleared=True),
        point(4, age=8, cleared=True),
    ]
    given = [msgspec.structs.replace(each, kind="recovery") for each in given]
    assert SEED_KINDS.kinds["recovery"] == RECOVERY
    assert judged(given, SEED_KINDS) == {
        "chk_01": "DROP older than 7 days",
        "chk_02": "kept: at most 7 days old, until cleared",
        "chk_03": "DROP cleared",
        "chk_04": "DROP older than 7 days; cleared",
    }


def test_a_kind_without_a_rule_follows_the_policy_and_one_with_a_rule_does_not() -> None:
    given = [point(1, age=40), point(2, age=40, kind="manual"), point(3, age=40, kind="audit")]
    assert judged(given, Retention(days=30, kinds={"routine": Rule(days=60), "audit": Rule()})) == {
        "chk_01": "kept: at most 60 days old",
        "chk_02": "DROP older than 30 days",
        "chk_03": "kept: no limit",
    }


def test_a_point_is_as_old_as_the_limit_before_it_is_older() -> None:
    given = [point(1, micros=NOW - 30 * DAY), point(2, micros=NOW - 30 * DAY - 1), point(3, micros=NOW + DAY)]
    assert judged(given, older_than(30)) == {
        "chk_01": "kept: at most 30 days old",
        "chk_02": "DROP older than 30 days",
        "chk_03": "kept: at most 30 days old",
    }


def test_half_days_and_days_beyond_any_clock_count() -> None:
    given = points(1, age=0.6)
    assert judged(given, older_than(0.5)) == {"chk_01": "DROP older than 0.5 days"}
    assert judged(points(1, age=1.1), older_than(1.0)) == {"chk_01": "DROP older than 1 day"}
    assert not plan([*given, HEAD], older_than(1e308), NOW).dropped


def test_the_newest_that_fit_the_bytes_are_kept() -> None:
    given = [point(1, size=1), point(2, size=600), point(3, size=400), point(4, size=600)]
    limit = "kept: at most 1,000 bytes per agent and thread"
    assert judged(given, Retention(kinds={"routine": Rule(bytes=1000)})) == {
        "chk_01": "DROP 4th newest routine of agent 'a1', 1,601 bytes up to it, keeps 1,000",
        "chk_02": "DROP 3rd newest routine of agent 'a1', 1,600 bytes up to it, keeps 1,000",
        "chk_03": limit,
        "chk_04": limit,
    }


def test_a_point_has_to_pass_every_limit() -> None:
    given = [point(1, age=40, cleared=True), point(2), point(3), point(4, age=40)]
    rule = Rule(last=1, bytes=150, days=30, until="cleared")
    assert judged(given, Retention(kinds={"routine": rule})) == {
        "chk_01": "DROP older than 30 days; cleared",
        "chk_02": "DROP 2nd newest routine of agent 'a1', keeps 1; "
        "2nd newest routine of agent 'a1', 200 bytes up to it, keeps 150",
        "chk_03": f"kept: {rule.to_text()}",
        "chk_04": "DROP older than 30 days",
    }


def test_what_is_gone_anyway_takes_nobodys_place() -> None:
    given = [point(1), point(2), point(3, cleared=True), point(4, cleared=True)]
    assert judged(given, Retention(kinds={"routine": Rule(last=1, until="completed")})) == {
        "chk_01": "DROP 2nd newest routine of agent 'a1', keeps 1",
        "chk_02": "kept: newest 1 per agent and thread, until completed",
        "chk_03": "DROP its operation completed",
        "chk_04": "DROP its operation completed",
    }


def test_a_protected_point_takes_its_place_even_when_its_time_is_over() -> None:
    given = [point(1), point(2), point(3, cleared=True, tags=("release",))]
    assert judged(given, Retention(kinds={"routine": Rule(last=2, until="completed")})) == {
        "chk_01": "DROP 3rd newest routine of agent 'a1', keeps 2",
        "chk_02": "kept: newest 2 per agent and thread, until completed",
        "chk_03": "kept: tagged 'release'",
    }


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tags": ("release",)}, "tagged 'release'"),
        ({"tags": ("release", "v1")}, "tagged 'release', 'v1'"),
        ({"held": "tagged"}, "tagged"),
        ({"held": "tagged", "tags": ("nightly",)}, "tagged 'nightly'"),
        ({"held": "forked from"}, "forked from"),
        ({"held": "paused"}, "paused"),
        ({"held": "newest"}, "newest of its thread"),
        ({"held": "paused", "tags": ("release", "nightly")}, "tagged 'release', paused"),
    ],
)
def test_protected_points_stay_whatever_the_policy_says(fields: dict[str, Any], why: str) -> None:
    policy = Retention(last=0, days=0, bytes=0, until="cleared", tags={"nightly": Rule(last=0)})
    assert judged(points(1, age=99, cleared=True, **fields), policy) == {"chk_01": f"kept: {why}"}


def test_a_protected_point_takes_its_place_among_the_newest_and_an_older_one_costs_nobody_his() -> None:
    given = points(5)
    given[0] = point(1, tags=("release",))
    given[3] = point(4, held="forked from", age=0)
    assert judged(given, Retention(kinds={"routine": Rule(last=3, bytes=300)})) == {
        "chk_01": "kept: tagged 'release'",
        "chk_02": "DROP 4th newest routine of agent 'a1', keeps 3; "
        "4th newest routine of agent 'a1', 400 bytes up to it, keeps 300",
        "chk_03": "kept: newest 3 per agent and thread, at most 300 bytes per agent and thread",
        "chk_04": "kept: forked from",
        "chk_05": "kept: newest 3 per agent and thread, at most 300 bytes per agent and thread",
    }


def test_the_newest_point_of_each_thread_stays() -> None:
    given = [point(1, age=90), point(2, age=90), point(3, age=99, thread="uid-2"), point(4, age=99, thread="uid-2")]
    made = plan(given, Retention(last=0, days=1), NOW)
    assert [(verdict.point.id, verdict.why) for verdict in made.kept] == [
        ("chk_02", "kept: newest of its thread"),
        ("chk_04", "kept: newest of its thread"),
    ]


def test_the_newest_is_told_by_the_log_and_not_by_the_clock() -> None:
    given = [point(1, micros=NOW, id="chk_z"), point(2, micros=NOW, id="chk_a")]
    assert [verdict.point.id for verdict in plan(given, Retention(last=0), NOW).kept] == ["chk_a"]


def test_equal_times_are_told_apart_by_entry_and_then_by_id() -> None:
    given = [
        point(7, id="chk_a", micros=NOW, thread="uid-2"),
        point(7, id="chk_b", micros=NOW, thread="uid-3"),
        point(8, id="chk_0", micros=NOW, thread="uid-4"),
    ]
    made = plan(given, Retention(last=9, per="store"), NOW)
    assert [verdict.point.id for verdict in made.kept] == ["chk_0", "chk_b", "chk_a"]


def test_a_tag_with_a_rule_takes_the_place_of_the_kinds() -> None:
    given = [point(1, tags=("nightly",)), point(2, tags=("nightly",)), point(3, age=40), point(4, age=1)]
    policy = Retention(days=30, kinds={"routine": Rule(last=1)}, tags={"nightly": Rule(last=1)})
    assert judged(given, policy) == {
        "chk_01": "DROP 2nd newest tagged 'nightly' of agent 'a1', keeps 1",
        "chk_02": "kept: newest 1 per agent and thread",
        "chk_03": "DROP 2nd newest routine of agent 'a1', keeps 1",
        "chk_04": "kept: newest 1 per agent and thread",
    }


def test_of_several_tags_one_is_enough_to_keep_a_point() -> None:
    given = [
        point(1, age=40, tags=("nightly", "weekly")),
        point(2, age=400, tags=("nightly", "weekly")),
        point(3, age=400, tags=("nightly", "release")),
    ]
    assert judged(given, Retention(tags={"nightly": Rule(days=7), "weekly": Rule(days=90)})) == {
        "chk_01": "kept: at most 90 days old",
        "chk_02": "DROP older than 7 days; older than 90 days",
        "chk_03": "kept: tagged 'release'",
    }


def test_the_newest_of_a_user_are_kept_across_threads() -> None:
    given = [
        point(1, thread="uid-2"),
        point(2, thread="uid-2", user="bob"),
        point(3, thread="uid-2"),
        point(4, thread="uid-2", user=""),
        point(5, thread="uid-2", user="bob"),
        point(6, thread="uid-3"),
        point(7, thread="uid-2", user=""),
    ]
    assert judged(given, Retention(last=1, per="user", kinds={"head": Rule()})) == {
        "chk_01": "DROP 3rd newest of other kinds of user 'alice', keeps 1",
        "chk_02": "DROP 2nd newest of other kinds of user 'bob', keeps 1",
        "chk_03": "DROP 2nd newest of other kinds of user 'alice', keeps 1",
        "chk_04": "DROP 2nd newest of other kinds of no user, keeps 1",
        "chk_05": "kept: newest 1 per user",
        "chk_06": "kept: newest of its thread",
        "chk_07": "kept: newest of its thread",
    }


def test_limits_may_count_in_a_thread_or_in_the_whole_store() -> None:
    given = [point(1), point(2, agent=None), point(3, thread="uid-2"), point(4, thread="uid-2")]
    kinds = {"head": Rule()}
    assert judged(given, Retention(last=1, per="thread", kinds=kinds)) == {
        "chk_01": "DROP 2nd newest of other kinds of thread 't1', keeps 1",
        "chk_02": "kept: newest 1 per thread",
        "chk_03": "DROP 2nd newest of other kinds of thread 't1', keeps 1",
        "chk_04": "kept: newest of its thread",
    }
    assert judged(given, Retention(bytes=250, per="store", kinds=kinds)) == {
        "chk_01": "DROP 4th newest of other kinds of the store, 400 bytes up to it, keeps 250",
        "chk_02": "DROP 3rd newest of other kinds of the store, 300 bytes up to it, keeps 250",
        "chk_03": "kept: at most 250 bytes in the store",
        "chk_04": "kept: newest of its thread",
    }


def test_clearing_a_user_drops_everything_but_what_forks_and_pauses_need() -> None:
    """S1.37: tagged and newest points go too."""
    given = [
        point(1, tags=("release",)),
        point(2, held="forked from"),
        point(3, held="paused"),
        point(4, held="tagged"),
        point(5, user="bob"),
        point(6, user=""),
        point(7, held="newest"),
    ]
    assert fates(clear(given, "alice")) == {
        "chk_01": "DROP history of user 'alice' cleared",
        "chk_02": "kept: forked from",
        "chk_03": "kept: paused",
        "chk_04": "DROP history of user 'alice' cleared",
        "chk_05": "kept: of user 'bob'",
        "chk_06": "kept: of no user",
        "chk_07": "DROP history of user 'alice' cleared",
    }


def test_one_point_given_twice_counts_once_and_in_two_versions_is_refused() -> None:
    given = points(2)
    assert plan([*given, *given], Retention(last=2), NOW) == plan(given, Retention(last=2), NOW)
    with pytest.raises(InvalidInputError, match="point chk_01 of thread 't1' is given in two versions"):
        plan([*given, point(1, cleared=True)], Retention(), NOW)


def test_copies_of_a_thread_have_points_of_the_same_id() -> None:
    given = [point(1), point(2), point(1, thread="uid-2"), point(2, thread="uid-2")]
    made = plan(given, Retention(last=0), NOW)
    assert [(verdict.point.thread, verdict.point.id) for verdict in made.dropped] == [
        ("uid-2", "chk_01"),
        ("uid-1", "chk_01"),
    ]


def test_a_plan_is_a_table_for_people() -> None:
    given = [
        point(1, agent="a1\n", micros=1_767_225_600_000_000, size=12_345, user=""),
        point(2, tags=("release",), micros=1_767_225_600_000_000, version=1200, user="-"),
        point(3, agent=None, kind="manual", micros=1_800_000_000_000_000),
    ]
    assert plan(given, Retention(days=30), NOW).text() == (
        "1 of 3 points to drop, about 12,345 bytes to free\n"
        "\n"
        "      point   thread  user   agent   kind     version  made                   bytes  why\n"
        "drop  chk_01  t1      -      'a1\\n'  routine        1  2026-01-01 00:00:00Z  12,345  older than 30 days\n"
        "keep  chk_03  t1      alice  -       manual         3  2027-01-15 08:00:00Z     100  "
        "kept: newest of its thread\n"
        "keep  chk_02  t1      '-'    a1      routine    1,200  2026-01-01 00:00:00Z     100  kept: tagged 'release'"
    )


def test_an_empty_plan_says_so() -> None:
    made = plan([], Retention(last=0), NOW)
    assert made == Plan(kept=(), dropped=())
    assert made.text() == "0 of 0 points to drop, about 0 bytes to free"


def test_bytes_are_those_of_what_goes() -> None:
    given = [point(1, size=7), point(2, size=30), point(3, size=500)]
    assert plan(given, Retention(last=1), NOW).bytes == 37


@pytest.mark.parametrize(
    ("rank", "word"), [(2, "2nd"), (3, "3rd"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"), (112, "112th")]
)
def test_places_are_spelled_as_people_do(rank: int, word: str) -> None:
    made = plan([point(n, micros=NOW + n) for n in range(1, rank + 1)], Retention(last=1), NOW)
    assert made.dropped[-1].why == f"{word} newest of agent 'a1', keeps 1"
