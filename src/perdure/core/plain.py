"""The exact-type check in front of the fast encoder.

The encoder flattens silently: a tuple becomes a list, a set a list, a `str` subclass a `str`. So a value may take the
fast way only when every part of it has exactly one of the eight types below. The check goes level by level, so that
a list of a thousand messages costs a few passes in C instead of a thousand calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

MAX_DEPTH = 100
MAX_PARTS = 10_000_000  # a shared or cyclic value that unfolds to more is refused instead of filling the memory

LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_PLAIN = LEAVES | {dict, list}
_STR = {str}
_DICT = {dict}
_values = dict[str, Any].values


class TooManyParts(Exception):
    """A value that unfolds to more parts than anybody means to save."""


def is_plain(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether `value` is built of exact dicts with str keys, lists and plain leaves, and is not nested too deep."""
    if depth > 1 and type(value) is dict and set(map(type, value.values())) <= LEAVES and set(map(type, value)) <= _STR:
        return True  # one flat message: the commonest value of all
    types: set[type] = {type(value)}
    dicts: list[Any] = [value] if dict in types else []
    lists: list[Any] = [value] if list in types else []
    parts = 1
    for _ in range(depth):
        if not types <= _PLAIN:
            return False
        if not dicts and not lists:
            return True
        parts += sum(map(len, dicts)) + sum(map(len, lists))
        if parts > MAX_PARTS:
            raise TooManyParts
        if set(map(type, chain.from_iterable(dicts))) - _STR:
            return False
        types = set(map(type, _children(dicts, lists)))
        dicts, lists = _containers(dicts, lists, types)
    return False


def _children(dicts: list[Any], lists: list[Any]) -> Iterator[Any]:
    return chain(chain.from_iterable(map(_values, dicts)), chain.from_iterable(lists))


def _containers(dicts: list[Any], lists: list[Any], types: set[type]) -> tuple[list[Any], list[Any]]:
    """The dicts and lists of the next level. Most levels have only leaves, and then nothing is gathered."""
    if types == _DICT:
        return list(_children(dicts, lists)), []
    below_dicts = [part for part in _children(dicts, lists) if type(part) is dict] if dict in types else []
    below_lists = [part for part in _children(dicts, lists) if type(part) is list] if list in types else []
    return below_dicts, below_lists
