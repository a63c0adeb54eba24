"""Items of a list are recognised only when they are really what they were."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.codec import decode, encode
from perdure.core.delta import Grown, delta
from perdure.core.document import Document
from perdure.core.leaves import PlainItems
from perdure.core.message import Message
from perdure.core.seen import Seen

BUFFER = bytearray()


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
