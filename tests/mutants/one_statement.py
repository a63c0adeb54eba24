"""Faults in the save that is one statement on PostgreSQL: a condition, a lock or a column of it is left out.

Three statements do it: one continues a line that this process knows at a time that it knows, one moves a known line at
whatever time it is there, and one judges any line. What only one of them would let pass is refused by the next, by a
unique index or by the slow way: some conditions are there for speed alone, and leaving those out is no fault.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from perdure.storage.postgres import continuing, saving
from perdure.storage.postgres.dialect import dialect
from perdure.storage.sql.statements import Statements
from tests.mutants.planting import Plant

MOVE, JUDGE = "move", "judge"


def _changed(which: str, old: str, new: str) -> Plant:
    """Change the text of one of the statements."""

    def plant() -> None:
        number: Callable[[str], saving.Statement] = saving._numbered
        changed: list[str] = []

        def otherwise(text: str) -> saving.Statement:
            is_it = which == (JUDGE if "AS verdict" in text else MOVE)
            changed.extend([text] if is_it and old in text else [])
            return number(text.replace(old, new) if is_it else text)

        saving._numbered = otherwise
        _write_all()
        assert changed, f"no statement says {old!r}: the fault is not planted"

    return plant


def _write_all() -> None:
    """Every statement there is, once."""
    texts = saving.Saving(Statements(dialect("perdure", "string")), server_time=False)
    for in_run, has_key, has_mark, changes in product((True, False), repeat=4):
        texts.move(in_run, has_key, has_mark, changes)
        texts.judge(has_key, has_mark)


def move(old: str, new: str) -> Plant:
    """Change how a known line is moved."""
    return _changed(MOVE, old, new)


def judge(old: str, new: str) -> Plant:
    """Change how a write is judged and its line moved."""
    return _changed(JUDGE, old, new)


def told(*changes: tuple[str, str]) -> Plant:
    """Change how a known line is continued; the values keep their places."""

    def plant() -> None:
        number = continuing._numbered

        def otherwise(text: str, *which: Any) -> str:
            for old, new in changes:
                text = text.replace(old, new)
            return number(text, *which)

        continuing._numbered = otherwise
        texts = continuing.Continuing(Statements(dialect("perdure", "string")), None)
        written = [texts.text.__wrapped__(texts, *flags) for flags in product((True, False), repeat=3)]
        assert all(any(number(new, True, True, 1) in text for text in written) for _, new in changes), changes

    return plant


def any_time() -> None:
    """A time of ours is taken whatever the server's clock says."""
    continuing._IN_TIME = ""


def never(condition: str) -> Plant:
    """Drop a WHEN; the values in it keep their types."""
    return judge(f"WHEN {condition}", f"WHEN false AND {condition}")


