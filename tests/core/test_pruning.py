"""The rules of a prune on plain values, and composing the changes of a range into one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core.codec import decode, encode
from perdure.core.compose import compose
from perdure.core.delta import delta
from perdure.core.digest import snapshot_digest
from perdure.core.document import Document
from perdure.core.entries import Entry, EntryKind
from perdure.core.envelope import seal
from perdure.core.errors import EntryDamagedError, PlanOutdatedError
from perdure.core.identity import ThreadKey
from perdure.core.ops import Delete, Op, Set
from perdure.core.payload import encode_body
from perdure.core.pruning import Composed, Pruning, Record, check_current, content_of, is_blank, standing_for
from perdure.core.threads import ThreadRow

ROW = ThreadRow(key=ThreadKey("", "", "t1"), uid="u", head=9, state_version=9)
CHAIN = b"c" * 32
NAMING = {"checkpoint.tagged", "checkpoint.saved", "pause.opened", "thread.rewound", "range.pruned"}


def record(low: int, version: int, content: object = None, **fields: Any) -> Record:
    payload = seal(encode_body(Composed(low, CHAIN, []) if content is None else content))
    digest = snapshot_digest(CHAIN, payload)
    return msgspec.structs.replace(
        Record(low=low, version=version, chain=CHAIN, digest=digest, payload=payload), **fields
    )


def entry(version: int, kind: EntryKind = EntryKind.STATE_UPDATED, payload: bytes | None = b"x") -> Entry:
    return Entry(
        version=version, kind=kind, micros=0, actor=None, write_id=b"", key=None, request=None, schema=1, digest=b"",
        chain=CHAIN, payload=payload,
    )  # fmt: skip


PLAN = Pruning(seen=9, records=(record(2, 5), record(5, 8)), blank=(1,))


def test_a_plan_that_nobody_made_outdated_is_current() -> None:
    check_current(ROW, PLAN, [0, 1, 2, 5, 8, 9, 12], [])  # the ends of ranges stay


@pytest.mark.parametrize("version", [3, 4, 6, 7])
def test_a_plan_is_outdated_by_a_fork_of_what_it_drops(version: int) -> None:
    with pytest.raises(PlanOutdatedError, match=f"version {version}"):
        check_current(ROW, PLAN, [2, version], [])


@pytest.mark.parametrize("kind", EntryKind)
def test_a_plan_is_outdated_by_entries_that_name_points_and_by_no_others(kind: EntryKind) -> None:
    if kind.value in NAMING:
        with pytest.raises(PlanOutdatedError, match=kind.value):
            check_current(ROW, PLAN, [], [EntryKind.STATE_UPDATED, kind])
    else:
        check_current(ROW, PLAN, [], [kind])


def test_only_changes_inside_ranges_and_entries_that_are_named_lose_their_payload() -> None:
    blanked = {version for version in range(1, 11) if PLAN.blanks(entry(version))}
    assert blanked == {1, 3, 4, 5, 6, 7, 8}
    assert not PLAN.blanks(entry(4, EntryKind.MESSAGE_ADDED))
    assert PLAN.blanks(entry(1, EntryKind.CHECKPOINT_SAVED))


def test_whole_states_strictly_inside_a_range_are_of_no_use() -> None:
    assert [version for version in range(10) if PLAN.covers(version)] == [3, 4, 6, 7]


def test_a_record_stands_for_the_versions_of_its_range() -> None:
    found = [standing_for(PLAN.records, version) for version in range(1, 10)]
    one, other = PLAN.records
    assert found == [None, None, one, one, one, other, other, other, None]
    assert standing_for([], 3) is None


def test_an_empty_payload_is_told_from_one_that_was_left_out() -> None:
    assert [is_blank(entry(1, payload=payload)) for payload in (b"", None, b"x")] == [True, False, False]


@pytest.mark.parametrize(
    "bad",
    [
        record(2, 5, chain=b"d" * 32),
        record(2, 5, payload=b"\x01\x00\x00else"),
        record(2, 5, Composed(3, CHAIN, [])),  # of another range
        record(2, 5, {"not": "a change"}),
    ],
    ids=["chain", "payload", "range", "content"],
)
def test_a_damaged_record_is_never_believed(bad: Record) -> None:
    with pytest.raises(EntryDamagedError) as caught:
        content_of("t1", bad)
    assert caught.value.version == 5
    assert content_of("t1", record(2, 5)) == Composed(2, CHAIN, [])


# ── composing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

leaves = st.none() | st.integers(-2, 2) | st.text(max_size=2)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)
flat = st.lists(st.sampled_from("abcd"), unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: st.integers(0, 1) for key in keys})
)
states = flat | st.dictionaries(st.sampled_from("abcd"), trees, max_size=4)


def played(state: Any, *deltas: list[Op]) -> bytes:
    """The encoded state after these changes, keys in the order in which they came to stand."""
    document = Document.of(encode(state))
    for ops in deltas:
        document.apply(ops)
    return document.encoded()


@given(st.lists(states, min_size=2, max_size=6))
def test_a_composed_change_leads_to_the_very_bytes_that_its_parts_lead_to(versions: list[Any]) -> None:
    parts: list[list[Op]] = []
    document = Document.of(encode(versions[0]))
    for _, new in pairwise(versions):
        ops, document = delta(document, encode(new))
        parts.append(ops)
    assert played(versions[0], compose(*parts)) == played(versions[0], *parts)


def test_a_key_that_is_taken_away_and_set_again_stands_behind_the_others() -> None:
    gone, new = [Delete(("a",))], [Set(("a",), Raw(encode(3)))]
    found = decode(played({"a": 1, "b": 2}, compose(gone, new)))
    assert list(found.items()) == [("b", 2), ("a", 3)]


def test_a_new_key_that_is_set_again_keeps_its_place() -> None:
    first, second = [Set(("x",), Raw(encode(1)))], [Set(("y",), Raw(encode(2))), Set(("x",), Raw(encode(3)))]
    found = decode(played({}, compose(first, second)))
    assert list(found.items()) == [("x", 3), ("y", 2)]
