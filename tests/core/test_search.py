"""What a word is, and which texts answer a query."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.search import Search, holds, search_of, words_of

LONG = "a" * 41
HOSTILE = [
    *(
        "'; DROP TABLE message; --",
        "%",
        "_",
        "a OR b",
        "NEAR(a, b)",
        '"quoted"',
        "col:value",
        "-minus",
        "a*",
        "(",
        "\\",
    ),
    *("^x", "{x}", "+must", "@", "\0", "a\0b", "\ud800", "😀", "\n", "$1", "?"),
]
pieces = st.text(max_size=30) | st.sampled_from([*HOSTILE, "Straße", "東京タワー", "snake_case", LONG, "e\u0301"])


def answers(text: str, query: str) -> bool:
    return holds(text, search_of(query))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("The quick, the LAZY!", ["the", "quick", "lazy"]),
        ("snake_case and __init__", ["snake_case", "and", "__init__"]),
        ("v2.0 costs 3€", ["v2", "0", "costs", "3"]),
        ("don't", ["don", "t"]),
        ("…!? %", []),
        ("a\nb\tc", ["a", "b", "c"]),
    ],
)
def test_words_are_letters_digits_and_underscores_each_once_without_case(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_all_words_have_to_be_there_in_any_order_and_case() -> None:
    text = "The report of Müller is DONE"
    for query in ("report", "done report", "MÜLLER the", "müller, (report)!", "of of of"):
        assert answers(text, query)
    for query in ("reports", "report missing", "mueller", "repo", "do"):
        assert not answers(text, query)


def test_an_accent_is_the_same_however_it_is_written_and_is_not_left_out() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert answers(composed, decomposed)
    assert answers(decomposed, composed.upper())
    assert not answers(composed, "cafe")
    assert answers("Straße", "STRASSE")
    assert answers("ΣΊΣΥΦΟΣ", "σίσυφος")


def test_a_part_of_a_sentence_without_spaces_is_found() -> None:
    text = "私は東京タワーへ行きました"
    assert answers(text, "東京")
    assert answers(text, "タワー")
    assert answers(text, "東京 行")
    assert not answers(text, "大阪")
    assert answers("ฉันรักภาษาไทย", "ภาษา")
    assert answers("Tokyo東京2020", "2020 tokyo 東京")


def test_a_hangul_word_is_one_word() -> None:
    assert len(words_of("안녕하세요 세계")) == 2
    assert answers("안녕하세요 세계", "세계")


@pytest.mark.parametrize("long", [LONG, "x" * 10_000, "ü" * 100, "deadbeef" * 16])
def test_a_long_word_is_found_as_a_whole_and_only_so(long: str) -> None:
    assert answers(f"before {long} after", long.upper())
    assert not answers(f"before {long} after", long[:-1])
    assert not answers(f"before {long}y after", long)


@given(pieces)
def test_words_can_be_kept_by_any_index(text: str) -> None:
    for word in words_of(text):
        assert re.fullmatch(r"[a-z0-9_]{1,42}", word), word


def test_no_word_that_somebody_wrote_is_the_digest_of_another() -> None:
    (digest,) = words_of("ü")
    assert len(digest) == 42
    assert not answers(f"{digest} is what an index keeps", "ü")


@pytest.mark.parametrize("query", ["😀", "%", "…", '"', "?!", "->", "€"])
def test_a_query_without_a_word_is_looked_for_as_it_stands(query: str) -> None:
    assert search_of(f"  {query} ") == Search((), query)
    assert answers(f"so {query} then", query)
    assert answers(f"so{query}then", query)
    assert not answers("so then", query)


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_a_query_for_nothing_is_answered_by_everything(query: str) -> None:
    assert search_of(query).is_empty
    assert answers("anything", query)
    assert answers("", query)


@pytest.mark.parametrize("query", HOSTILE)
def test_nothing_in_a_query_is_an_operator(query: str) -> None:
    assert answers(f"before {query} after", query)
    assert not answers("entirely different", query) or not query.strip()


@given(text=pieces, others=st.lists(pieces, max_size=4), data=st.data())
def test_every_part_of_a_text_finds_it(text: str, others: list[str], data: st.DataObject) -> None:
    whole = " ".join([*others, text])
    found = whole.split()
    query = " ".join(data.draw(st.lists(st.sampled_from(found), max_size=3))) if found else ""
    assert answers(whole, query) or len(query.split()) > 1  # several parts without a word are one text as it stands
    assert answers(whole, whole)


@given(text=pieces, query=pieces)
def test_a_text_answers_when_its_words_are_all_there(text: str, query: str) -> None:
    search = search_of(query)
    if search.words:
        assert holds(text, search) == (set(search.words) <= set(words_of(text)))
    else:
        assert holds(text, search) == (search.literal in fold(text))


@given(pieces)
def test_case_and_the_writing_of_accents_make_no_difference(text: str) -> None:
    composed, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert words_of(text) == words_of(composed) == words_of(apart) == words_of(composed.casefold())


def fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
