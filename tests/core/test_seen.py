"""Items of a list are recognised only when they are really what they were."""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import seen as seen_module
from perdure.core.codec import decode, encode
from perdure.core.delta import Altered, Grown, delta, placed
from perdure.core.document import Document
from perdure.core.errors import UnsupportedValueError
from perdure.core.leaves import PlainItems
from perdure.core.message import Message
from perdure.core.seen import Seen

BUFFER = bytearray()


class Name(str):
    __slots__ = ()


class Loose:
    def __init__(self, x: str, y: str) -> None:
        self.x, self.y = x, y


class Holder:
    def __init__(self, n: int) -> None:
        self.one, self.two, self.three = None, None, n


def _items(count: int) -> list[Any]:
    return [{"role": "user", "n": n, "parts": [{"text": f"t{n}"}, [n, None]], "x": n * 1.5} for n in range(count)]


def _encoded(seen: Seen, state: Any) -> tuple[Any, Seen]:
    return seen.encoded(state, bytearray())


def _after_two_saves(state: Any) -> Seen:
    """What is seen once a state was saved twice: the first save remembers nothing yet."""
    return _encoded(_encoded(Seen(), state)[1], state)[1]


def test_an_appended_item_is_all_that_is_encoded() -> None:
    state = {"messages": _items(40), "n": 0}
    seen = _after_two_saves(state)
    state["messages"].append({"role": "bot"})
    new, _ = _encoded(seen, state)
    assert isinstance(new["messages"], Grown)
    assert (new["messages"].kept, len(new["messages"].tail)) == (40, 1)


CHANGES: dict[str, Any] = {
    "leaf": lambda m: m[5].update(n=999),
    "leaf of equal value and another type": lambda m: m[1].update(n=True),
    "equal float": lambda m: m[2].update(n=2.0),
    "nested leaf": lambda m: m[7]["parts"][0].update(text="other"),
    "nested list": lambda m: m[7]["parts"][1].append(3),
    "key added": lambda m: m[0].update(new=1),
    "key removed": lambda m: m[39].pop("x"),
    "key renamed": lambda m: m[3].update(y=m[3].pop("x")),
    "keys in another order": lambda m: m[3].update(role=m[3].pop("role")),
    "item replaced by a list": lambda m: m.__setitem__(4, list(m[4].values())),
    "item replaced by a leaf": lambda m: m.__setitem__(4, "text"),
    "leaf replaced by a container": lambda m: m[6].update(n=[6]),
    "container replaced by a leaf": lambda m: m[6].update(parts=None),
    "swapped": lambda m: m.__setitem__(slice(0, 2), [m[1], m[0]]),
    "moved between items": lambda m: (m[0]["parts"][1].append(m[1]["parts"][1].pop()),),
    "moved to the next item": lambda m: _move_last(m[0], m[1]),
    "cut": lambda m: m.pop(),
    "cut in front": lambda m: m.pop(0),
    "empty list for an empty dict": lambda m: m.__setitem__(39, []),
    "tuple inside": lambda m: m[3].update(parts=(1, 2)),
}


def _move_last(one: dict[str, Any], other: dict[str, Any]) -> None:
    """All leaves of a list in their order, but another item has them."""
    rest = list(other.items())
    other.clear()
    other.update([("moved", one.pop("x")), *rest])


COPIES: dict[str, Any] = {
    "the same objects": lambda m: list(m),
    "copies of all items": lambda m: [{**each} for each in m],
    "a copy of one item": lambda m: [{**m[0]}, *m[1:]],
    "copies of what is inside": lambda m: [
        {**each, "parts": [{**each["parts"][0]}, [*each["parts"][1]]]} for each in m
    ],
    "a copy inside one item": lambda m: [*m[:-1], {**m[-1], "parts": list(m[-1]["parts"])}],
}


def test_copies_of_containers_are_recognised_by_their_leaves() -> None:
    for name, copied in COPIES.items():
        state = {"messages": _items(40)}
        seen = _after_two_saves(state)
        new, _ = _encoded(seen, {"messages": [*copied(state["messages"]), {"role": "bot"}]})
        assert isinstance(new, dict), name
        assert (new["messages"].kept, len(new["messages"].tail)) == (40, 1), name


