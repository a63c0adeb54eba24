"""What a comparison says: messages side by side, where they part, text for a terminal, data for a program."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core.codec import encode
from perdure.core.compare_rows import aligned
from perdure.core.comparison import NO_PAST, Comparison, Comparisons, Side, compare, compare_all
from perdure.core.diff import MISSING

texts = st.lists(st.sampled_from(["a", "b", "c", "d", "a long line of text", "a long line of words"]), max_size=6)


def side(*messages: Any, status: str | None = None, **fields: Any) -> Side:
    return Side(encoded=Raw(encode({"messages": list(messages), **fields})), thread="t", version=1, status=status)


def many(*sides: Side) -> Comparisons:
    return compare_all(sides, [NO_PAST] * (len(sides) - 1), NO_PAST)


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


ASKED, ANSWERED, THANKED = said("user", "Where is my order?"), said("ai", "On its way."), said("user", "Thank you!")


def rows(comparison: Comparison | Comparisons) -> list[tuple[Any, ...]]:
    return [(row.kind, *row.indexes) for row in comparison.messages]


def test_messages_stand_side_by_side() -> None:
    """B6: aligned steps."""
    looked = said("tool", '{"order": 7}')
    edited = said("ai", "On its way. It comes on Monday.")
    found = compare(side(ASKED, ANSWERED, THANKED), side(ASKED, looked, edited))
    assert rows(found) == [("same", 0, 0), ("right", None, 1), ("changed", 1, 2), ("left", 2, None)]
    assert [(row.old, row.new) for row in found.messages[1:]] == [
        (MISSING, looked),
        (ANSWERED, edited),
        (THANKED, MISSING),
    ]
    assert [str(each) for each in found.messages[2].differences] == [
        "content: 'On its way.' -> 'On its way. It comes on Monday.'"
    ]


def test_the_first_row_that_differs_is_where_conversations_part() -> None:
    """B6: first divergence."""
    found = compare(side(ASKED, ANSWERED), side(ASKED, THANKED, ANSWERED))
    assert found.first_divergence is not None
    assert found.first_divergence.message == found.messages[1]
    assert (found.first_divergence.common, found.first_divergence.version) == (None, None)
    assert compare(side(ASKED), side(ASKED)).first_divergence is None


def test_a_message_that_only_has_its_keys_in_another_order_is_the_same() -> None:
    turned = {"content": ASKED["content"], "role": "user"}
    assert rows(compare(side(ASKED), side(turned))) == [("same", 0, 0)]


def test_what_two_of_three_added_stands_in_one_row() -> None:
    """B6: 2 to 4 at once."""
    looked = said("tool", '{"order": 7}')
    found = many(side(ASKED, ANSWERED), side(ASKED, looked, ANSWERED), side(ASKED, looked, ANSWERED, THANKED))
    assert rows(found) == [
        ("same", 0, 0, 0),
        ("some", None, 1, 1),
        ("same", 1, 2, 2),
        ("some", None, None, 3),
    ]
    assert found.messages[1].values == (MISSING, looked, looked)
    assert found.first_divergence is not None
    assert found.first_divergence.message == found.messages[1]


@given(st.lists(texts, min_size=2, max_size=4))
def test_every_message_of_every_column_is_in_one_row_and_in_order(columns: list[list[str]]) -> None:
    encoded = [[Raw(encode(text)) for text in column] for column in columns]
    made = aligned(encoded)
    for at, column in enumerate(columns):
        assert [row.indexes[at] for row in made if row.indexes[at] is not None] == list(range(len(column)))
    assert all(any(index is not None for index in row.indexes) for row in made)
    assert all((row.kind == "same") == (len(set(map(str, row.values))) == 1) for row in made)


def test_three_are_each_compared_with_the_first() -> None:
    found = many(side(n=1, status="open"), side(n=1, m=2), side(n=2, status="done"))
    assert [str(one) for one in found.each] == ["m: (missing) -> 2", "n: 1 -> 2"]
    assert found.changed_fields == ["m", "n"]
    assert found.statuses == ("open", None, "done")
    assert not found.equal
    assert found.text().count("--- t@1 (open)") == 2
    assert many(side(n=1), side(n=1), side(n=1)).equal


def test_the_text_names_both_sides_and_each_path() -> None:
    found = compare(side(ASKED, city="Paris", status="open"), side(ASKED, THANKED, city="Rome", days=3))
    assert found.text() == (
        "--- t@1 (open)\n"
        "+++ t@1\n"
        "@@ messages[1:1] @@\n"
        "+{'role': 'user', 'content': 'Thank you!'}\n"
        "@@ city @@\n"
        "-'Paris'\n"
        "+'Rome'\n"
        "@@ days @@\n"
        "+3\n"
    )
    assert compare(side(), side()).text() == "--- t@1\n+++ t@1\nno difference\n"


def test_colour_is_there_when_it_is_asked_for() -> None:
    found = compare(side(city="Paris"), side(city="Rome"))
    assert "\x1b[31m-'Paris'\x1b[0m\n\x1b[32m+'Rome'\x1b[0m" in found.text(color=True)
    assert "\x1b" not in found.text()


def test_a_text_of_many_lines_shows_those_that_changed_and_one_around_them() -> None:
    old, new = "one\ntwo\nthree\nfour\nfive", "one\ntwo\n3\nfour\nfive"
    shown = compare(side(plan=old), side(plan=new)).text().splitlines()[2:]
    assert shown == ["@@ plan @@", " two", "-three", "+3", " four"]


def test_a_change_far_inside_a_long_line_is_shown_and_not_its_beginning() -> None:
    old, new = "x" * 1000 + "Paris" + "y" * 1000, "x" * 1000 + "Rome" + "y" * 1000
    minus, plus = compare(side(plan=old), side(plan=new)).text().splitlines()[-2:]
    assert "xPariy" not in minus
    assert "xParis" in minus
    assert "xRome" in plus
    assert max(len(minus), len(plus)) < 200


def test_nothing_that_was_stored_is_obeyed_by_a_terminal() -> None:
    nasty = "\x1b[2J\x9b31m\r\n\x07\u202e\ud800"
    found = compare(side(**{nasty: 1}, a="x\ny"), side(**{nasty: 2}, a=f"x\n{nasty}"))
    assert all(line.isprintable() for line in found.text().splitlines())


def test_data_has_everything_in_plain_words() -> None:
    found = compare(side(ASKED, n=1, status="open"), side(ASKED, THANKED, n=(1,), status="done"))
    assert found.data() == {
        "equal": False,
        "old": {"thread": "t", "user": None, "version": 1, "status": "open"},
        "new": {"thread": "t", "user": None, "version": 1, "status": "done"},
        "changed_fields": ["messages", "n"],
        "differences": [
            {"path": "messages[1:1]", "old": [], "new": [THANKED]},
            {"path": "n", "old": 1, "new": {"$tuple": [1]}},
        ],
        "messages": [
            {"kind": "same", "indexes": [0, 0]},
            {"kind": "right", "indexes": [None, 1], "values": [None, THANKED]},
        ],
        "first_divergence": {
            "common": None,
            "version": None,
            "entries": [],
            "message": {"kind": "right", "indexes": [None, 1], "values": [None, THANKED]},
        },
    }
    assert many(side(n=1), side(n=1), side(n=2)).data()["each"][1]["changed_fields"] == ["n"]
