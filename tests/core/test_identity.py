"""Which namespaces a caller may name, and where the library keeps its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import InvalidIdError
from perdure.core.identity import (
    CACHE,
    MAX_ID,
    MEMORY,
    RESULTS,
    SUBGRAPHS,
    Reserved,
    callers_namespace,
    check_namespace,
    reserved_namespace,
    reserved_of,
)

CONTROLS = [*map(chr, range(1, 0x20)), *map(chr, range(0x7F, 0xA0))]
KINDS = st.sampled_from([RESULTS, CACHE, SUBGRAPHS, MEMORY])
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")


def _is_callers(name: str) -> bool:
    try:
        return check_namespace(name) == name
    except InvalidIdError:
        return False


NAMESPACES = st.text(CHARACTERS, max_size=20).filter(_is_callers)


@pytest.mark.parametrize("char", CONTROLS, ids=ascii)
def test_a_control_character_in_a_callers_namespace_is_refused(char: str) -> None:
    for name in (char, f"acme{char}store", f"acme{char}", f"{char}acme"):
        with pytest.raises(InvalidIdError, match="holds a control character"):
            check_namespace(name)


@pytest.mark.parametrize("name", ["", "acme", "a b", "ü", "perdure.results/acme", "x" * MAX_ID, "😀"])
def test_other_namespaces_are_a_callers(name: str) -> None:
    assert check_namespace(name) == name
    assert (reserved_of(name), callers_namespace(name)) == (None, name)


@given(KINDS, NAMESPACES, st.text(CHARACTERS, max_size=20))
def test_what_is_reserved_can_be_named_by_no_caller_and_tells_whose_it_is(
    kind: str, namespace: str, thread: str
) -> None:
    made = reserved_namespace(kind, namespace, thread)
    assert not _is_callers(made)
    assert reserved_of(made) == Reserved(kind, namespace, thread)
    assert callers_namespace(made) == namespace


@pytest.mark.parametrize("name", ["\x1f", "\x1fresults", "\x1fresults\x1facme", "acme\x1ft\x1fx\x1fy"])
def test_a_damaged_reserved_namespace_is_nobodys(name: str) -> None:
    assert (reserved_of(name), callers_namespace(name)) == (None, name)


def test_a_name_that_leaves_no_room_for_what_is_kept_beside_it_is_refused() -> None:
    with pytest.raises(InvalidIdError, match="the namespace of the results beside it has 522 characters"):
        reserved_namespace(RESULTS, "x" * MAX_ID)
