"""The change of a save is found by bytes: whatever a caller changed in place, or made another type, is in it."""

from __future__ import annotations

import itertools
import random
import re
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import perdure
from perdure.core import codec
from perdure.core.codec import decode, encode, encode_parts
from perdure.core.delta import changes
from perdure.core.document import Document
from perdure.core.errors import NestingTooDeepError, UnsupportedValueError
from perdure.core.frozen import Known, is_frozen
from perdure.core.message import Message
from perdure.core.ops import Append, Op, Set, Splice
from perdure.core.unchanged import PlainItems, Unchanged


class Name(str):
    __slots__ = ()


@perdure.register
class Said(BaseModel):
    text: str
    about: dict[str, Any] = {}


class Holder(msgspec.Struct, frozen=True):
    held: list[Any]


class Saves:
    """What an engine does with one state, save after save."""

    def __init__(self, *states: Any) -> None:
        self.document = Document()
        self.known: Known = {}
        self.unchanged = Unchanged()
        for state in states:
            self.save(state)

    def save(self, state: Any) -> list[Op]:
        kept, after = self.unchanged.look(state)
        begin = {key: self.document.items(key, count) for key, count in kept.items()}
        parts, known = encode_parts(state, self.known, begin)
        ops = changes(self.document, parts)
        self.document.apply(ops)
        self.known, self.unchanged = known, after.settled()
        return ops

    def is_exactly(self, state: Any) -> bool:
        return repr(_in_order(decode(self.document.encoded()))) == repr(_in_order(decode(encode(state))))


def _items(count: int) -> list[Any]:
    return [{"role": "user", "n": n, "parts": [{"text": f"t{n}"}, [n, None]], "x": n * 1.5} for n in range(count)]


def _in_order(value: Any) -> Any:
    """A state with its keys in order: an order-only change is no change."""
    if type(value) is dict:
        return {key: _in_order(value[key]) for key in sorted(value, key=str)}
    return [_in_order(each) for each in value] if type(value) is list else value


