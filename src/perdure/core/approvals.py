"""Which tools a person has to approve."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.recovery_policy import is_seconds


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools a person is asked about before they run, by name; `trusted_operations` are never asked about.

    After `timeout` seconds a question that nobody answered is denied; None, or without `auto_reject`: it waits on.
    """

    require_approval_for: tuple[str, ...] = ()
    trusted_operations: tuple[str, ...] = ()
    timeout: float | None = None
    auto_reject: bool = True

    def __post_init__(self) -> None:
        for name in ("require_approval_for", "trusted_operations"):
            _check_names(getattr(self, name), name)
        if both := sorted({*self.require_approval_for} & {*self.trusted_operations}):
            raise InvalidInputError(f"{both[0]!r} cannot be trusted and need approval")
        if self.timeout is not None and not is_seconds(self.timeout):
            raise InvalidInputError(f"timeout must be a number of seconds, or None, not {self.timeout!r}")
        if type(self.auto_reject) is not bool:
            raise InvalidInputError(f"auto_reject must be True or False, not {self.auto_reject!r}")


def _check_names(names: Iterable[object], what: str) -> None:
    if type(names) is not tuple or not all(type(each) is str and each for each in names):
        raise InvalidInputError(f"{what} must be a tuple of names, not {names!r}")
