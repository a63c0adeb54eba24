"""What forks need of the threads they came from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import ThreadExistsError
from perdure.core.forks import needed, same_fork
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow

ROOT = "root"


def line(uid: str, parent: str | None, version: int) -> ThreadRow:
    return ThreadRow(key=ThreadKey("", "", uid), uid=uid, parent_uid=parent, parent_version=version)


def climbed(lines: list[ThreadRow], targets: dict[str, list[int]]) -> list[int]:
    """What every thread needs of the root, found by climbing up from each of them."""
    rows = {each.uid: each for each in lines}
    found: set[int] = set()
    for each in lines:
        bound, at = each.parent_version, each
        while at.parent_uid in rows:
            at = rows[at.parent_uid]
            bound = min(bound, at.parent_version)
        if at.parent_uid == ROOT:
            found |= {bound, *(target for target in targets.get(each.uid, []) if target <= bound)}
    return sorted(found)


@st.composite
def families(draw: st.DrawFn) -> tuple[list[ThreadRow], dict[str, list[int]]]:
    lines: list[ThreadRow] = []
    for number in range(draw(st.integers(0, 7))):
        parent = draw(st.sampled_from([ROOT, "stranger", *(each.uid for each in lines)]))
        lines.append(line(f"t{number}", parent, draw(st.integers(0, 12))))
    versions = st.lists(st.integers(0, 15), max_size=3)
    return draw(st.permutations(lines)), {each.uid: draw(versions) for each in lines}


@given(families())
def test_what_is_needed_is_what_every_descendant_needs(family: tuple[list[ThreadRow], dict[str, list[int]]]) -> None:
    lines, targets = family
    assert needed(ROOT, lines, targets) == climbed(lines, targets)
    assert needed("nobody", lines, targets) == []


def test_a_fork_of_a_fork_may_begin_before_where_that_one_did() -> None:
    lines = [line("child", ROOT, 5), line("early", "child", 3), line("late", "child", 9)]
    assert needed(ROOT, lines) == [3, 5]
    assert needed("child", lines) == [3, 9]


def test_a_rewind_to_before_the_fork_needs_the_parents_version() -> None:
    lines = [line("child", ROOT, 5), line("grandchild", "child", 4)]
    assert needed(ROOT, lines, {"child": [2, 7], "grandchild": [1, 5]}) == [1, 2, 4, 5]


def test_only_the_very_same_fork_answers_again() -> None:
    made = line("child", ROOT, 5)
    assert same_fork(made, ROOT, 5, made) is made
    for parent, version, target in ((ROOT, 4, made), ("other", 5, made), (ROOT, 5, line("second", ROOT, 5))):
        with pytest.raises(ThreadExistsError):
            same_fork(made, parent, version, target)