@given(st.integers(0, 100_000))
def test_leaves_that_move_between_copies_of_containers_are_noticed(seed: int) -> None:
    """Containers of both kinds at one depth, built anew for each save, with the same few leaves all over."""
    chance = random.Random(seed)

    def part(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.3:
            return chance.choice([True, False, None])
        if chance.random() < 0.5:
            return [part(depth - 1) for _ in range(chance.randrange(3))]
        return {name: part(depth - 1) for name in chance.sample("abc", chance.randrange(3))}

    def swapped(items: list[Any], one: int, other: int) -> list[Any]:
        leaves = iter(exchanged(list(leaves_of(items)), one, other))
        return with_leaves(items, leaves)

    items = [{"x": [part(3)], "y": {"z": part(3)}, "l": chance.random() < 0.5} for _ in range(18)]
    seen = _after_two_saves({"messages": items[:16]})
    for count in (17, 18):
        _, after = _encoded(seen, {"messages": copy.deepcopy(items[:count])})
        seen = after.settled()
    for _ in range(20):
        count = len(list(leaves_of(items)))
        moved = swapped(items, chance.randrange(count), chance.randrange(count))
        new, _ = _encoded(seen, {"messages": moved})
        assert isinstance(new, dict) == (repr(moved) == repr(items))


def leaves_of(value: Any) -> Iterator[Any]:
    if type(value) not in (dict, list):
        yield value
        return
    for each in value.values() if type(value) is dict else value:
        yield from leaves_of(each)


def with_leaves(value: Any, leaves: Iterator[Any]) -> Any:
    if type(value) is dict:
        return {key: with_leaves(each, leaves) for key, each in value.items()}
    return [with_leaves(each, leaves) for each in value] if type(value) is list else next(leaves)


def exchanged(leaves: list[Any], one: int, other: int) -> list[Any]:
    leaves[one], leaves[other] = leaves[other], leaves[one]
    return leaves


def test_a_dict_of_which_the_collector_tells_nothing_is_looked_at() -> None:
    """From 3.13 on it tells nothing of an object's own dict; one with other keys once is told with its keys."""
    name, label = "name", "label"
    loose = Loose(label, name)
    other: dict[Any, Any] = _without({1: 1}, 1)
    other[name] = other[label] = label  # its keys and values are the values of both, in their order
    state = {"messages": [vars(loose), other, *_items(20)]}
    seen = _after_two_saves(state)
    loose.x = "changed"
    assert not isinstance(_encoded(seen, state)[0], dict)


def test_every_change_in_place_is_noticed() -> None:
    for name, change in CHANGES.items():
        state = {"messages": _items(40)}
        seen = _after_two_saves(state)
        change(state["messages"])
        new, _ = _encoded(seen, state)
        assert not isinstance(new, dict), name


@given(st.integers(0, 10_000))
def test_a_walk_of_random_changes_is_followed_exactly(seed: int) -> None:
    chance = random.Random(seed)
    state: dict[str, Any] = {"messages": _items(20), "frozen": [Message("user", str(n)) for n in range(18)], "k": 1}
    document, seen = Document(), Seen()
    for _ in range(6):
        new, seen = seen.encoded(state, BUFFER)
        _, document = delta(document, new)
        del new
        assert repr(decode(document.encoded())) == repr(decode(encode(state)))
        state["messages"].append({"n": chance.random()})
        if chance.random() < 0.5:
            chance.choice(state["messages"][:5])["n"] = chance.choice([1, True, 1.0, "1", None])
        if chance.random() < 0.3:
            state["frozen"][chance.randrange(18)] = Message("user", "other")


def _wide(chance: random.Random) -> dict[str, Any]:
    odd = chance.choice([{}, {}, {}, {"\ud800": 0}, {"new\nline": 0}])
    return {f"k{n}": n for n in range(12)} | odd


def _change(chance: random.Random, context: dict[str, Any]) -> None:
    for _ in range(chance.choice([0, 1, 1, 2, 12])):
        context[chance.choice(list(context))] = chance.choice([1, True, 1.0, -0.0, 0.0, "1", None, [1], {"a": {}}, ()])
    if chance.random() < 0.2:
        context.pop(chance.choice(list(context)))
    if chance.random() < 0.2:
        context[chance.choice(["k3", "new", "\ud801"])] = 7


def _in_order(value: Any) -> Any:
    """A state with its keys in order: an order-only change is no change."""
    if type(value) is dict:
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(each) for each in value] if type(value) is list else value


