"""Recognising the items of a list, and the values of a flat dict, that are still what they were, without encoding them.

Plain leaves (str, int, float, bool, None, bytes of exactly these types) never change. So if every dict and list of an
item is read again, and has the same keys and the very same leaf objects in the same places, the item encodes to the
same bytes. Nothing is assumed of the containers: a change made in place shows up as another leaf, key or length.
A flat dict is compared key by key in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from gc import get_referents
from itertools import chain, compress, islice
from operator import is_, is_not
from typing import Any

from perdure.core.plain import LEAVES, MAX_DEPTH

_CONTAINERS = frozenset({dict, list})
_DICT, _STR = {dict}, {str}
_PLAIN = LEAVES | _CONTAINERS
_WIDE = 8  # a dict of fewer keys is encoded sooner than it is compared
_FEW = 4  # one of so many values may be another: above that, storing the whole dict may be shorter
_values_of = dict[str, Any].values
_each_of = chain[Any].from_iterable


class Level:
    """All containers of one depth, how large each was, the keys of the dicts, and what was inside dicts and lists."""

    __slots__ = ("containers", "dicts", "items", "keys", "lists", "sizes", "told", "values")

    def __init__(self, containers: list[Any], dicts: list[Any], lists: list[Any]) -> None:
        self.containers, self.dicts, self.lists = containers, dicts, lists
        self.sizes = list(map(len, containers))
        self.keys: list[Any] = list(_each_of(dicts))
        self.values: list[Any] = list(_each_of(map(_values_of, dicts)))
        self.items: list[Any] = list(_each_of(lists))
        self.told = False

    def remembered(self) -> Level:
        """Itself, to be asked whether it is unchanged.

        The collector tells what dicts hold in a quarter of the time: the values alone, where all keys are exact strs.
        Where it tells anything else of any of them (of an object's dict it may tell nothing), it is not asked.
        """
        self.told = _identical(get_referents(*self.dicts), self.values) and (
            len(self.dicts) == 1 or list(map(len, map(get_referents, self.dicts))) == list(map(len, self.dicts))
        )
        return self

    @classmethod
    def of_leaves(cls, item: dict[Any, Any]) -> Level | None:
        """One dict of leaves, which is what most saves add, read and remembered at once; None for any other."""
        level, told = cls([item], [item], []), get_referents(item)
        level.told = _identical(told, level.values)
        return level if set(map(type, level.values)) <= LEAVES and set(map(type, level.keys)) <= _STR else None

    @classmethod
    def of(cls, containers: Sequence[Any]) -> Level | None:
        """Read containers; None when one of them is neither a dict nor a list."""
        kinds = set(map(type, containers))
        if kinds == _DICT:
            return cls(list(containers), list(containers), [])
        if not kinds <= _CONTAINERS:
            return None
        dicts = [each for each in containers if type(each) is dict]
        return cls(list(containers), dicts, [each for each in containers if type(each) is list])

    def extend(self, other: Level) -> None:
        """Take in the containers of another one, after these."""
        self.containers += other.containers
        self.lists += other.lists
        self.dicts += other.dicts
        self.sizes += other.sizes
        self.keys += other.keys
        self.values += other.values
        self.items += other.items
        self.told = self.told and other.told

    def is_unchanged(self) -> bool:
        """Whether its containers hold the very same objects now."""
        if list(map(len, self.containers)) != self.sizes or not all(map(is_, _each_of(self.lists), self.items)):
            return False
        if not self.told:
            return self._holds_the_same()
        told, values = get_referents(*self.dicts), self.values
        # In this order: once the values alone are told, all keys are exact strs, and equal ones are the same.
        return len(told) == len(values) and all(map(is_, told, values)) and list(_each_of(self.dicts)) == self.keys

    def _holds_the_same(self) -> bool:
        keys, values = _each_of(self.dicts), _each_of(map(_values_of, self.dicts))
        return all(map(is_, keys, self.keys)) and all(map(is_, values, self.values))

    def below(self) -> list[Any] | None:
        """The containers of the next depth; None where a key is no exact str, or what is inside is not plain."""
        kinds = set(map(type, chain(self.values, self.items)))
        if set(map(type, self.keys)) - _STR or not kinds <= _PLAIN:
            return None
        return [] if kinds <= LEAVES else self.inside()

    def inside(self) -> list[Any]:
        """The containers of the next depth, in the order of those that hold them: what comes later stays behind."""
        return [each for each in self._parts() if type(each) in _CONTAINERS]

    def _parts(self) -> Iterable[Any]:
        if not self.lists or not self.dicts:
            return self.values or self.items
        values, items = iter(self.values), iter(self.items)
        both = zip(self.containers, self.sizes, strict=True)
        return _each_of(islice(values if type(each) is dict else items, size) for each, size in both)

    def same_as(self, other: Level, deepest: bool) -> bool:
        """Whether keys and leaves are the same objects; containers inside are compared a level deeper."""
        if self.sizes != other.sizes or self._kinds() != other._kinds() or not _identical(self.keys, other.keys):
            return False
        if deepest:
            return _identical(self.values, other.values) and _identical(self.items, other.items)
        return _same_leaves(self.values, other.values) and _same_leaves(self.items, other.items)

    def _kinds(self) -> list[type]:
        return list(map(type, self.containers))


class PlainItems:
    """Items of a list as they were last saved. Their leaves and keys are held, so that they stay themselves."""

    __slots__ = ("_levels", "count")

    def __init__(self, count: int, levels: list[Level]) -> None:
        self.count = count
        self._levels = levels

    @classmethod
    def of(cls, items: Sequence[Any]) -> PlainItems | None:
        """Remember items that are dicts and lists of plain parts; None for any other."""
        if len(items) == 1 and type(items[0]) is dict and (flat := Level.of_leaves(items[0])) is not None:
            return cls(1, [flat])
        levels: list[Level] = []
        containers: Sequence[Any] | None = items
        while containers and len(levels) < MAX_DEPTH:
            level = Level.of(containers)
            containers = level.below() if level else None
            if level is None or containers is None:
                return None
            levels.append(level.remembered())
        return None if containers else cls(len(items), levels)

    def grown_to(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with exactly the remembered ones."""
        if len(items) < self.count:
            return False
        if all(map(is_, self._levels[0].containers, items)) and all(map(Level.is_unchanged, self._levels)):
            return True
        return self._likely(items[0]) and self._are_alike(items[: self.count])

    def _are_alike(self, containers: Sequence[Any]) -> bool:
        """Whether other containers hold the same leaves as the remembered ones."""
        last = len(self._levels) - 1
        for depth, known in enumerate(self._levels):
            level = Level.of(containers)
            if level is None or not level.same_as(known, depth == last):
                return False
            containers = level.inside() if depth < last else ()
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
        if type(first) is not type(known.containers[0]) or len(first) != known.sizes[0]:
            return False
        now, then = (_values_of(first), known.values) if type(first) is dict else (first, known.items)
        return all(one is two or type(one) in _CONTAINERS for one, two in zip(now, then, strict=False))


class FlatDict:
    """A dict of plain leaves as it was last saved. Its leaves are held, so that they stay themselves."""

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: list[str], values: list[Any]) -> None:
        self._keys = keys
        self._values = values

    @classmethod
    def of(cls, value: Any) -> FlatDict | None:
        """Remember a dict of leaves that has many keys; None for anything else."""
        if type(value) is not dict or len(value) < _WIDE or set(map(type, value)) != _STR:
            return None
        keys, values = list(value), list(value.values())
        # Other keys (a lone surrogate) make it something else than a dict, encoded.
        plain = "".join(keys).isprintable() and set(map(type, values)) <= LEAVES and len(keys) == len(values)
        return cls(keys, values) if plain else None

    def altered_to(self, value: Any) -> tuple[dict[str, Any], FlatDict | None] | None:
        """The values of a dict that are others now, by key, and what is to be remembered of it then.

        None when they are many, or the keys are others. The dict is read once: what somebody changes meanwhile is
        either among these values or told apart the next time.
        """
        if type(value) is not dict or set(map(type, value)) != _STR or list(value) != self._keys:
            return None
        values = list(value.values())
        changed = dict(compress(zip(self._keys, values, strict=False), map(is_not, values, self._values)))
        if len(changed) * _FEW > len(self._keys) or len(values) != len(self._keys):
            return None
        if not changed:
            return changed, self
        return changed, FlatDict(self._keys, values) if set(map(type, changed.values())) <= LEAVES else None


def _same_leaves(one: list[Any], other: list[Any]) -> bool:
    """Whether leaves are the same objects, and containers are of the same kind; most often they are the same too."""
    return _identical(one, other) or _identical(_shallow(one), _shallow(other))


def _shallow(inside: list[Any]) -> list[Any]:
    return [type(each) if type(each) in _CONTAINERS else each for each in inside]


def _identical(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))
