"""The exact-type check in front of the fast encoder.

The encoder flattens silently: a tuple becomes a list, a set a list, a `str` subclass a `str`. So a value may take the
fast way only when every part of it has exactly one of the eight types below. The check goes level by level, so that
a list of a thousand messages costs a few passes in C instead of a thousand calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

MAX_DEPTH = 100
MAX_PARTS = 10_000_000  # a shared or cyclic value that unfolds to more is refused instead of filling the memory

LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_PLAIN = LEAVES | {dict, list}
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
_STR = frozenset({str})
_DICT = {dict}
_values = dict[str, Any].values


class TooManyParts(Exception):
    """A value that unfolds to more parts than anybody means to save."""


def is_plain(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether `value` is built of exact dicts with str keys, lists and plain leaves, and is not nested too deep."""
    return bool(plain_parts(value, depth))


def plain_parts(value: object, depth: int = MAX_DEPTH, most: int = MAX_PARTS) -> int:
    """How many parts a plain value has, 0 for any other; raise `TooManyParts` for more than `most`."""
    if depth > 1 and type(value) is dict and LEAVES.issuperset(map(type, value.values())) and _is_keyed(value):
        return 1 + len(value)  # one flat message: the commonest value of all
    values: list[Any] = [value]
    parts = 0
    for _ in range(depth):
        parts += len(values)
        if parts > most:
            raise TooManyParts
        types = set(map(type, values))
        if not types <= _PLAIN:
            return 0
        if types <= LEAVES:
            return parts
        dicts = values if types == _DICT else [each for each in values if type(each) is dict] if dict in types else []
        lists = [each for each in values if type(each) is list] if list in types else []
        if sum(map(len, dicts)) + sum(map(len, lists)) + parts > most:
            raise TooManyParts
        if dicts and not _is_keyed(chain.from_iterable(dicts)):
            return 0
        values = [*chain.from_iterable(map(_values, dicts)), *chain.from_iterable(lists)]
        if not values:
            return parts
    return 0


def unfolded_parts(value: object, opened: Callable[[Any], Any]) -> int:
    """At least how many parts a value unfolds to, where what is shared is looked at once.

    `opened` returns what an object is made of, or None for one that counts as a single part.
    """
    return _unfolded(value, opened, {}, MAX_DEPTH)


def _unfolded(value: Any, opened: Callable[[Any], Any], counted: dict[int, tuple[Any, int]], depth: int) -> int:
    if type(value) in LEAVES or not depth:
        return 1
    if (known := counted.get(id(value))) is not None:
        return known[1]
    inside = value if type(value) in _CONTAINERS else opened(value)
    if type(inside) not in _CONTAINERS:
        return 1
    items = inside.values() if type(inside) is dict else inside
    if LEAVES.issuperset(map(type, items)):
        return 1 + len(items)  # most containers, and not worth remembering
    counted[id(value)] = value, 1  # of a cycle, as long as it is open; the value is held, so that its id stays its own
    parts = 1 + sum(_unfolded(each, opened, counted, depth - 1) for each in items)
    counted[id(value)] = value, parts
    return parts


def _is_keyed(keys: Iterable[Any]) -> bool:
    return _STR.issuperset(map(type, keys))
