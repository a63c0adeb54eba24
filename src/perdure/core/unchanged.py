"""Recognising the items of a long list that are still what they were at the last save, without encoding them.

Plain leaves (str, int, float, bool, None, bytes of exactly these types) never change. So if every dict and list of an
item is read again, and has the same keys and the very same leaf objects in the same places, the item encodes to the
same bytes. Nothing is assumed of the containers: a change made in place shows up as another leaf, key or length. A
pydantic object is a dict of its fields and a little beside it, and is recognised in the same way.

It helps the caller who keeps a state and saves it again: 1,000 messages take a third of the time, objects a fifth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from operator import attrgetter, is_
from typing import Any

from perdure.core.plain import LEAVES, MAX_DEPTH
from perdure.core.registry import REGISTRY

_LONG = 16  # a shorter list is encoded sooner than it is compared
_PATIENCE = 3  # lists that changed elsewhere than at their end this often are not remembered for a while
_REST = 32
_CONTAINERS = frozenset({dict, list})
_STR = {str}
_PLAIN = LEAVES | _CONTAINERS
_values_of = dict[str, Any].values
_each_of = chain[Any].from_iterable
_fields_of, _given = attrgetter("__dict__"), attrgetter("__pydantic_fields_set__")
_private, _extra = attrgetter("__pydantic_private__"), attrgetter("__pydantic_extra__")


class Level:
    """All containers of one depth, how large each was, the keys of the dicts, and what was inside dicts and lists."""

    __slots__ = ("containers", "dicts", "items", "keys", "lists", "sizes", "values")

    def __init__(self, containers: Sequence[Any]) -> None:
        self.containers = list(containers)
        self.dicts = [each for each in self.containers if type(each) is dict]
        self.lists = [each for each in self.containers if type(each) is list]
        self.sizes = list(map(len, self.containers))
        self.keys: list[Any] = list(_each_of(self.dicts))
        self.values: list[Any] = list(_each_of(map(_values_of, self.dicts)))
        self.items: list[Any] = list(_each_of(self.lists))

    def extend(self, other: Level) -> None:
        """Take in the containers of another one, after these."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))

    def is_unchanged(self) -> bool:
        """Whether its containers hold the very same objects now."""
        keys, values = _each_of(self.dicts), _each_of(map(_values_of, self.dicts))
        return (
            list(map(len, self.containers)) == self.sizes
            and all(map(is_, _each_of(self.lists), self.items))
            and all(map(is_, keys, self.keys))
            and all(map(is_, values, self.values))
        )

    def below(self) -> list[Any] | None:
        """The containers of the next depth; None where a key is no exact str, or what is inside is not plain."""
        kinds = set(map(type, chain(self.values, self.items)))
        if set(map(type, self.keys)) - _STR or not kinds <= _PLAIN:
            return None
        return [] if kinds <= LEAVES else [each for each in self._parts() if type(each) in _CONTAINERS]

    def _parts(self) -> Iterable[Any]:
        """What is inside, in the order of the containers: what comes later stays behind."""
        if not self.lists or not self.dicts:
            return self.values or self.items
        values, items = iter(self.values), iter(self.items)
        both = zip(self.containers, self.sizes, strict=True)
        return _each_of(islice(values if type(each) is dict else items, size) for each, size in both)


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
        containers: Sequence[Any] | None = items
        while containers and len(levels) < MAX_DEPTH:
            if not set(map(type, containers)) <= _CONTAINERS:
                return None
            level = Level(containers)
            containers = level.below()
            if containers is None:
                return None
            levels.append(level)
        return None if containers else cls(len(items), levels)

    def grown_to(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with exactly the remembered ones."""
        begins = len(items) >= self.count and all(map(is_, self._levels[0].containers, items))
        return begins and all(map(Level.is_unchanged, self._levels))

    def extend(self, tail: PlainItems) -> None:
        """Remember those that came after these."""
        for level, more in zip(self._levels, tail._levels, strict=False):
            level.extend(more)
        self._levels += tail._levels[len(self._levels) :]
        self.count += tail.count


class ObjectItems:
    """Pydantic objects of a list as they were last saved."""

    __slots__ = ("_fields", "_given", "_kinds", "count")

    def __init__(self, kinds: list[type], fields: PlainItems, given: list[Any]) -> None:
        self.count = len(kinds)
        self._kinds = kinds
        self._fields = fields
        self._given = given  # which fields were given, of each

    @classmethod
    def of(cls, items: Sequence[Any]) -> ObjectItems | None:
        """Remember objects of registered pydantic classes, whose fields are plain; None for any others."""
        kinds = list(map(type, items))
        if not all(map(_is_known, set(kinds))) or not _nothing_else(items):
            return None
        fields = PlainItems.of(list(map(_fields_of, items)))
        return None if fields is None else cls(kinds, fields, [set(_given(each)) for each in items])

    def grown_to(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with exactly the remembered ones."""
        if len(items) < self.count:
            return False
        begin = items[: self.count]
        return (
            list(map(type, begin)) == self._kinds
            and _nothing_else(begin)
            and self._fields.grown_to(list(map(_fields_of, begin)))
            and list(map(_given, begin)) == self._given
        )

    def extend(self, tail: ObjectItems) -> None:
        """Remember those that came after these."""
        self._kinds += tail._kinds
        self._fields.extend(tail._fields)
        self._given += tail._given
        self.count += tail.count


def _is_known(kind: type) -> bool:
    return hasattr(kind, "__pydantic_fields__") and REGISTRY.of(kind) is not None


def _nothing_else(items: Sequence[Any]) -> bool:
    """Whether they hold nothing but their fields; what is private or extra is taken apart each time."""
    return not any(map(_private, items)) and not any(map(_extra, items))


class Unchanged:
    """The long lists of a state as they were last saved, by key."""

    __slots__ = ("_lists", "_misses", "_tails")

    def __init__(self) -> None:
        self._lists: dict[str, Any] = {}
        self._tails: dict[str, Any] = {}  # what comes to the lists once the state is saved
        self._misses: dict[str, int] = {}

    def settled(self) -> Unchanged:
        """The state was saved: its lists have become longer. They are too long to be copied at each save."""
        for key, tail in self._tails.items():
            self._lists[key].extend(tail)
        self._tails = {}
        return self

    def look(self, state: Any) -> tuple[dict[str, int], Unchanged]:
        """How many items at the start of each long list are what they were, and what is to be remembered.

        It is read before anything is encoded: of a list that another thread changes meanwhile the next save has to
        find out. The other way round it would take the change for one that is stored.
        """
        after, kept = Unchanged(), dict[str, int]()
        for key, value in state.items() if type(state) is dict else ():
            if type(value) is not list or len(value) < _LONG or type(key) is not str:
                continue
            known = self._lists.get(key)
            if known is not None and known.grown_to(value):
                kept[key], after._misses[key] = known.count, 0
                tail = type(known).of(value[known.count :]) if len(value) > known.count else None
                if tail is not None or len(value) == known.count:
                    after._lists[key] = known
                    after._tails |= {} if tail is None else {key: tail}
                continue
            after._misses[key] = misses = (self._misses.get(key, -1) + 1) % _REST
            # Not at the first save: a process that saves once and ends would remember for nobody.
            if key in self._misses and misses <= _PATIENCE:
                items = PlainItems.of(value) or ObjectItems.of(value)
                after._lists |= {} if items is None else {key: items}
        return kept, after
