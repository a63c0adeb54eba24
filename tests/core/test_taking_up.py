"""What a start goes on with by itself, by its policy."""

from __future__ import annotations

import pytest

from perdure.core.identity import ThreadKey
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.runs import DECIDED, FAILED, PAUSED, QUEUED, RUNNING, WAITING
from perdure.core.taking_up import taken_up
from perdure.core.threads import ThreadRow, is_wanted

SINCE, BEFORE, LATER = 1000, 999, 1001
EVERY = (QUEUED, RUNNING, WAITING, FAILED, PAUSED, DECIDED)


def line(status: str, due: int, owner: str | None) -> ThreadRow:
    return ThreadRow(
        key=ThreadKey("", "", "t"), uid="u", status=status, lease_owner=owner, lease_until=due if owner else 0,
        wake_at=None if owner else due,
    )  # fmt: skip


def gone_on_with(policy: RecoveryPolicy, due: int, owner: str | None = None) -> tuple[str, ...]:
    which = taken_up(policy, SINCE)
    return tuple(status for status in EVERY if is_wanted(line(status, due, owner), which))


@pytest.mark.parametrize(
    ("policy", "before", "later"),
    [
        (RecoveryPolicy(auto_resume_hitl=True), (QUEUED, RUNNING, WAITING, FAILED, DECIDED), ()),
        (RecoveryPolicy(), (QUEUED, RUNNING, WAITING, FAILED), (DECIDED,)),
        (RecoveryPolicy(auto_resume=False, auto_resume_hitl=True), (QUEUED, DECIDED), (WAITING, FAILED)),
        (RecoveryPolicy(auto_resume=False), (QUEUED,), (WAITING, FAILED, DECIDED)),
    ],
)
def test_what_was_due_before_goes_by_the_policy_and_what_becomes_due_goes_on(
    policy: RecoveryPolicy, before: tuple[str, ...], later: tuple[str, ...]
) -> None:
    """S4.18–S4.20"""
    assert gone_on_with(policy, BEFORE) == before
    assert set(gone_on_with(policy, LATER)) == {*before, *later}


@pytest.mark.parametrize("due", [BEFORE, LATER])
@pytest.mark.parametrize("hitl", [True, False])
def test_what_was_cut_off_goes_by_auto_resume_alone_whatever_was_answered_and_whenever_its_lease_ran_out(
    due: int, hitl: bool
) -> None:
    """S4.18: the process that held it may have been killed before this one began."""
    policies = [RecoveryPolicy(auto_resume=resume, auto_resume_hitl=hitl) for resume in (True, False)]
    found = [gone_on_with(policy, due, "somebody") for policy in policies]
    assert found == [(QUEUED, RUNNING, WAITING, FAILED, DECIDED), (QUEUED,)]
