"""What a store goes on with by itself when it starts."""

from __future__ import annotations

import msgspec

from perdure.core.errors import InvalidInputError


class RecoveryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to runs that were left when a program starts again.

    With `auto_resume` those that were cut off go on, with `auto_resume_hitl` also those whose question was answered
    meanwhile; else they stay until somebody resumes them. After `timeout` seconds a pause that nobody decided expires;
    None: never.
    """

    auto_resume: bool = True
    auto_resume_hitl: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name in ("auto_resume", "auto_resume_hitl"):
            if type(getattr(self, name)) is not bool:
                raise InvalidInputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.timeout is not None and not is_seconds(self.timeout):
            raise InvalidInputError(f"timeout must be a number of seconds, or None, not {self.timeout!r}")


def is_seconds(value: object) -> bool:
    """Whether a value is a time to wait: a number, more than nothing, that ends."""
    return type(value) in (int, float) and 0 < value < float("inf")  # type: ignore[operator]
