"""Which threads that are due are looked at, and by whom."""

from __future__ import annotations

from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.runs import DECIDED, FAILED, PAUSED, RUNNING, WAITING
from perdure.core.threads import Which

ATTENDED = Which(statuses=(PAUSED,))  # their questions are looked after


def taken_up(policy: RecoveryPolicy, since: int) -> Which:
    """Those that are gone on with by whoever serves since this time.

    What becomes due while somebody serves is taken up in any case; what was due before by the policy.
    """
    pending = () if policy.auto_resume else (RUNNING, WAITING, FAILED)
    decided = () if policy.auto_resume_hitl else (DECIDED,)
    return Which(never=(PAUSED,), left=(*pending, *decided), since=since)
