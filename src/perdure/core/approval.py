"""Which operations a person is asked about, and how long an answer is waited for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
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


def misspelt(approvals: Approvals, tools: Iterable[str]) -> dict[str, str]:
    """Names of the operator's lists that are no tool of these and look like one that is not listed: what was meant.

    A name that looks like none may be a tool of another agent, or one of code that calls `run.tool`.
    """
    names = (*approvals.require_approval_for, *approvals.trusted_operations)
    known = tuple(tools)
    free = [tool for tool in known if not _listed(tool, names)]
    strange = [name for name in names if not any(fnmatchcase(tool, name) for tool in known)]
    near = {name: get_close_matches(name.strip("*"), free, 1, cutoff=0.8) for name in strange}
    return {name: found[0] for name, found in near.items() if found}


def patience(approvals: Approvals, recovery: RecoveryPolicy) -> float | None:
    """Seconds after which a question that names no deadline is denied; None for never."""
    waits = [recovery.timeout, approvals.timeout if approvals.auto_reject else None]
    return min((each for each in waits if each is not None), default=None)


def _listed(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
