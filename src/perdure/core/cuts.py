"""Which changes of a log become one: the ranges between the points that stay."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

import msgspec

from perdure.core.seams import Range

MOST = 5000  # changes that one write drops; more are dropped by several, each whole in itself


class Cut(msgspec.Struct, frozen=True):
    """A range of changes that becomes a record at `high`: a base, or one composed change."""

    low: int
    high: int
    states: tuple[int, ...]  # the changes in it, `high` the last of them
    whole: bool = False


def state_at(states: Sequence[int], version: int) -> int:
    """The change whose state a version shows; 0 for one before the first."""
    at = bisect_right(states, version)
    return states[at - 1] if at else 0


def cuts(
    steps: Sequence[Range], kept: Collection[int], dropped: Collection[int], *, is_fork: bool, most: int = MOST
) -> list[Cut]:
    """The ranges of a log to make one, so that every version in `kept` can still be restored.

    `steps` are the thread's own changes in order, each with the version before it; one that is a record already has
    the version before its range. Only ranges with a dropped point in them are cut, and nothing after the newest that
    is kept. A fork has its parent's state to start from; any other thread gets a base at the oldest point that stays.
    A long log is cut for a part of the way: the next time goes on.
    """
    states = [step.high for step in steps]
    ends = sorted({state_at(states, version) for version in kept} - {0})
    gone = sorted(state_at(states, version) for version in dropped)
    found: list[Cut] = []
    low, budget = 0, most
    for high in ends:
        inside = steps[bisect_right(states, low) : bisect_right(states, high)][: max(budget, 0)]
        if len(inside) > 1 and bisect_right(gone, high - 1) > bisect_right(gone, low):
            found.append(_cut(inside, whole=not is_fork and inside[0] == steps[0]))
            budget -= len(inside)
        low = high
    return found


def _cut(inside: Sequence[Range], *, whole: bool) -> Cut:
    return Cut(0 if whole else inside[0].low, inside[-1].high, tuple(step.high for step in inside), whole)
