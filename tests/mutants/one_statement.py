"""Faults in the save that is one statement on PostgreSQL: a WHEN, a condition, a lock or a column of it is left out."""

from __future__ import annotations

from perdure.storage.postgres import saving
from tests.mutants.planting import Plant, rewrite


def judge(old: str, new: str) -> Plant:
    """Change how a write is judged and the line moved."""
    return lambda: rewrite(saving, "_JUDGE", old, new)


def move(old: str, new: str) -> Plant:
    """Change how a known line is moved."""
    return lambda: rewrite(saving, "_MOVE", old, new)


def mark(old: str, new: str) -> Plant:
    """Change how the checkpoint is added."""
    return lambda: rewrite(saving, "_MARK", old, new)


def both(*plants: Plant) -> Plant:
    """Break the two ways at once: what one of them lets pass, the other would still refuse."""

    def plant() -> None:
        for each in plants:
            each()

    return plant


def never(condition: str) -> Plant:
    """Drop a WHEN."""
    return judge(f"WHEN {condition}", f"WHEN false AND {condition}")


def no_chain(way: str, line: str, moment: str) -> Plant:
    head = f"sha256({line}head_digest || int8send({line}head + 1) || int8send({moment}) || :rest || :digest)"
    return lambda: rewrite(saving, way, head, f"coalesce({line}head_digest, :rest || :digest)")


RENEWAL = "greatest(j.lease_until, {until})"
# What is broken, and words of the tests of the contract that have to notice.
IN_ONE_STATEMENT: dict[str, tuple[Plant, str]] = {
    "another thread is written": (both(never("uid <> :uid"), move(" AND uid = :uid", "")), "made_again_by_another"),
    "a late run writes": (never(":epoch::bigint IS NOT NULL"), "late_writer"),
    "a run that gave up writes": (judge(" OR lease_owner IS NULL)", ")"), "late_writer"),
    "a run holds nobody back": (never(":epoch IS NULL AND lease_owner"), "waits_for_the_run"),
    "a run ends a moment early": (judge("lease_until > now", "lease_until > now + 1"), "waits_for_the_run"),
    "a stale writer wins": (never("head_state_version <> :expected"), "stale_writer or one_wins"),
    "a head that moved is moved": (move(" AND head = :head", ""), "stale or one_wins or together or once"),
    "a deleted thread is written": (move(" AND name_key IS NOT NULL", ""), "delet"),
    "a known line ignores leases": (move("AND {free}", "AND ({free} OR true)"), "late_writer or waits_for_the_run"),
    "a known line forgets keys": (move("{unused}", ""), "key"),
    "no lock": (judge("FOR NO KEY UPDATE", ""), "next_claim"),
    "chain not computed": (no_chain("_JUDGE", "j.", "j.moment"), "chain_digest"),
    "chain of a known line not computed": (no_chain("_MOVE", "", "greatest(now, updated_at)"), "chain_digest"),
    "time goes back": (
        both(
            judge("greatest(now, updated_at)", "now"),
            move("updated_at = greatest(now, updated_at)", "updated_at = now"),
        ),
        "times_of_a_known",
    ),
    "the lease is not renewed": (judge(RENEWAL, "j.lease_until"), "renews_the_lease"),
    "a known lease is not renewed": (move("= {lease}", "= lease_until"), "renews_the_lease"),
    "the lease is cut short": (judge(RENEWAL, "{until}"), "renews_the_lease"),
    "others renew the lease": (judge("CASE WHEN :epoch IS NULL", "CASE WHEN :epoch < 0"), "renews_the_lease"),
    "messages change the state": (
        both(judge(":changes::boolean", "true"), move(":changes::boolean", "true")),
        "changes_no_state",
    ),
    "the last checkpoint stays": (
        both(judge("= {last}", "= coalesce(j.last_checkpoint, {last})"), move("= {last}", "= last_checkpoint")),
        "each_",
    ),
    "the parent is dropped": (mark("{parent}", ":mark_parent"), "follow_each_other"),
    "a given version is dropped": (mark("coalesce(:mark_version, m.head)", "m.head"), "follow_each_other"),
}