NOBODY_RUNS = "epoch = :epoch AND name_key IS NOT NULL\n    AND lease_owner IS NULL"
MOMENT = "greatest(:micros::bigint, updated_at)"
MOVED_CHAIN = f"sha256(head_digest || int8send(head + 1) || int8send({MOMENT}) || :rest1 || :digest1)"
JUDGED_CHAIN = "sha256(j.head_digest || int8send(j.head + 1) || int8send(j.moment) || :rest1 || :digest1)"
# What is broken, and words of the tests of the contract that have to notice.
ON_KNOWN_LINES: dict[str, tuple[Plant, str]] = {
    "another head is moved": (move("head = :head AND head_digest = :before::bytea", "head >= 0"), "known"),
    "a deleted line is moved": (move("name_key IS NOT NULL", "true"), "forks_still_need"),
    "a late run writes": (move("epoch = :epoch AND", ""), "late_writer"),
    "a run that gave up writes": (move("AND lease_owner IS NOT NULL", ""), "late_writer"),
    "a run holds nobody back": (move(NOBODY_RUNS, "true"), "run"),
    "chain not computed": (move(MOVED_CHAIN, "head_digest"), "chain_digest"),
    "time goes back": (move(MOMENT, ":micros::bigint"), "times_of_a_known"),
    "the lease is not renewed": (move("greatest(lease_until, :until)", "lease_until"), "renews_the_lease"),
    "the lease is cut short": (move("greatest(lease_until, :until)", ":until"), "renews_the_lease"),
    "messages change the state": (
        move("head_state_version = head_s", "head_state_version = head + 1 + 0 * head_s"),
        "no_state",
    ),
    "the last checkpoint stays": (move("last_checkpoint = :mark", "last_checkpoint = NULL"), "follow_each_other"),
    "the parent is dropped": (move("coalesce(:mark_parent, :last_mark)", ":mark_parent"), "follow_each_other"),
    "a given parent is dropped": (move("coalesce(:mark_parent, :last_mark)", ":last_mark"), "follow_each_other"),
    "a given version is dropped": (move("coalesce(:mark_version, m.head)", "m.head"), "follow_each_other"),
}
# Where the entries stand tells of another head, too, unless the database was restored.
ANY_HEAD = told(("head = :head AND head_digest = :before", "head >= 0 * :head AND (head_digest = :before OR true)"))
# An epoch and the end of a lease tell of the same changes.
_LATE = (("epoch = :epoch", "(epoch = :epoch OR true)"), ("lease_until = :lease", "(lease_until = :lease OR true)"))
ON_TOLD_LINES: dict[str, tuple[Plant, str]] = {
    "a deleted line is moved": (told(("name_key IS NOT NULL", "true")), "forks_still_need"),
    "a late run writes": (told(*_LATE), "late_writer"),
    "a run that gave up writes": (told(*_LATE, ("lease_owner IS NOT NULL", "true")), "late_writer"),
    "a run holds nobody back": (told(*_LATE, ("lease_owner IS NULL", "true")), "run"),
    "the lease is not renewed": (
        told(("lease_until = :until", "lease_until = lease_until + 0 * :until")),
        "renews_the",
    ),
    "the state stays": (
        told(("head_state_version = :state", "head_state_version = line.head_state_version + 0 * :state")),
        "known",
    ),
    "the last checkpoint stays": (
        told(("last_checkpoint = :last", "last_checkpoint = nullif(:last::text, :last)")),
        "follow_each_other",
    ),
    "the parent is dropped": (told((":mark_parent", "nullif(:mark_parent::text, :mark_parent)")), "follow_each_other"),
}
ON_ANY_LINE: dict[str, tuple[Plant, str]] = {
    "another thread is written": (never("uid <> :uid"), "made_again_by_another"),
    "a late run writes": (never(":epoch::bigint IS NOT NULL"), "late_writer"),
    "a run that gave up writes": (judge(" OR lease_owner IS NULL)", ")"), "late_writer"),
    "a run holds nobody back": (never(":epoch IS NULL AND lease_owner"), "waits_for_the_run"),
    "a run ends a moment early": (judge("lease_until > now", "lease_until > now + 1"), "waits_for_the_run"),
    "a stale writer wins": (never("head_state_version <> :expected"), "stale_writer or one_wins"),
    "no lock": (judge("FOR NO KEY UPDATE", ""), "next_claim"),
    "chain not computed": (judge(JUDGED_CHAIN, "j.head_digest"), "chain_digest"),
    "time goes back": (judge("greatest(now, updated_at)", "now"), "times_of_a_known"),
    "the lease is not renewed": (judge("greatest(j.lease_until, :until)", "j.lease_until"), "renews_the_lease"),
    "the lease is cut short": (judge("greatest(j.lease_until, :until)", ":until"), "renews_the_lease"),
    "others renew the lease": (judge("CASE WHEN :epoch IS NULL THEN j", "CASE WHEN :epoch < 0 THEN j"), "renews_the_"),
    "messages change the state": (judge("WHEN :changes::boolean", "WHEN true"), "changes_no_state"),
    "the last checkpoint stays": (judge("last_checkpoint = :mark", "last_checkpoint = NULL"), "follow_each_other"),
    "the parent is dropped": (judge("coalesce(:mark_parent, j.last_checkpoint)", ":mark_parent"), "follow_each_other"),
    "a given parent is dropped": (judge("coalesce(:mark_parent, j", "coalesce(NULL, j"), "follow_each_other"),
    "a given version is dropped": (judge("coalesce(:mark_version, m.head)", "m.head"), "follow_each_other"),
}
