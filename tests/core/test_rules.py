"""Ids, refs, envelopes, paths: small rules, each with its promise."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import refs
from perdure.core.changes import Change
from perdure.core.codec import decode, encode
from perdure.core.document import Document
from perdure.core.entries import EntryKind
from perdure.core.envelope import EnvelopeError, seal, seal_packed, unseal
from perdure.core.errors import InvalidIdError, InvalidPathError, InvalidRefError
from perdure.core.identity import ThreadKey, check_id


@pytest.mark.parametrize("bad", ["", 7, None, b"x", "x" * 513, "a\0b", "\ud800", ["x"]])
def test_ids_that_cannot_be_kept_everywhere_are_refused(bad: object) -> None:
    with pytest.raises(InvalidIdError) as caught:
        check_id(bad, "the thread id")
    assert isinstance(caught.value, ValueError)


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3)), unique=True, max_size=20))
def test_different_keys_have_different_digests(parts: list[tuple[str, str, str]]) -> None:
    keys = [ThreadKey(*part) for part in parts if not any("\ud800" <= c <= "\udfff" for text in part for c in text)]
    assert len({key.digest() for key in keys}) == len(keys)


REFS = {
    "@12": refs.AtVersion(12), 12: refs.AtVersion(12), "@-1": refs.Back(1), -2: refs.Back(2),
    "@chk_0abc": refs.AtCheckpoint("chk_0abc"), "@tag:good one": refs.AtTag("good one"),
    "@2h": refs.Ago(7_200_000_000), "@3d": refs.Ago(259_200_000_000), "@before-error": refs.BeforeError(),
    "@2026-11-01T12:00Z": refs.AtTime(1_793_534_400_000_000), "2026-11-01T02:00+02": refs.AtTime(1_793_491_200_000_000),
}  # fmt: skip


@pytest.mark.parametrize(("text", "ref"), REFS.items())
def test_refs_are_read(text: object, ref: refs.Ref) -> None:
    assert refs.parse(text) == ref


@pytest.mark.parametrize("bad", ["", "@", "@-0", "@x", "@1.5", "@chk_", "@tag:", "@2y", "@٣", None, 1.5, "@chk_a b"])
def test_what_is_no_ref_is_refused(bad: object) -> None:
    with pytest.raises(InvalidRefError):
        refs.parse(bad)


@pytest.mark.parametrize("naive", ["2026-11-01", "@2026-11-01", "@2026-11-01T12:00"])
def test_a_moment_without_a_time_zone_is_refused_with_what_to_write(naive: str) -> None:
    with pytest.raises(InvalidRefError, match=r"does not say its time zone; write @2026-11-01T\d\d:00:00Z for UTC"):
        refs.parse(naive)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t@3", ("t", refs.AtVersion(3))),
        ("me@home", ("me@home", None)),
        ("me@home@-1", ("me@home", refs.Back(1))),
        ("@3", ("@3", None)),
    ],
)
def test_a_thread_with_a_ref_is_split_at_the_last_at_only_if_a_ref_follows(text: str, parts: object) -> None:
    assert refs.split(text) == parts


@given(st.binary(max_size=2000))
def test_an_envelope_gives_back_its_body(body: bytes) -> None:
    assert unseal(seal(body)) == body == unseal(seal_packed(body))


@pytest.mark.parametrize("bad", [b"", b"\1", b"\2\0\0x", b"\1\2\0x", b"\1\0\5x", b"\1\1\0not zstd"])
def test_bytes_without_our_envelope_are_refused(bad: bytes) -> None:
    with pytest.raises(EnvelopeError):
        unseal(bad)


def test_a_flipped_bit_of_a_packed_envelope_gives_bytes_or_our_error_and_nothing_else() -> None:
    """The digests above the envelope tell whether the bytes are the right ones."""
    sealed = seal_packed(b"some text that repeats, some text that repeats. " * 40)
    for bit in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(EnvelopeError):
            assert type(unseal(bytes(flipped))) is bytes


def _placed(state: object, **change: object) -> object:
    document = Document.of(encode(state))
    given: dict[str, object] = {"set": {}, "append": {}, "delete": (), **change}
    document.apply(Change(**given).place(document))  # type: ignore[arg-type]
    return decode(document.encoded())


def test_paths_make_the_dicts_and_lists_they_need() -> None:
    changed = _placed({"a": 1}, set={"b.c.d": 2, "b.c.e": 3}, append={"list": [1, 2]})
    assert changed == {"a": 1, "b": {"c": {"d": 2, "e": 3}}, "list": [1, 2]}


def test_a_tuple_reaches_keys_with_dots_and_list_items() -> None:
    assert _placed({"a.b": [{"x": 1}]}, set={("a.b", 0, "x"): 2}) == {"a.b": [{"x": 2}]}


def test_digits_in_a_dotted_path_are_an_index_only_inside_a_list() -> None:
    assert _placed({"l": [1], "d": {}}, set={"l.0": 2, "d.0": 3}) == {"l": [2], "d": {"0": 3}}


@pytest.mark.parametrize(
    "change",
    [
        {"append": {"a": [1]}},
        {"set": {"a.b": 1}},
        {"set": {"l.5": 1}},
        {"set": {("l", "x"): 1}},
        {"set": {f"l.{'9' * 5000}": 1}},
        {"set": {("l", 10**5000): 1}},
        {"set": {(10**5000,): 1}},
        {"delete": ["missing"]},
        {"delete": ["l.0"]},
        {"set": {"d": 1, "d.x": 2}},
        {"set": {"": 1}},
        {"set": {"a..b": 1}},
        {"set": {(): 1}},
        {"set": {5: 1}},
        {"append": {"l": "text"}},
    ],
)
def test_a_path_that_does_not_fit_is_refused_before_anything_changes(change: dict[str, object]) -> None:
    with pytest.raises(InvalidPathError):
        _placed({"a": 1, "l": [1], "d": {"x": 1}}, **change)


def test_entry_kinds_are_in_the_past_tense_and_grouped() -> None:
    irregular = ("task.written", "allowance.made")
    assert all(kind.value.count(".") == 1 and kind.value.endswith(("d", *irregular)) for kind in EntryKind)
