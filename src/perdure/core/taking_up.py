"""Which threads that are due are looked at, and by whom."""

from __future__ import annotations

from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.runs import DECIDED, FAILED, PAUSED, RUNNING, WAITING
from perdure.core.threads import Which

ATTENDED = Which(statuses=(PAUSED,))  # their questions are looked after


def taken_up(policy: RecoveryPolicy, since: int) -> Which:
    """Those that are gone on with by whoever serves since this time.

    What becomes due while somebody serves is taken up in any case; what was due before by the policy. A run that was
    cut off is found when its lease runs out, or at once when its process is dead: that may be long after somebody
    began to serve, so when it happens says nothing, and without `auto_resume` it is never taken up. One whose question
    was answered while it worked on something beside it was cut off all the same.
    """
    decided = () if policy.auto_resume_hitl else (DECIDED,)
    if policy.auto_resume:
        return Which(never=(PAUSED,), left=decided, since=since)
    pending = (WAITING, FAILED)
    return Which(never=(PAUSED, RUNNING), left=(*pending, *decided), since=since, cut_off=(*pending, DECIDED))