@given(st.integers(0, 100_000))
def test_saves_of_a_state_that_changes_anywhere_are_followed_exactly(seed: int) -> None:
    """As the engine does it: the change is found, perhaps refused, applied, and what was seen is settled."""
    chance = random.Random(seed)
    state: dict[str, Any] = {"messages": _items(20), "context": _wide(chance), "other": _wide(chance)}
    document, seen = Document(), Seen()
    for _ in range(8):
        new, after = seen.encoded(state, BUFFER)
        change = placed(document, new)
        del new
        if chance.random() < 0.8:
            folded = Document.of(document.encoded()) if document.root is not None else Document()
            folded.apply(change.ops)
            change.apply(document)
            assert folded.encoded() == document.encoded()
            seen = after.settled()
            assert repr(_in_order(decode(document.encoded()))) == repr(_in_order(decode(encode(state))))
        if chance.random() < 0.2:
            document.close()
        state["messages"].append({"n": chance.random()})
        if chance.random() < 0.2:
            chance.choice(state["messages"])["n"] = chance.choice([1, True, 1.0, "1", None])
        for name in ("context", "other"):
            if type(state[name]) is dict and chance.random() < 0.7:
                _change(chance, state[name])
        if chance.random() < 0.1:
            state["other"] = chance.choice([None, [1], _wide(chance), dict(state["context"])])


def test_what_is_changed_while_it_is_encoded_is_found_by_the_next_save(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"messages": _items(40), "context": {f"k{n}": n for n in range(12)}}
    document, seen = Document.of(encode(state)), _after_two_saves(state)

    def saved() -> None:
        nonlocal seen
        new, after = _encoded(seen, state)
        placed(document, new).apply(document)
        seen = after.settled()

    def encode_late(value: Any, **where: Any) -> bytes:
        state["messages"][-1]["text"] = state["context"]["k2"] = f"set by another thread {next(numbers)}"
        return encode(value, **where)

    numbers = itertools.count()
    saved()
    for turn in range(3):
        state["messages"].append({"text": "first"})
        state["context"]["k1"] = f"turn {turn}"
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(seen_module, "encode", encode_late)
            saved()
        saved()
        assert decode(document.encoded()) == state


TABLES: dict[str, Any] = {
    "keys that were once no strs": lambda n: _once_numbered({"a": None, "b": None, "c": n}),
    "of an object": lambda n: vars(Holder(n)),
    "of an object, in another order": lambda n: _reordered(vars(Holder(n))),
    "with a gap": lambda n: _without({"gone": 0, "a": None, "b": None, "c": n}, "gone"),
}


def _once_numbered(item: dict[Any, Any]) -> dict[Any, Any]:
    item[1] = 2
    return _without(item, 1)


def _without(item: dict[Any, Any], key: object) -> dict[Any, Any]:
    del item[key]
    return item


def _reordered(item: dict[str, Any]) -> dict[str, Any]:
    item["one"] = item.pop("one")
    return item


def test_dicts_of_any_making_are_recognised_and_told_apart() -> None:
    for name, made in TABLES.items():
        state = {"messages": [made(n + 1000) for n in range(20)]}
        seen = _after_two_saves(state)
        state["messages"].append({"role": "bot"})
        assert _encoded(seen, state)[0]["messages"].kept == 20, name
        item = state["messages"][7]
        number, *others = sorted(item, key=lambda key: item[key] is None)
        for other in others:
            item[number], item[other] = item[other], item[number]  # the same objects, under other keys
            assert not isinstance(_encoded(seen, state)[0], dict), name
            item[number], item[other] = item[other], item[number]
            assert isinstance(_encoded(seen, state)[0], dict), name


def test_keys_and_leaves_of_other_types_are_noticed_and_refused() -> None:
    changes: dict[str, Any] = {
        "(key)": lambda m: m[3].update({Name("x"): m[3].pop("x")}),
        "role": lambda m: m[3].update(role=Name("user")),
    }
    for place, change in changes.items():
        state = {"messages": _items(40)}
        seen = _after_two_saves(state)
        change(state["messages"])
        with pytest.raises(UnsupportedValueError, match=re.escape(f"state.messages[3].{place}")):
            _encoded(seen, state)


