"""What the newest entries of a log add to a conversation, and when all of it has to be read again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.envelope import seal
from perdure.core.errors import EntryDamagedError
from perdure.core.ops import Append, Delete, Op, Ops, Set, Truncate
from perdure.core.reading_on import Added, Heard, Place, Places, Removed, read_on
from perdure.core.retention_policy import Retention

PATH = ("messages",)


def entry(version: int, kind: EntryKind = EntryKind.STATE_SAVED, value: Any = None, *, blank: bool = False) -> Entry:
    body = encode(value)
    return Entry(
        version=version, kind=kind, micros=version * 10, actor=None, write_id=b"", key=None, request=None, schema=1,
        digest=digest_of(body), chain=b"", payload=b"" if blank else seal(body),
    )  # fmt: skip


def said(version: int, message: Any) -> Entry:
    return entry(version, EntryKind.MESSAGE_ADDED, message)


def deleted(version: int, id: str, *versions: int) -> Entry:
    return entry(version, EntryKind.MESSAGE_DELETED, {"id": id, "versions": list(versions)})


def items(*values: Any) -> list[Raw]:
    return [Raw(encode(value)) for value in values]


def grown(*values: Any) -> list[Op]:
    return [Append(PATH, items(*values))]


def read(*entries: Entry, changes: dict[int, Ops | None] | None = None, is_first: bool = False) -> list[Heard] | None:
    return read_on("t", entries, changes or {}, PATH, is_first=is_first)


def listed(version: int, value: Any) -> Added:
    return Added(micros=version * 10, body=encode(value), digest=digest_of(encode(value)))


def added(version: int, value: Any, id: str | None = None) -> Added:
    return Added(micros=version * 10, body=encode(value), digest=digest_of(encode(value)), version=version, id=id)


def test_items_at_the_end_of_the_list_and_messages_of_entries_are_added_in_order() -> None:
    changes: dict[int, Ops | None] = {5: grown("a", "b"), 7: [Set(("n",), Raw(encode(1)))], 8: grown("d")}
    message = {"id": "m", "content": "c"}
    found = read(entry(5), said(6, message), entry(7), entry(8), changes=changes)
    assert found == [listed(5, "a"), listed(5, "b"), added(6, message, "m"), listed(8, "d")]


@pytest.mark.parametrize(
    "change",
    [
        [Truncate(PATH, 1)],
        [Delete(PATH)],
        [Set((*PATH, 0), Raw(encode("x")))],
        [Set(PATH, Raw(encode(["x"])))],
        [Set((), Raw(encode({"messages": ["x"]})))],
        None,
    ],
    ids=["cut", "deleted", "edited", "set", "replaced", "pruned"],
)
def test_whatever_else_happens_to_the_list_is_not_passed_over(change: Ops | None) -> None:
    assert read(entry(5), entry(6), changes={5: grown("a"), 6: change}) is None


def test_a_rewind_is_not_passed_over() -> None:
    assert read(entry(5, EntryKind.THREAD_REWOUND), changes={5: []}) is None


def test_the_list_that_a_log_begins_with_is_added() -> None:
    whole = [Set((), Raw(encode({"messages": ["a", "b"], "n": 1})))]
    assert read(said(1, "first"), entry(2), changes={2: whole}, is_first=True) == [
        added(1, "first"), listed(2, "a"), listed(2, "b"),
    ]  # fmt: skip
    assert read(entry(2), entry(3), changes={2: whole, 3: whole}, is_first=True) is None
    assert read(entry(2), changes={2: [Set((), Raw(encode({"n": 1})))]}, is_first=True) == []
    assert read(entry(2), changes={2: [Set((), Raw(encode("no list")))]}, is_first=True) == []


def test_a_message_that_was_deleted_leaves_its_number() -> None:
    gone = entry(5, EntryKind.MESSAGE_ADDED, "x", blank=True)
    found = read(gone, deleted(6, "m", 5))
    assert found == [
        Added(micros=50, body=None, digest=digest_of(encode("x")), version=5), Removed(id="m", versions=(5,)),
    ]  # fmt: skip


def test_other_entries_say_nothing() -> None:
    kinds = [EntryKind.CHECKPOINT_SAVED, EntryKind.THREAD_CHANGED, EntryKind.TOOL_FINISHED, EntryKind.HISTORY_REPAIRED]
    assert read(*(entry(at, kind, {"id": "m"}) for at, kind in enumerate(kinds, 1))) == []


def test_a_prune_matters_only_when_messages_went_with_it() -> None:
    told = {"dropped": [], "records": []}
    kept, dropped = (Retention(last=1, messages=each).to_text() for each in ("keep", "drop"))  # type: ignore[arg-type]
    assert read(entry(5, EntryKind.RANGE_PRUNED, {"policy": kept, **told})) == []
    assert read(entry(5, EntryKind.RANGE_PRUNED, {"policy": dropped, **told})) is None


def test_a_damaged_entry_is_named() -> None:
    with pytest.raises(EntryDamagedError, match="takes back"):
        read(entry(5, EntryKind.MESSAGE_DELETED, ["nonsense"]))


def taken(*heard: Heard, known: dict[str, Place] | None = None, count: int = 0) -> Places:
    places = Places(known or {}, count)
    for each in heard:
        places.take(each)
    return places


def shown(places: Places) -> list[tuple[int, Any, int, int | None]]:
    return [(row.number, row.role, row.micros, row.version) for row in places.rows.values()]


def spoke(version: int, id: str | None, role: str) -> Added:
    return added(version, {"id": id, "role": role} if id else {"role": role}, id)


def test_numbers_go_on_from_what_was_counted() -> None:
    places = taken(spoke(5, None, "a"), spoke(6, "m", "b"), listed(7, {"role": "c"}), count=10)
    assert shown(places) == [(11, "a", 50, 5), (12, "b", 60, 6), (13, "c", 70, None)]
    assert places.count == 13


def test_a_message_said_again_stands_where_it_stood_since_when_it_did() -> None:
    places = taken(spoke(5, "m", "new"), spoke(6, "m", "newer"), known={"m": Place(3, 30, 2)}, count=10)
    assert shown(places) == [(3, "newer", 30, 6)]
    assert places.count == 12


def test_items_of_the_list_are_not_told_apart_by_ids() -> None:
    message = {"id": "m", "role": "listed"}
    places = taken(spoke(5, "m", "added"), listed(6, message), listed(7, message))
    assert [(number, role) for number, role, *_ in shown(places)] == [(1, "added"), (2, "listed"), (3, "listed")]


def test_a_message_that_is_taken_back_goes_whether_it_was_known_or_not() -> None:
    known = {"old": Place(3, 30, 2)}
    places = taken(
        spoke(5, "new", "x"), Removed(id="new", versions=(5,)), Removed(id="old", versions=(2,)), known=known
    )
    assert (shown(places), places.gone, places.count) == ([], {1, 3}, 1)
    assert taken(Removed(id="unknown", versions=(1,))).gone == set()


def test_what_was_said_since_a_message_was_taken_back_stays() -> None:
    places = taken(spoke(6, "m", "later"), Removed(id="m", versions=(2,)), known={"m": Place(3, 30, 2)}, count=5)
    assert (shown(places), places.gone) == ([(3, "later", 30, 6)], set())


def test_an_id_that_was_taken_back_is_a_new_message_when_it_is_said_again() -> None:
    heard = [Removed(id="m", versions=(2,)), spoke(6, "m", "again")]
    places = taken(*heard, known={"m": Place(3, 30, 2)}, count=5)
    assert (shown(places), places.gone) == ([(6, "again", 60, 6)], {3})


def test_a_deleted_message_takes_a_number_and_no_line() -> None:
    places = taken(Added(micros=1, body=None, version=4), spoke(5, None, "a"))
    assert shown(places) == [(2, "a", 50, 5)]
