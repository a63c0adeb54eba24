"""Which changes become one: every point that stays can be restored from what is left."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.cuts import Cut, cuts, state_at
from perdure.core.seams import Range


class Shelf:
    """A log of changes, some of which were made one. A state is the list of the changes that led to it."""

    def __init__(self, versions: list[int], start: int) -> None:
        self.versions = versions
        self.is_fork = start > 0
        self.steps = [Range(version - 1, version) for version in versions]
        self.whole: set[int] = set()  # those of them that are bases
        self.content = {version: [version] for version in versions}  # what each step that is there adds

    def take(self, found: list[Cut]) -> None:
        """Do what a prune does."""
        for cut in found:
            inside = [step for step in self.steps if cut.low <= step.low and step.high <= cut.high]
            assert tuple(step.high for step in inside) == cut.states
            at = self.steps.index(inside[0])
            self.steps[at : at + len(inside)] = [Range(cut.low, cut.high)]
            self.content[cut.high] = [each for step in inside for each in self.content[step.high]]
            if cut.whole:
                self.whole.add(cut.high)
                self.content[cut.high] = [each for each in self.versions if each <= cut.high]

    def restored(self, version: int) -> list[int] | None:
        """The state at a version, folded from what is there; None when a part of the way is missing."""
        state: list[int] = []
        for step in self.steps:
            if step.high > version:
                return None if step.low < version else state
            state = self.content[step.high] if step.high in self.whole else [*state, *self.content[step.high]]
        return state

    def truth(self, version: int) -> list[int]:
        return self.versions[: bisect_right(self.versions, version)]


@st.composite
def plans(draw: st.DrawFn) -> tuple[Shelf, list[int], list[int], int]:
    """A log, the versions that stay (the newest change among them), those that are dropped, and how much at once."""
    start = draw(st.sampled_from([0, 0, 7]))
    gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=14))
    versions = [start + sum(gaps[: at + 1]) for at in range(len(gaps))]
    points = st.lists(st.integers(start, versions[-1] + 2), max_size=6)
    return Shelf(versions, start), [*draw(points), versions[-1]], draw(points), draw(st.sampled_from([2, 3, 5, 5000]))


def test_a_plan_cuts_between_the_points_that_stay() -> None:
    steps = [Range(at - 1, at) for at in range(1, 10)]
    assert cuts(steps, [3, 7, 9], [1, 5], is_fork=False) == [
        Cut(0, 3, (1, 2, 3), whole=True),
        Cut(3, 7, (4, 5, 6, 7)),
    ]


def test_a_fork_starts_from_its_parents_state_and_gets_no_base() -> None:
    steps = [Range(at - 1, at) for at in range(4, 8)]
    assert cuts(steps, [6, 7], [4], is_fork=True) == [Cut(3, 6, (4, 5, 6))]


def test_nothing_is_cut_where_nothing_is_dropped() -> None:
    steps = [Range(at - 1, at) for at in range(1, 10)]
    assert cuts(steps, [3, 7, 9], [], is_fork=False) == []
    assert cuts(steps, [3, 7, 9], [3, 7], is_fork=False) == []  # they are kept for somebody else
    assert cuts(steps, [4], [6, 9], is_fork=False) == []  # after the newest that is kept
    assert cuts([], [4], [2], is_fork=False) == []


def test_messages_around_a_kept_change_belong_to_it() -> None:
    steps = [Range(0, 1), Range(3, 4), Range(6, 7), Range(7, 8)]  # messages at 2, 3, 5, 6
    assert cuts(steps, [6, 8], [1, 7], is_fork=False) == [Cut(0, 4, (1, 4), whole=True), Cut(6, 8, (7, 8))]


def test_a_record_becomes_part_of_a_larger_one() -> None:
    steps = [Range(0, 1), Range(2, 5), Range(5, 6), Range(6, 7)]
    assert cuts(steps, [1, 7], [6], is_fork=False) == [Cut(2, 7, (5, 6, 7))]


@given(plans())
def test_every_point_that_stays_can_be_restored_after_each_prune(plan: tuple[Shelf, list[int], list[int], int]) -> None:
    shelf, kept, dropped, most = plan
    for _ in range(len(shelf.versions)):
        shelf.take(cuts(shelf.steps, kept, dropped, is_fork=shelf.is_fork, most=most))
        for version in kept:
            if shelf.truth(version):
                assert shelf.restored(version) == shelf.truth(version)


@given(plans())
def test_every_point_that_is_dropped_goes_in_the_end_unless_it_is_kept_too(
    plan: tuple[Shelf, list[int], list[int], int],
) -> None:
    shelf, kept, dropped, most = plan
    for _ in range(len(shelf.versions)):
        shelf.take(cuts(shelf.steps, kept, dropped, is_fork=shelf.is_fork, most=most))
    assert cuts(shelf.steps, kept, dropped, is_fork=shelf.is_fork, most=most) == []
    stay = {state_at(shelf.versions, version) for version in kept}
    gone = {state_at(shelf.versions, version) for version in dropped} - stay - {0}
    assert not gone & {step.high for step in shelf.steps}


@given(plans())
def test_what_goes_at_once_is_bounded(plan: tuple[Shelf, list[int], list[int], int]) -> None:
    shelf, kept, dropped, most = plan
    found = cuts(shelf.steps, kept, dropped, is_fork=shelf.is_fork, most=most)
    assert sum(len(cut.states) for cut in found) <= most
    assert all(len(cut.states) > 1 and cut.states[-1] == cut.high for cut in found)
    assert sum(cut.whole for cut in found) <= (0 if shelf.is_fork else 1)


@given(st.lists(st.integers(1, 30), unique=True), st.integers(0, 40))
def test_a_version_shows_the_newest_change_up_to_it(versions: list[int], version: int) -> None:
    assert state_at(sorted(versions), version) == max([each for each in versions if each <= version], default=0)