CONTEXTS: dict[str, Any] = {
    "a value": lambda c: c.update(k3="other"),
    "a value of equal value and another type": lambda c: c.update(k1=True),
    "a value of a subclass": lambda c: c.update(k0=Name("text")),
    "two values": lambda c: c.update(k3=None, k4=[1, {"deep": (1, 2)}]),
    "every value": lambda c: c.update(dict.fromkeys(c, "new")),
    "a key more": lambda c: c.update(new=1),
    "a key less": lambda c: c.pop("k5"),
    "a key of another name": lambda c: c.update(renamed=c.pop("k9")),
    "another order": lambda c: c.update(k2=c.pop("k2")),
    "a key that is no text": lambda c: c.update({"\ud800": 1}),
    "nothing": lambda c: None,
}


def test_changes_of_a_flat_dict_are_found_exactly() -> None:
    for name, change in CONTEXTS.items():
        state: dict[str, Any] = {"messages": _items(40), "context": {f"k{n}": n for n in range(12)} | {"k0": "text"}}
        seen = _after_two_saves(state)
        for _ in range(2):  # the dict is remembered beside a list that grows
            document = Document.of(encode(state))
            state["messages"].append({"role": "bot"})
            new, seen = _encoded(seen, state)
            document = delta(document, new)[1]
            seen.settled()
        change(state["context"])
        try:
            wanted = encode(state)
        except UnsupportedValueError:
            with pytest.raises(UnsupportedValueError, match=r"state\.context\.k0"):
                _encoded(seen, state)
            continue
        ops, after = delta(document, _encoded(seen, state)[0])
        assert repr(_in_order(decode(after.encoded()))) == repr(_in_order(decode(wanted))), name
        assert len(ops) <= 2, name


def test_a_few_values_of_a_flat_dict_are_all_that_is_encoded() -> None:
    state: dict[str, Any] = {"messages": _items(40), "context": {f"k{n}": n for n in range(12)}}
    seen = _after_two_saves(state)
    seen = _encoded(seen, state)[1]
    state["context"]["k3"] = "other"
    new, seen = _encoded(seen, state)
    assert isinstance(new["context"], Altered)
    assert list(new["context"].values) == ["k3"]
    assert _encoded(seen, state)[0]["context"].values == {}


def test_items_that_are_not_plain_are_not_remembered() -> None:
    assert PlainItems.of([{"a": (1,)}]) is None
    assert PlainItems.of([{1: "a"}]) is None
    assert PlainItems.of(["leaf"]) is None


def test_a_list_that_keeps_changing_elsewhere_is_left_alone_for_a_while() -> None:
    state = {"messages": _items(40)}
    seen = Seen()
    for turn in range(12):
        _, seen = _encoded(seen, state)
        state["messages"][0]["n"] = turn + 0.5
    assert seen._lists == {}


def test_what_was_not_saved_is_not_remembered() -> None:
    """A save that is refused leaves what was seen before as it was."""
    state = {"messages": _items(40)}
    seen = _after_two_saves(state)
    grown = {"messages": [*state["messages"], {"role": "bot"}]}
    _, refused = _encoded(seen, grown)
    new, _ = _encoded(seen, grown)
    assert new["messages"].kept == 40
    after = refused.settled()
    new, _ = _encoded(after, {"messages": [*grown["messages"], {"role": "user", "parts": [[1]]}]})
    assert (new["messages"].kept, len(new["messages"].tail)) == (41, 1)


def test_an_item_that_is_changed_while_it_is_saved_is_told_apart() -> None:
    """A caller may change its list while the save waits: what was encoded counts."""
    state = {"messages": _items(40)}
    seen = _after_two_saves(state)
    state["messages"].append({"role": "bot", "text": "first"})
    _, after = _encoded(seen, state)
    state["messages"][40]["text"] = "second"
    state["messages"].append({"role": "bot"})
    new, _ = _encoded(after.settled(), state)
    assert not isinstance(new, dict) or new["messages"].kept < 41
