"""Who may decide about a pause: people, groups, and who must not."""

from __future__ import annotations

import pytest

from perdure.core.approvers import approver_of, check_who, may_decide, only_approver, with_starter
from perdure.errors import InvalidInputError

WHO = ("ann", "group:finance", "not:bob")


@pytest.mark.parametrize(
    ("who", "by", "groups", "may"),
    [
        ((), "zoe", (), True),
        (("ann",), "ann", (), True),
        (("ann",), "zoe", (), False),
        (("group:finance",), "zoe", ("finance",), True),
        (("group:finance",), "zoe", ("sales",), False),
        (("group:finance",), "finance", (), False),  # a person is not a group of the same name
        (("ann",), "zoe", ("ann",), False),  # nor a group a person
        (("not:bob",), "bob", (), False),
        (("not:bob",), "zoe", (), True),
        (("group:finance", "not:bob"), "bob", ("finance",), False),
        (("bob", "not:bob"), "bob", (), False),
        (("not:group:sales",), "zoe", ("sales",), False),
        (("ann", "not:group:sales"), "ann", ("sales",), False),
    ],
)
def test_only_the_invited_who_are_not_barred_may_decide(
    who: tuple[str, ...], by: str, groups: tuple[str, ...], may: bool
) -> None:
    assert may_decide(who, by, groups) is may


def test_the_starter_is_named_when_the_pause_is_opened() -> None:
    assert with_starter(("ann", "not:starter"), ("web", "alice", None, "web")) == ("ann", "not:web", "not:alice")
    assert with_starter(("ann",), (None,)) == ("ann",)


def test_a_rule_about_a_starter_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="give the thread a user"):
        with_starter(("not:starter",), (None, ""))


@pytest.mark.parametrize("who", [[], (), "", [""], ["group:"], ["not:"], ["not:not:bob"], ["group:group:x"], 7, [7]])
def test_an_address_that_names_nobody_is_refused(who: object) -> None:
    with pytest.raises(InvalidInputError):
        check_who(who)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("by", ["group:finance", "not:bob", "", 7, None])
def test_nobody_decides_in_the_name_of_a_group(by: object) -> None:
    with pytest.raises(InvalidInputError):
        approver_of(by)


@pytest.mark.parametrize("groups", ["finance", ["group:finance"], [""], [7], 7])
def test_groups_are_a_list_of_names(groups: object) -> None:
    with pytest.raises(InvalidInputError):
        approver_of("ann", groups)  # pyright: ignore[reportArgumentType]


def test_a_link_is_sent_only_where_one_person_may_decide() -> None:
    assert only_approver(("ann",)) == "ann"
    assert only_approver(("ann", "not:bob")) == "ann"
    for who in ((), ("ann", "bob"), ("group:finance",), ("not:bob",), ("ann", "not:ann")):
        assert only_approver(who) is None
