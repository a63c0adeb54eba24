"""Recognising the items of a list that are still what they were, without encoding them.

Plain leaves (str, int, float, bool, None, bytes of exactly these types) never change. So if every dict and list of an
item is read again, and has the same keys and the very same leaf objects in the same places, the item encodes to the
same bytes. Nothing is assumed of the containers: a change made in place shows up as another leaf, key or length.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any

from perdure.core.plain import LEAVES, MAX_DEPTH

_CONTAINERS = frozenset({dict, list})
_PLAIN = LEAVES | _CONTAINERS
_values_of = dict[str, Any].values


class Level:
    """All containers of one depth, how large each was, the keys of the dicts, and what was inside dicts and lists."""

    __slots__ = ("containers", "dicts", "items", "keys", "kinds", "lists", "sizes", "values")

    def __init__(self, containers: list[Any], kinds: list[Any]) -> None:
        self.containers, self.kinds = containers, kinds
        self.lists: list[Any] = [each for each in containers if type(each) is list] if list in kinds else []
        self.dicts: list[Any] = [each for each in containers if type(each) is dict] if self.lists else containers[:]
        self.sizes = list(map(len, containers))
        self.keys: list[Any] = list(_keys_in(self.dicts))
        self.values: list[Any] = list(_values_in(self.dicts))
        self.items: list[Any] = list(chain.from_iterable(self.lists))

    @classmethod
    def of(cls, containers: Sequence[Any]) -> Level | None:
        """Read containers; None when one of them is neither a dict nor a list."""
        kinds = list(map(type, containers))
        return cls(list(containers), kinds) if set(kinds) <= _CONTAINERS else None

    def extend(self, other: Level) -> None:
        """Take in the containers of another one, after these."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))

    def is_unchanged(self) -> bool:
        """Whether its containers hold the very same objects now."""
        return (
            list(map(len, self.containers)) == self.sizes
            and all(map(is_, _keys_in(self.dicts), self.keys))
            and all(map(is_, _values_in(self.dicts), self.values))
            and all(map(is_, chain.from_iterable(self.lists), self.items))
        )

    def is_plain(self) -> bool:
        """Whether keys are exact strs, and what is inside is plain."""
        return set(map(type, self.keys)) <= {str} and set(map(type, chain(self.values, self.items))) <= _PLAIN

    def below(self) -> list[Any]:
        """The containers of the next depth."""
        return [each for each in chain(self.values, self.items) if type(each) in _CONTAINERS]

    def same_as(self, other: Level, deepest: bool) -> bool:
        """Whether keys and leaves are the same objects; containers inside are compared a level deeper."""
        if self.sizes != other.sizes or self.kinds != other.kinds or not _identical(self.keys, other.keys):
            return False
        if deepest:
            return _identical(self.values, other.values) and _identical(self.items, other.items)
        return _same_leaves(self.values, other.values) and _same_leaves(self.items, other.items)


class PlainItems:
    """Items of a list as they were last saved. Their leaves and keys are held, so that they stay themselves."""

    __slots__ = ("_levels", "count")

    def __init__(self, count: int, levels: list[Level]) -> None:
        self.count = count
        self._levels = levels

    @classmethod
    def of(cls, items: Sequence[Any]) -> PlainItems | None:
        """Remember items that are dicts and lists of plain parts; None for any other."""
        levels: list[Level] = []
        containers: Sequence[Any] = items
        while containers and len(levels) < MAX_DEPTH:
            level = Level.of(containers)
            if level is None or not level.is_plain():
                return None
            levels.append(level)
            containers = level.below()
        return None if containers else cls(len(items), levels)

    def grown_to(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with exactly the remembered ones."""
        if len(items) < self.count:
            return False
        if all(map(is_, self._levels[0].containers, items)) and all(level.is_unchanged() for level in self._levels):
            return True
        return self._likely(items[0]) and self._are_alike(items[: self.count])

    def _are_alike(self, containers: Sequence[Any]) -> bool:
        """Whether other containers hold the same leaves as the remembered ones."""
        last = len(self._levels) - 1
        for depth, known in enumerate(self._levels):
            level = Level.of(containers)
            if level is None or not level.same_as(known, depth == last):
                return False
            containers = level.below() if depth < last else ()
        return True

    def extend(self, tail: PlainItems) -> None:
        """Remember those that came after these."""
        for level, more in zip(self._levels, tail._levels, strict=False):
            level.extend(more)
        self._levels += tail._levels[len(self._levels) :]
        self.count += tail.count

    def _likely(self, first: Any) -> bool:
        """A look at one item: a caller that builds its state anew each time should not pay for the whole comparison."""
        known = self._levels[0]
        if type(first) is not known.kinds[0] or len(first) != known.sizes[0]:
            return False
        now, then = (_values_of(first), known.values) if type(first) is dict else (first, known.items)
        return all(one is two or type(one) in _CONTAINERS for one, two in zip(now, then, strict=False))


def _keys_in(dicts: list[Any]) -> chain[Any]:
    return chain.from_iterable(dicts)


def _values_in(dicts: list[Any]) -> chain[Any]:
    return chain.from_iterable(map(_values_of, dicts))


def _same_leaves(one: list[Any], other: list[Any]) -> bool:
    """Whether leaves are the same objects, and containers are of the same kind; most often they are the same too."""
    return _identical(one, other) or _identical(_shallow(one), _shallow(other))


def _shallow(inside: list[Any]) -> list[Any]:
    return [type(each) if type(each) in _CONTAINERS else each for each in inside]


def _identical(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))
