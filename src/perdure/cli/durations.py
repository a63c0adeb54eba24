"""Spans of time in words."""

from __future__ import annotations

from datetime import datetime

_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """3 days, 1 day, 5 h, 12 min, 40 s: the largest unit only, rounded down."""
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count:
            return f"{count} day{'' if count == 1 else 's'}" if unit == "day" else f"{count} {unit}"
    return "0 s"


def ago(at: datetime, now: datetime) -> str:
    """How long ago a time was."""
    return f"{span((now - at).total_seconds())} ago"


def until(deadline: datetime, now: datetime) -> str:
    """How much time is left until a deadline."""
    left = (deadline - now).total_seconds()
    return f"in {span(left)}" if left > 0 else "expired"