CHANGES: dict[str, Any] = {
    "leaf": lambda m: m[5].update(n=999),
    "leaf of equal value and another type": lambda m: m[1].update(n=True),
    "equal float": lambda m: m[2].update(n=2.0),
    "negative zero": lambda m: m[0].update(x=-0.0),
    "nested leaf": lambda m: m[7]["parts"][0].update(text="other"),
    "nested list": lambda m: m[7]["parts"][1].append(3),
    "key added": lambda m: m[0].update(new=1),
    "key removed": lambda m: m[39].pop("x"),
    "key renamed": lambda m: m[3].update(y=m[3].pop("x")),
    "item replaced by a list": lambda m: m.__setitem__(4, list(m[4].values())),
    "item replaced by a leaf": lambda m: m.__setitem__(4, "text"),
    "leaf replaced by a container": lambda m: m[6].update(n=[6]),
    "container replaced by a leaf": lambda m: m[6].update(parts=None),
    "swapped": lambda m: m.__setitem__(slice(0, 2), [m[1], m[0]]),
    "moved between items": lambda m: m[0]["parts"][1].append(m[1]["parts"][1].pop()),
    "cut": lambda m: m.pop(),
    "cut in front": lambda m: m.pop(0),
    "empty list for an empty dict": lambda m: m.__setitem__(39, []),
    "tuple for a list": lambda m: m[3].update(parts=tuple(m[3]["parts"])),
    "bytes": lambda m: m[3].update(parts=b"ab"),
    "bytearray": lambda m: m[3].update(parts=bytearray(b"ab")),
    "set": lambda m: m[3].update(parts={1, 2}),
    "frozenset": lambda m: m[3].update(parts=frozenset({1, 2})),
    "large int": lambda m: m[3].update(n=1 << 80),
    "lone surrogate": lambda m: m[3].update(role="\ud800"),
    "lone surrogate as a key": lambda m: m[3].update({"\ud800": 1}),
    "key that is no text": lambda m: m[3].update({1: 1}),
    "an object": lambda m: m.__setitem__(3, Said(text="x")),
    "a frozen one": lambda m: m.__setitem__(3, Message("user", "x")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_in_place_is_noticed_and_kept_exactly(name: str) -> None:
    state = {"messages": _items(40), "n": 1}
    saves = Saves(state, state)
    CHANGES[name](state["messages"])
    assert saves.save(state)
    assert saves.is_exactly(state)
    assert saves.save(state) == []


PAIRS = [[1], (1,), {1}, frozenset({1}), b"1", bytearray(b"1"), "1", 1, 1.0, True, 0.0, -0.0, None, 1 << 70, {}, [], ()]


def test_values_that_are_equal_or_alike_and_of_another_type_are_another_state() -> None:
    for one, other in itertools.permutations(PAIRS, 2):
        for state in (lambda v: {"messages": [v]}, lambda v: {"v": v}, lambda v: {"deep": {"v": [{"w": v}]}}):
            saves = Saves(state(one))
            assert saves.save(state(other)), (one, other)
            assert saves.is_exactly(state(other)), (one, other)


def test_an_appended_item_is_all_that_is_stored_however_the_rest_was_made() -> None:
    for copied in (list, lambda m: [{**each} for each in m], lambda m: decode(encode(m))):
        state = {"messages": _items(40)}
        saves = Saves(state)
        (op,) = saves.save({"messages": [*copied(state["messages"]), {"role": "bot"}]})
        assert isinstance(op, Append)
        assert len(op.items) == 1


@given(st.integers(0, 5), st.integers(1, 30), st.integers(0, 3), st.integers(0, 4))
def test_a_window_costs_what_came_and_went(pinned: int, count: int, gone: int, came: int) -> None:
    items = _items(pinned + count + came)
    before, gone = items[: pinned + count], min(gone, count)
    after = items[:pinned] + items[pinned + gone :]
    saves = Saves({"messages": before})
    ops = saves.save({"messages": after})
    assert saves.is_exactly({"messages": after})
    stored = sum(len(op.items) for op in ops if isinstance(op, Append | Splice))
    if gone < count:
        assert stored == came
        assert len(ops) <= 2


def test_a_change_inside_an_item_of_a_list_that_grew_costs_that_change() -> None:
    state = {"messages": _items(40)}
    saves = Saves(state)
    state["messages"][3]["n"] = "other"
    state["messages"].append({"role": "bot"})
    ops = saves.save(state)
    assert [type(op) for op in ops] == [Set, Append]
    assert ops[0].path == ("messages", 3, "n")


@given(st.integers(0, 100_000))
def test_saves_of_a_state_that_changes_anywhere_are_followed_exactly(seed: int) -> None:
    chance = random.Random(seed)
    state: dict[str, Any] = {
        "messages": _items(20),
        "said": [Said(text=str(n)) for n in range(5)],
        "frozen": [Message("user", str(n)) for n in range(18)],
        "context": {f"k{n}": n for n in range(12)} | chance.choice([{}, {"\ud800": 0}, {"new\nline": 0}]),
    }
    saves = Saves()
    for _ in range(8):
        before = Document.of(saves.document.encoded()) if saves.document.root is not None else Document()
        ops = saves.save(state)
        before.apply(ops)
        assert before.encoded() == saves.document.encoded()
        assert saves.is_exactly(state)
        if chance.random() < 0.2:
            saves.document.close()
        _change(chance, state)


def _change(chance: random.Random, state: dict[str, Any]) -> None:
    state["messages"].append({"n": chance.random()})
    if chance.random() < 0.5:
        state["messages"].pop(0)
    if chance.random() < 0.5:
        chance.choice(state["messages"])["n"] = chance.choice([1, True, 1.0, "1", None, (1,)])
    if chance.random() < 0.5:
        chance.choice(state["said"]).about[chance.choice("ab")] = chance.choice([1, 1.0, [2], (2,)])
    if chance.random() < 0.3:
        state["frozen"][chance.randrange(18)] = Message("user", "other")
    for _ in range(chance.choice([0, 1, 1, 2, 12])):
        key = chance.choice(list(state["context"]))
        state["context"][key] = chance.choice([1, True, 1.0, -0.0, 0.0, "1", None, [1], {"a": {}}, ()])
    if chance.random() < 0.2:
        state["context"].pop(chance.choice(list(state["context"])))


def test_what_is_changed_while_it_is_encoded_is_found_by_the_next_save(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"messages": _items(40), "context": {f"k{n}": n for n in range(12)}}
    saves, numbers, encodes = Saves(state), itertools.count(), codec._encode

    def encode_late(value: Any) -> bytes:
        state["messages"][-1]["text"] = state["context"]["k2"] = f"set by another thread {next(numbers)}"
        return encodes(value)

    for turn in range(3):
        state["messages"].append({"text": "first"})
        state["context"]["k1"] = f"turn {turn}"
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(codec, "_encode", encode_late)
            saves.save(state)
        saves.save(state)
        assert decode(saves.document.encoded()) == state


def test_keys_and_leaves_of_other_types_are_refused_with_their_place() -> None:
    places: dict[str, Any] = {
        ".messages[3].(key)": lambda s: s["messages"][3].update({Name("x"): s["messages"][3].pop("x")}),
        ".messages[3].role": lambda s: s["messages"][3].update(role=Name("user")),
        ".said[1].about.a": lambda s: s["said"][1].about.update(a=Name("user")),
        ".context.k": lambda s: s["context"].update(k=object()),
    }
    for place, change in places.items():
        state: dict[str, Any] = {"messages": _items(40), "said": [Said(text="a"), Said(text="b")], "context": {}}
        saves = Saves(state)
        change(state)
        with pytest.raises(UnsupportedValueError, match=re.escape(f"state{place}")):
            saves.save(state)


def test_a_state_that_is_nested_too_deep_or_unfolds_without_end_is_refused_wherever_it_came() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    endless: Any = ["x"]
    for _ in range(40):
        endless = [endless, endless]
    for bad, error in ((deep, NestingTooDeepError), (endless, UnsupportedValueError)):
        mixed = Said(text="x", about={"a": (bad,)})
        for item in (bad, {"a": bad}, Said(text="x", about={"a": bad}), (bad,), mixed):
            state: dict[str, Any] = {"messages": [Said(text="y")], "t": (1,)}
            saves = Saves(state)
            with pytest.raises(error):
                saves.save({**state, "messages": [Said(text="y"), item]})
            with pytest.raises(error):
                saves.save({**state, "new": item})


def test_what_unfolds_without_end_is_refused_before_it_is_unfolded() -> None:
    endless: Any = Said(text="x", about={"a": (1,)})
    for _ in range(40):
        endless = (endless, [endless])
    seconds = time.process_time()
    with pytest.raises(UnsupportedValueError, match="unfolds to more than"):
        codec.encode({"a": endless})
    assert time.process_time() - seconds < 3  # unfolding it takes a quarter of a minute


def test_parts_that_are_shared_and_few_enough_are_kept() -> None:
    shared: Any = ("x",)
    for _ in range(16):
        shared = [shared, shared]
    assert decode(codec.encode({"a": shared}))["a"] == shared


def test_only_what_can_never_change_is_taken_for_what_it_was() -> None:
    held: list[Any] = []
    state = {"frozen": [Message("user", [{"type": "text", "text": "a"}]), Message("user", "b")]}
    saves = Saves(state)
    assert set(saves.known) == set(map(id, state["frozen"]))
    assert saves.save(state) == []

    perdure.register(Holder, tag="test.Holder")
    holders = {"frozen": [Holder(held)]}
    assert not is_frozen(holders["frozen"][0])
    saves = Saves(holders)
    held.append(1)
    assert saves.save(holders)
    assert saves.is_exactly(holders)


class Loose:
    def __init__(self, x: str, y: str) -> None:
        self.x, self.y = x, y


def test_items_of_a_kept_state_are_recognised_and_objects_with_more_than_fields_are_not() -> None:
    state: dict[str, Any] = {"messages": _items(40), "said": [Said(text=str(n)) for n in range(20)]}
    saves = Saves(state, state)
    assert saves.unchanged.look(state)[0] == {"messages": 40, "said": 20}
    state["said"][3].about["a"] = 1.0
    assert saves.unchanged.look(state)[0] == {"messages": 40}
    state["said"][3].about["a"] = (1,)
    assert saves.save(state)
    assert saves.is_exactly(state)
    assert PlainItems.of([{"a": (1,)}]) is None
    assert PlainItems.of([{1: "a"}]) is None
    assert PlainItems.of(["leaf"]) is None


def test_an_objects_own_dict_is_read_like_any_other() -> None:
    loose = Loose("label", "name")
    state = {"messages": [vars(loose), *_items(20)]}
    saves = Saves(state, state)
    loose.x = "changed"
    assert saves.save(state)
    assert saves.is_exactly(state)


def test_a_list_that_keeps_changing_elsewhere_is_left_alone_for_a_while() -> None:
    state = {"messages": _items(40)}
    saves = Saves()
    for turn in range(12):
        saves.save(state)
        state["messages"][0]["n"] = turn + 0.5
    assert saves.unchanged._lists == {}


def test_a_save_that_is_refused_leaves_what_was_seen_as_it_was() -> None:
    state = {"messages": _items(40)}
    saves = Saves(state, state)
    grown = {"messages": [*state["messages"], {"role": "bot"}]}
    saves.unchanged.look(grown)
    assert saves.unchanged.look(grown)[0] == {"messages": 40}
    saves.save(grown)
    assert saves.unchanged.look(grown)[0] == {"messages": 41}
