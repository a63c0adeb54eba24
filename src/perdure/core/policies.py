"""How the runs of a store behave, as it was opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.core.approvals import Approvals
from perdure.core.errors import InvalidInputError
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.triggers import Triggers
from perdure.core.webhooks import Webhook


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What `open` was told about runs."""

    checkpoints: Triggers = Triggers()
    recovery: RecoveryPolicy = RecoveryPolicy()
    approvals: Approvals = Approvals()
    webhooks: tuple[Webhook, ...] = ()


_KINDS = {"checkpoints": Triggers, "recovery": RecoveryPolicy, "approvals": Approvals}


def policies_of(*, webhooks: Iterable[Any] = (), **given: Any) -> Policies:
    """The policies that were given, the others as they are by default; raise `InvalidInputError` for anything else."""
    known = {name: value for name, value in given.items() if value is not None}
    for name, value in known.items():
        if not isinstance(value, _KINDS[name]):
            raise InvalidInputError(f"{name} must be a {_KINDS[name].__name__}, not {value!r}")
    for each in webhooks:
        if not isinstance(each, Webhook):
            raise InvalidInputError(f"webhooks must be a list of Webhook, not of {each!r}")
    return Policies(webhooks=tuple(webhooks), **known)
