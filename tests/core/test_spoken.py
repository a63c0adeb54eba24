"""Messages that entries add: their ids, their deletion, and what a pruned range leaves of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.codec import decode, encode
from perdure.core.conversation import MESSAGE_PATH, Moment
from perdure.core.digest import digest_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.envelope import seal
from perdure.core.fold import Step
from perdure.core.following import Following, begin, pass_by
from perdure.core.ops import Append, Set
from perdure.core.payload import StateChange, WholeState
from perdure.core.pruning import Composed, Talk
from perdure.core.registry import register
from tests.core.lists import change, ops_between


@dataclass
class Spoken:
    """A log of entries, each with a version and a time."""

    targets: set[int] = field(default_factory=set[int])
    head: int = 0

    def __post_init__(self) -> None:
        self.following = Following(MESSAGE_PATH, self.targets)

    def _entry(self, kind: EntryKind, value: Any = None, blank: bool = False) -> Entry:
        self.head += 1
        body = encode(value)
        return Entry(
            version=self.head, kind=kind, micros=self.head * 10, actor=None, write_id=b"", key=None, request=None,
            schema=1, digest=digest_of(body), chain=b"", payload=b"" if blank else seal(body),
        )  # fmt: skip

    def say(self, text: str, id: str | None = None, *, blank: bool = False) -> int:
        message = {"content": text, **({"id": id} if id else {})}
        self.following.follow("t", self._entry(EntryKind.MESSAGE_ADDED, message, blank), None)
        return self.head

    def delete(self, id: str, *versions: int) -> None:
        value = {"id": id, "versions": list(versions)}
        self.following.follow("t", self._entry(EntryKind.MESSAGE_DELETED, value), None)

    def step(self, step: Step | None) -> int:
        self.following.follow("t", self._entry(EntryKind.STATE_SAVED), step)
        return self.head

    def lines(self) -> list[tuple[int, str, int, int | None]]:
        """Number, text, time and entry of each message."""
        return [
            (number, text(decode(each.document.encoded())), each.at.micros, each.version)
            for number, each in self.following.now.said()
        ]


def text(message: Any) -> str:
    return message if isinstance(message, str) else message["content"]


def test_an_id_is_one_message_that_stands_where_it_was_first_said() -> None:
    log = Spoken()
    log.say("one", "a")
    log.say("two")
    log.say("one, corrected", "a")
    log.say("three")
    assert log.lines() == [(1, "one, corrected", 10, 3), (2, "two", 20, 2), (4, "three", 40, 4)]


def test_items_of_the_list_are_messages_of_their_own_whatever_their_ids() -> None:
    log = Spoken()
    item = {"content": "listed", "id": "a"}
    log.say("apart", "a")
    log.step(change([], [item]))
    log.say("apart, again", "a")
    assert log.lines() == [(1, "apart, again", 10, 3), (2, "listed", 20, None)]


def test_a_deleted_message_leaves_its_number_whether_its_entry_is_empty_or_not() -> None:
    for blank in (False, True):
        log = Spoken()
        first = log.say("one", "a", blank=blank)
        again = log.say("one, corrected", "a", blank=blank)
        log.say("two")
        log.delete("a", first, again)
        log.say("three")
        assert log.lines() == [(3, "two", 30, 3), (4, "three", 50, 5)]


def test_what_was_said_since_a_deletion_was_asked_for_stays() -> None:
    log = Spoken()
    first = log.say("one", "a")
    log.say("one, corrected", "a")
    log.delete("a", first)
    assert log.lines() == [(1, "one, corrected", 10, 2)]


def test_an_id_that_was_deleted_is_a_new_message_when_it_is_said_again() -> None:
    log = Spoken()
    log.delete("a", log.say("one", "a"))
    log.say("two", "a")
    assert log.lines() == [(2, "two", 30, 3)]


def test_a_rewind_brings_back_what_an_id_was_and_nothing_that_was_deleted() -> None:
    log = Spoken({3})
    kept, gone = log.say("one", "a"), log.say("two", "b")
    log.step(change([], []))
    log.say("one, corrected", "a")
    log.delete("b", gone)
    log.step(change([], [], to=3))
    assert log.lines() == [(1, "one", 10, kept)]
    log.say("one, once more", "a")
    log.say("two, once more", "b")
    assert log.lines() == [(1, "one, once more", 10, 7), (4, "two, once more", 80, 8)]


def test_a_copy_knows_ids_and_deletions_by_itself() -> None:
    log = Spoken()
    log.say("one", "a")
    other = log.following.now.copy()
    log.say("one, corrected", "a")
    other.moment = Moment(7, 70)
    other.add(Raw(encode({"content": "elsewhere", "id": "a"})), "a")
    assert [text(decode(each)) for each in other.messages()] == ["elsewhere"]
    assert [line[1] for line in log.lines()] == ["one, corrected"]
    other.remove("a", [7])
    assert (other.messages(), len(log.lines())) == ([], 1)


def test_a_base_names_the_entries_that_messages_are_and_copies_none_of_their_text() -> None:
    log = Spoken()
    held = log.say("held by its entry", "a")
    log.step(change([], ["cut", "listed"]))
    log.step(change(["cut", "listed"], ["listed"]))
    talk = log.following.now.talk()
    assert talk == Talk(3, [2], [(1, Raw(encode("cut")))], True, [(0, held)])
    assert b"held by its entry" not in msgspec.msgpack.encode(talk)


def test_a_base_leads_to_the_same_lines_without_what_it_stands_for() -> None:
    whole = Spoken()
    for log in (whole, pruned := Spoken()):
        log.say("one", "a")
        log.step(change([], ["cut", "listed"]) if log is whole else None)
        log.say("two", "b")
        log.say("one, corrected", "a")
    whole.step(change(["cut", "listed"], ["listed", "new"]))
    now = whole.following.now
    state = Raw(encode({"messages": ["listed", "new"]}))
    there = now.reader()
    begin(there, WholeState(state, talk=now.talk()), MESSAGE_PATH)
    pruned.step(WholeState(state, talk=now.talk(), times=now.times(there)))
    assert pruned.lines() == whole.lines()
    assert whole.lines() == [
        (1, "one, corrected", 10, 4), (2, "cut", 20, None), (3, "listed", 20, None), (4, "two", 30, 3),
        (6, "new", 50, None),
    ]  # fmt: skip
    for log in (whole, pruned):
        log.say("one, once more", "a")
        log.delete("b", 3)
    assert pruned.lines() == whole.lines()


def test_a_range_in_which_an_id_was_said_again_and_taken_back_by_a_rewind_has_what_it_was() -> None:
    whole, pruned = Spoken({2}), Spoken()
    for log in (whole, pruned):
        log.say("one", "a")
        log.step(change([], ["x"]))
    low = whole.following.now.copy()
    for log in (whole, pruned):
        log.say("one, corrected", "a")
        log.say("two", "b")
    whole.step(change(["x"], ["x"], to=2))
    now = whole.following.now
    talk = now.talk(low.talk(), 2)
    pruned.step(Composed(2, b"", [], talk=talk))
    assert pruned.lines() == whole.lines() == [(1, "one", 10, 1), (2, "x", 20, None)]
    for log in (whole, pruned):
        log.say("one, once more", "a")
    assert pruned.lines() == whole.lines()


def test_times_tell_only_what_a_reader_would_not_know() -> None:
    log = Spoken()
    log.step(change([], ["a"]))
    low = log.following.now.copy()
    log.step(change(["a"], ["a", "b"]))
    log.step(change(["a", "b"], ["a", "b", "c"]))
    there = log.following.now.reader(low)
    pass_by(there, ops_between(["a"], ["a", "b", "c"]), None, 1)
    assert log.following.now.times(there) == [(1, 2)]


def test_the_list_in_a_state_of_a_registered_class_is_found() -> None:
    register(Held, tag="tests.core.following.Held")
    log = Spoken()
    log.step(StateChange([Set((), Raw(encode(Held(["a", "b"]))))]))
    log.step(StateChange([Append(("messages",), [Raw(encode("c"))])]))
    assert [line[1] for line in log.lines()] == ["a", "b", "c"]


@dataclass
class Held:
    messages: list[str]
