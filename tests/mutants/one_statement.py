"""Faults in the save that is one statement on PostgreSQL: a condition or a column of it is left out.

It continues a row that this process knows at a time that it knows. What it would wrongly let pass may be refused by a
unique index: some conditions are there for speed alone, and leaving those out is no fault.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from perdure.storage.postgres import save_statement
from perdure.storage.postgres.dialect import dialect
from perdure.storage.sql.statements import Statements
from tests.mutants.planting import Plant


def told(*changes: tuple[str, str]) -> Plant:
    """Change how a known line is continued; the values keep their places."""

    def plant() -> None:
        number = save_statement._numbered

        def otherwise(text: str, *which: Any) -> str:
            for old, new in changes:
                text = text.replace(old, new)
            return number(text, *which)

        save_statement._numbered = otherwise
        texts = save_statement.SaveStatement(Statements(dialect("perdure", "string")), None)
        written = [texts.text.__wrapped__(texts, *flags) for flags in product((True, False), repeat=3)]
        assert all(any(number(new, True, True, 1) in text for text in written) for _, new in changes), changes

    return plant


def any_time() -> None:
    """A time of ours is taken whatever the server's clock says."""
    save_statement._IN_TIME = "\n    AND :told::bigint IS NOT NULL"


# What is broken, and words of the tests of the contract that have to notice.
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
