"""Signed links to a pause."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import InvalidInputError, LinkExpiredError, LinkInvalidError
from perdure.core.links import LONGEST, Link, make, read
from perdure.core.times import MAX_MICROS

KEY, OTHER = b"k" * 32, b"o" * 32
PAUSE, SOON = "pau_0190f0.12", 2_000_000
TOKEN = make(KEY, PAUSE, 7, SOON, "ann", ("approve", "deny"))

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
links = st.tuples(
    ids, st.integers(0, 2**40), st.integers(1, MAX_MICROS), st.none() | ids, st.lists(ids, max_size=3).map(tuple)
)


@given(links)
def test_a_link_says_what_it_was_made_for(fields: tuple[str, int, int, str | None, tuple[str, ...]]) -> None:
    """B17: a signed link."""
    token = make(KEY, *fields)
    assert token.isascii()
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert read(KEY, token, fields[2] - 1) == Link(*fields)


def test_a_link_is_short_enough_for_a_message() -> None:
    assert len(TOKEN) < 100


def test_a_link_ends_at_its_time() -> None:
    assert read(KEY, TOKEN, SOON - 1).by == "ann"
    with pytest.raises(LinkExpiredError, match=r"pau_0190f0\.12 ended at 1970-01-01T00:00:02\+00:00") as told:
        read(KEY, TOKEN, SOON)
    assert told.value.pause == PAUSE


@given(st.integers(0, len(TOKEN) - 1), st.characters())
def test_a_link_with_another_character_is_refused(at: int, character: str) -> None:
    changed = TOKEN[:at] + character + TOKEN[at + 1 :]
    if changed != TOKEN:
        with pytest.raises(LinkInvalidError):
            read(KEY, changed, 0)


@given(st.integers(0, len(urlsafe_b64decode(TOKEN + "==")) * 8 - 1))
def test_a_link_with_another_bit_is_refused(bit: int) -> None:
    from base64 import urlsafe_b64encode

    packed = bytearray(urlsafe_b64decode(TOKEN + "=="))
    packed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(LinkInvalidError):
        read(KEY, urlsafe_b64encode(bytes(packed)).rstrip(b"=").decode(), 0)


@given(st.integers(0, len(TOKEN) - 1))
def test_a_link_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(LinkInvalidError):
        read(KEY, TOKEN[:length], 0)


@given(st.text() | st.binary().map(bytes.hex) | st.integers() | st.none())
def test_anything_else_is_refused(token: object) -> None:
    with pytest.raises(LinkInvalidError):
        read(KEY, token, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", [TOKEN + "=", TOKEN + "==", f" {TOKEN}", TOKEN + "\n", "A" * 5_000_000, TOKEN * 2])
def test_other_spellings_of_a_link_are_refused(token: str) -> None:
    with pytest.raises(LinkInvalidError):
        read(KEY, token, 0)


def test_a_link_of_another_key_is_refused_until_that_key_is_known() -> None:
    old = make(OTHER, PAUSE, 7, SOON)
    with pytest.raises(LinkInvalidError, match="another key"):
        read(KEY, old, 0)
    assert read((KEY, OTHER), old, 0).pause == PAUSE
    assert make((KEY, OTHER), PAUSE, 7, SOON) == make(KEY, PAUSE, 7, SOON)


def test_a_signature_for_another_purpose_makes_no_link() -> None:
    import hmac
    from base64 import urlsafe_b64encode

    fields = urlsafe_b64decode(TOKEN + "==")[:-16]
    forged = fields + hmac.digest(KEY, fields, "sha256")[:16]
    with pytest.raises(LinkInvalidError):
        read(KEY, urlsafe_b64encode(forged).rstrip(b"=").decode(), 0)


def test_a_link_allows_what_it_was_made_for() -> None:
    assert [read(KEY, TOKEN, 0).allows(each) for each in ("approve", "edit")] == [True, False]
    assert Link(PAUSE, 7, SOON).allows("edit")


@pytest.mark.parametrize("fields", [("\ud800", 7, SOON), (PAUSE, 7, -1), (PAUSE, "7", SOON), ("x" * LONGEST, 7, SOON)])
def test_a_link_that_could_not_be_read_is_not_made(fields: tuple[str, int, int]) -> None:
    with pytest.raises(InvalidInputError):
        make(KEY, *fields)


@pytest.mark.parametrize("key", [b"", b"short", (), (KEY, b"short"), "a text of more than sixteen"])
def test_a_weak_key_is_refused(key: bytes) -> None:
    for use in (lambda: make(key, PAUSE, 7, SOON), lambda: read(key, TOKEN, 0)):
        with pytest.raises(InvalidInputError, match="16 random bytes"):
            use()
