"""Tools that ran, and whose result cannot be kept: that they ran is recorded all the same."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.calls import printable
from perdure.core.errors import UnsupportedValueError
from perdure.core.registry import register


class Unkept(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded in place of a result that cannot be kept: the effect is there, and must not happen again."""

    kind: str  # the type of the result
    path: str
    reason: str
    remedy: str

    def error(self) -> UnsupportedValueError:
        """The error, the same at every attempt."""
        return UnsupportedValueError(self.path, self.reason, self.remedy)


def unkept(value: Any, error: UnsupportedValueError) -> Unkept:
    """What is recorded of such a result."""
    return Unkept(
        kind=printable(type(value).__qualname__), path=printable(error.path), reason=printable(error.reason),
        remedy=printable(error.remedy),
    )  # fmt: skip


register(Unkept, tag="perdure.unkept")
