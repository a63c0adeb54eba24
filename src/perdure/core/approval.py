"""Which operations a person is asked about, and how long an answer is waited for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from perdure.core.approvals import Approvals
from perdure.core.recovery_policy import RecoveryPolicy


def needs_approval(approvals: Approvals, name: str, *, required: bool) -> bool:
    """Whether an operation is asked about: by the operator's list, or by its own word where nobody trusts it.

    A name in a list may have `*` for any letters.
    """
    if _listed(name, approvals.require_approval_for):
        return True
    return required and not _listed(name, approvals.trusted_operations)


def patience(approvals: Approvals, recovery: RecoveryPolicy) -> float | None:
    """Seconds after which a question that names no deadline is denied; None for never."""
    waits = [recovery.timeout, approvals.timeout if approvals.auto_reject else None]
    return min((each for each in waits if each is not None), default=None)


def _listed(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
