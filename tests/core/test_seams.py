"""The lineage of a version past rewinds, and what is left of pruned ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import NotFoundError
from perdure.core.seams import NO_SEAMS, Range, Rewind, Seams, check_there, left, within


def walked(rewinds: list[Rewind], at: int) -> list[int]:
    """The versions that a state came by, newest first, found by walking back one version after the other."""
    back = {rewind.entry: rewind.to for rewind in rewinds}
    found: list[int] = []
    while at > 0:
        found.append(at)
        at = back.get(at, at - 1)
    return found


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Rewind], int]:
    """A log of up to thirty entries, some of which go back to any version before them, others' left ones too."""
    head = draw(st.integers(1, 30))
    entries = draw(st.lists(st.integers(2, 30), unique=True, max_size=8))
    rewinds = [Rewind(entry, draw(st.integers(0, entry - 1))) for entry in entries if entry <= head]
    return rewinds, head


@given(log=logs(), data=st.data())
def test_what_is_not_left_is_the_way_that_led_to_a_version(log: tuple[list[Rewind], int], data: st.DataObject) -> None:
    rewinds, head = log
    at = data.draw(st.integers(1, head))
    ranges = left(data.draw(st.permutations(rewinds)), at)
    assert [version for version in range(at, 0, -1) if not within(ranges, version)] == walked(rewinds, at)
    assert Seams(rewinds).left(at) == ranges


@pytest.mark.parametrize(
    ("rewinds", "at", "lineage"),
    [
        ([], 4, [4, 3, 2, 1]),
        ([Rewind(5, 2)], 6, [6, 5, 2, 1]),
        ([Rewind(5, 2)], 4, [4, 3, 2, 1]),  # before it happened
        ([Rewind(5, 2), Rewind(6, 4)], 7, [7, 6, 4, 3, 2, 1]),  # a redo: the rewind itself is left
        ([Rewind(5, 2), Rewind(6, 4), Rewind(7, 5)], 7, [7, 5, 2, 1]),  # … and taken back again
        ([Rewind(5, 4)], 5, [5, 4, 3, 2, 1]),  # to the version before it: nothing is left
        ([Rewind(5, 0)], 6, [6, 5]),
    ],
)
def test_a_redo_leads_past_the_rewind_it_takes_back(rewinds: list[Rewind], at: int, lineage: list[int]) -> None:
    assert [version for version in range(at, 0, -1) if not within(left(rewinds, at), version)] == lineage


def test_targets_are_the_versions_that_rewinds_still_lead_to() -> None:
    seams = Seams([Rewind(5, 2), Rewind(7, 4), Rewind(9, 2)], [Range(2, 4)])
    assert seams.targets() == {2}
    assert NO_SEAMS.targets() == set()


@pytest.mark.parametrize(
    ("gone", "version", "head", "near"),
    [
        ([Range(2, 5)], 4, 9, [2, 6]),
        ([Range(0, 5)], 4, 9, [6]),  # nothing before the oldest point
        ([Range(2, 5), Range(5, 7)], 4, 9, [2]),  # the next one is gone too
        ([Range(2, 5), Range(5, 7)], 6, 9, [8]),
        ([Range(2, 5)], 4, 5, [2]),  # as seen by one that ends there
        ([Range(2, 5)], 6, 9, []),
    ],
)
def test_the_nearest_to_a_pruned_version_can_be_restored(
    gone: list[Range], version: int, head: int, near: list[int]
) -> None:
    assert Seams([], gone).nearest(version, head) == near


def test_the_ends_of_a_range_are_there() -> None:
    gone = [Range(2, 5)]
    for version in (1, 2, 6):
        check_there("t1", version, gone)
    for version in (3, 5):
        with pytest.raises(NotFoundError, match="pruned"):
            check_there("t1", version, gone)
