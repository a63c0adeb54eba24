"""Why a state is big, down to the key inside it (promise B10)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from perdure.core.codec import encode, encode_result
from perdure.core.errors import InvalidInputError
from perdure.core.registry import Registry, register
from perdure.core.weights import SHOWN, KindSize, Largest, StoreSizes, ThreadSizes, ThreadTotal, Weight, weigh
from perdure.core.writes import Sizes

SIZES = Sizes(
    threads=1, entries=3, entry_bytes=2000, snapshots=1, snapshot_bytes=900, checkpoints=2, blobs=0, blob_bytes=0,
    disk_bytes=0,
)  # fmt: skip


@dataclass
class Customer:
    name: str
    notes: list[str]


def paths(weight: Weight) -> list[str]:
    return [each.path for each in weight.inside]


def at(weight: Weight, path: str) -> Weight:
    """The place of this path, wherever it is."""
    todo = [weight]
    while todo:
        each = todo.pop()
        if each.path == path:
            return each
        todo += each.inside
    raise AssertionError(path)


def test_a_state_weighs_what_its_encoding_does_and_its_keys_share_that() -> None:
    """B10: nothing is lost between the keys and the whole; only the head of the dict is nobody's."""
    state = {"context": {"city": "Paris"}, "draft": "x" * 300, "n": 1}
    root = weigh(encode(state))
    assert (root.path, root.bytes, root.share) == ("", len(encode(state)), 1.0)
    assert paths(root) == ["draft", "context", "n"]
    assert sum(each.bytes for each in root.inside) == root.bytes - 1
    assert at(root, "context.city").bytes == len(encode("city")) + len(encode("Paris"))


def test_items_of_a_list_are_one_place_with_their_number_average_and_largest() -> None:
    """B10: the message that is too long is named by its index."""
    messages = [{"role": "user", "content": "x" * (10 if index != 17 else 5000)} for index in range(100)]
    root = weigh(encode({"messages": messages}))
    (place,) = root.inside
    items = [len(encode(item)) for item in messages]
    assert (place.path, place.count, place.average) == ("messages[*]", 100, round(sum(items) / 100))
    assert place.largest == Largest("messages[17]", items[17])
    assert paths(place) == ["messages[*].content", "messages[*].role"]
    content = place.inside[0]
    assert content.bytes == sum(len(encode("content")) + len(encode(item["content"])) for item in messages)
    assert (content.count, content.largest) == (100, Largest("messages[17].content", len(encode("x" * 5000))))


def test_depth_is_how_far_to_look() -> None:
    state = encode({"a": {"b": {"c": {"d": 1}}}})
    assert weigh(state, 0).inside == ()
    assert at(weigh(state, 3), "a.b.c").inside == ()
    assert at(weigh(state, 9), "a.b.c.d").bytes == 3
    for depth in (-1, "2", True, None):
        with pytest.raises(InvalidInputError):
            weigh(state, depth)  # type: ignore[arg-type]


def test_every_container_is_opened() -> None:
    registry = Registry()
    register(Customer, registry=registry)
    state = {
        "object": Customer("Ada", ["long " * 20]),
        "tuple": (1, "two"),
        "set": {"one", "three"},
        "mapping": {1: "one", "two": [2, 3]},
        "grid": [[1, 2], [3]],
        "mixed": [{"x": 1}, [2, 3], "leaf", None],
        "empty": [],
    }
    root = weigh(encode(state, registry=registry), 3)
    found = {
        "object.notes[*]": 1, "object.name": 1, "tuple[*]": 2, "set[*]": 2, "mapping.1": 1, "mapping.two[*]": 2,
        "grid[*]": 2, "grid[*][*]": 3, "mixed[*]": 4, "mixed[*].x": 1, "mixed[*][*]": 2, "empty[*]": 0,
    }  # fmt: skip
    assert {path: at(root, path).count for path in found} == found
    assert at(root, "mixed[*][*]").largest == Largest("mixed[1][0]", 1)


def test_a_record_and_a_state_that_is_no_dict_are_weighed_too() -> None:
    assert paths(weigh(encode_result(Customer("Ada", [])))) == ["name", "notes[*]"]
    assert weigh(encode([1, "two"])).path == "[*]"
    assert weigh(encode("text")) == Weight(path="", bytes=5, share=1.0, count=1, average=5)
    assert weigh(b"\xc0").bytes == 1


def test_a_key_with_a_dot_is_shown_as_one() -> None:
    assert paths(weigh(encode({"a.b": 1}))) == ["['a.b']"]


def test_of_many_keys_the_heaviest_are_named_and_the_others_counted() -> None:
    root = weigh(encode({f"k{number:03}": "x" * number for number in range(100)}))
    assert paths(root) == [f"k{number:03}" for number in range(99, 99 - SHOWN, -1)]
    assert root.others == 100 - SHOWN
    assert root.other_bytes + sum(each.bytes for each in root.inside) == root.bytes - 3


def test_it_can_be_read() -> None:
    messages = [{"role": "user", "content": "x" * (1000 if index != 1 else 5000)} for index in range(3)]
    sizes = ThreadSizes(
        id="ticket-42",
        version=3,
        totals=SIZES,
        log=(
            KindSize(kind="state.updated", entries=2, bytes=1500),
            KindSize(kind="message.added", entries=1, bytes=500),
        ),
        large_values=1,
        large_bytes=70_000,
        state=weigh(encode({"messages": messages, "city": "Paris", "tiny": 0})),
    )
    assert str(sizes).splitlines() == [
        "thread ticket-42, version 3",
        "entries                     2.0 kB  3",
        "  state.updated             1.5 kB   75.0%  2",
        "  message.added              500 B   25.0%  1",
        "snapshots                    900 B  1",
        "large values               70.0 kB  1",
        "checkpoints                         2",
        "state                       7.1 kB",
        "  messages[*]               7.1 kB   99.7%  3 × 2.4 kB, largest messages[1] 5.0 kB",
        "    messages[*].content     7.0 kB   99.1%  3 × 2.3 kB, largest messages[1].content 5.0 kB",
        "    messages[*].role          30 B    0.4%  3 × 5 B, largest messages[0].role 5 B",
        "  city                        11 B    0.2%",
        "  (1 more)                     6 B",
    ]


def test_a_store_can_be_read() -> None:
    total = ThreadTotal(id="ticket", user="alice", namespace="", version=3, entries=3, bytes=2900)
    sizes = StoreSizes(**{name: getattr(SIZES, name) for name in SIZES.__struct_fields__}, largest=(total,))
    assert str(sizes).splitlines() == [
        "threads                       1",
        "entries               2.0 kB  3",
        "snapshots              900 B  1",
        "large values             0 B  0",
        "checkpoints                   2",
        "largest threads",
        "  ticket of alice     2.9 kB  3",
    ]
