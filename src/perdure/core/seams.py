"""Where a log is not simply one version after the other: rewinds, and ranges that were pruned.

A rewind is an ordinary entry that leads back to an earlier state. What lies between stays in the log and is off the
lineage: the state did not come by it. A pruned range has headers and no payloads: the states inside it are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from perdure.core.errors import NotFoundError

PRUNED = "it was pruned"


class Rewind(msgspec.Struct, frozen=True):
    """An entry that went back to the state of an earlier version."""

    entry: int
    to: int


class Range(msgspec.Struct, frozen=True, order=True):
    """Versions after `low` up to `high`."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low < version <= self.high


class Seams(msgspec.Struct, frozen=True):
    """The rewinds and the gone versions of a thread, those of its parents included."""

    rewinds: list[Rewind] = []
    gone: list[Range] = []

    def left(self, at: int) -> list[Range]:
        """The versions up to `at` that are off the lineage of version `at`."""
        return left(self.rewinds, at)

    def is_gone(self, version: int) -> bool:
        """Whether the state at a version was pruned."""
        return within(self.gone, version)

    def targets(self) -> set[int]:
        """The versions that rewinds went back to and that are still there."""
        return {each.to for each in self.rewinds if not self.is_gone(each.to)}

    def nearest(self, version: int, head: int) -> list[int]:
        """The versions next to a pruned one that can still be restored."""
        around = [(each.low, each.high + 1) for each in self.gone if version in each]
        ends = {end for pair in around for end in pair if 0 < end <= head}
        return sorted(end for end in ends if not self.is_gone(end))


NO_SEAMS = Seams()


def left(rewinds: Sequence[Rewind], at: int) -> list[Range]:
    """What a walk from version `at` back to the beginning leaves out, newest first."""
    ranges: list[Range] = []
    for each in sorted(rewinds, key=lambda rewind: rewind.entry, reverse=True):
        if each.entry <= at:
            ranges.append(Range(each.to, each.entry - 1))
            at = each.to
    return ranges


def within(ranges: Iterable[Range], version: int) -> bool:
    """Whether any of these ranges holds a version."""
    return any(version in each for each in ranges)


def check_there(thread_id: str, version: int, gone: Iterable[Range]) -> None:
    """Raise `NotFoundError` for a version whose state was pruned."""
    if within(gone, version):
        raise NotFoundError(f"version {version} of thread {thread_id!r}", PRUNED)
