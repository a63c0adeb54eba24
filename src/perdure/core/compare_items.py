"""Which items of two lists are one and the same, edited or not.

Equal items are found first, as a longest common subsequence: one inserted item moves nothing else. Between them, items
are taken for edited ones where nothing else could be meant: the same `id`; else the same long field; else the most
alike, on both sides; else the same place among equally many. What is left was removed or added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Raw

from perdure.core.align import Pair, common_ends, gaps, longest
from perdure.core.document import Opened, opened

_CELLS = 1024  # comparisons of items with each other in one gap
_ALIKE = 0.5
_TEXT = 12  # bytes; shorter values say too little about whether one was made of the other
_NONE = Raw(b"\xc0")
_HEADS = {0xC4: 2, 0xC5: 3, 0xC6: 5, 0xD9: 2, 0xDA: 3, 0xDB: 5, 0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}

Items = Sequence[Raw]


def paired(old: Items, new: Items) -> list[Pair]:
    """The items that belong together, in rising order: equal ones, and those that were edited."""
    start, end = common_ends(old, new)
    found = _middle(old[start : len(old) - end], new[start : len(new) - end])
    ends = [(len(old) - back, len(new) - back) for back in range(end, 0, -1)]
    return [*((at, at) for at in range(start)), *((i + start, j + start) for i, j in found), *ends]


def same(one: Raw, other: Raw) -> bool:
    """Whether two values are equal; the order of a dict's keys does not count."""
    if one == other:
        return True
    left, right = opened(one), opened(other)
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(same, left, right))
    mine, others = _look(one), _look(other)
    if mine.kind != others.kind or not mine.fields or mine.fields.keys() != others.fields.keys():
        return False
    return all(same(value, others.fields[name]) for name, value in mine.fields.items())


def _middle(old: Items, new: Items) -> list[Pair]:
    if len(old) == len(new) and all(map(same, old, new)):
        return [(at, at) for at in range(len(old))]
    found = longest([bytes(item) for item in old], [bytes(item) for item in new])
    for way in (_by_id, _by_long_field, _by_likeness, _by_place):
        found = _filled(found, old, new, way)
    return found


def _filled(found: list[Pair], old: Items, new: Items, way: Callable[[Items, Items], list[Pair]]) -> list[Pair]:
    """The pairs, and between them those that another way finds."""
    if len(found) == min(len(old), len(new)):
        return found
    more: list[Pair] = []
    done = 0
    for at, left, right in gaps(found, len(old), len(new)):
        if left and right:
            pairs = way(old[left.start : left.stop], new[right.start : right.stop])
            more += found[done:at]
            more += [(left.start + i, right.start + j) for i, j in pairs]
            done = at
    return [*more, *found[done:]]


class _Look(NamedTuple):
    """An item, opened once."""

    raw: Raw
    kind: object  # items of different kinds are never one
    fields: dict[str, Raw]
    id: bytes | None


def _look(raw: Raw) -> _Look:
    node = opened(raw)
    if type(node) is Opened:
        return _Look(raw, (node.tag, node.version), node.fields, _id(node.fields))
    fields: dict[str, Raw] = node if type(node) is dict else {}
    return _Look(raw, type(node), fields, _id(fields))


def _id(fields: dict[str, Raw]) -> bytes | None:
    value = fields.get("id", _NONE)
    return None if value == _NONE else bytes(value)


def _by_id(old: Items, new: Items) -> list[Pair]:
    return longest(list(map(_id_key, old)), list(map(_id_key, new)))


def _id_key(item: Raw) -> object:
    look = _look(item)
    return object() if look.id is None else (look.kind, look.id)


def _by_long_field(old: Items, new: Items) -> list[Pair]:
    """A field that is most of an item tells it from others: what was done to all items of a list is seen through."""
    return longest(list(map(_long_key, old)), list(map(_long_key, new)))


def _long_key(item: Raw) -> object:
    look = _look(item)
    name = max(look.fields, key=lambda name: len(look.fields[name]), default=None)
    if name is None or len(look.fields[name]) < max(_TEXT, len(item) // 2):
        return object()
    return look.kind, look.id, name, bytes(look.fields[name])


def _by_likeness(old: Items, new: Items) -> list[Pair]:
    if len(old) * len(new) > _CELLS or len(old) == len(new) == 1:
        return []
    left, right = list(map(_look, old)), list(map(_look, new))
    likeness = [[_likeness(one, other) for other in right] for one in left]
    columns = list(zip(*likeness, strict=True))
    best = [(i, _best(row)) for i, row in enumerate(likeness)]
    mutual = [(i, j) for i, j in best if j is not None and _best(columns[j]) == i]
    order = longest([j for _, j in mutual], sorted(j for _, j in mutual))
    return [mutual[at] for at, _ in order]


def _best(row: Sequence[float]) -> int | None:
    """The place of the highest value; None when it is low, or when it is not the only one."""
    top = max(row)
    return row.index(top) if top >= _ALIKE and row.count(top) == 1 else None


def _by_place(old: Items, new: Items) -> list[Pair]:
    if len(old) != len(new):
        return []
    pairs = zip(map(_look, old), map(_look, new), strict=True)
    return [(at, at) for at, (one, other) in enumerate(pairs) if _may_be_one(one, other)]


def _may_be_one(one: _Look, other: _Look) -> bool:
    if _are_two(one, other):
        return False
    left, right = one.fields, other.fields
    return left.keys() == right.keys() or any(right.get(name) == value for name, value in left.items())


def _are_two(one: _Look, other: _Look) -> bool:
    """Whether items are certainly not one: of different kinds, or with different ids."""
    return one.kind != other.kind or (one.id != other.id and one.id is not None and other.id is not None)


def _likeness(one: _Look, other: _Look) -> float:
    """How much of the bytes of two items is the same: 1.0 all, 0.0 nothing or nothing that tells."""
    if _are_two(one, other):
        return 0.0
    left, right = one.fields, other.fields
    if not left or not right:
        return 2 * _shared(one.raw, other.raw) / (len(one.raw) + len(other.raw))
    same = sum(_shared(value, right[name]) for name, value in left.items() if name in right)
    return 2 * same / sum(map(len, (*left.values(), *right.values())))


def _shared(one: Raw, other: Raw) -> int:
    """How many bytes two values have in common at their start and at their end."""
    if one == other:
        return len(one)
    if max(len(one), len(other)) < _TEXT:
        return 0
    left, right = _content(one), _content(other)
    start = _prefix(left, right)
    return start + _prefix(left[start:][::-1], right[start:][::-1])


def _content(value: Raw) -> bytes:
    """The bytes after those that say how many there are, in which the slightest edit shows."""
    data = bytes(value)
    return data[_HEADS.get(data[0], 1) :]


def _prefix(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        half = (low + high + 1) // 2
        low, high = (half, high) if one[low:half] == other[low:half] else (low, half - 1)
    return low
