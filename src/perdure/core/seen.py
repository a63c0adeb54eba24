"""What was saved last, as far as it can be recognised in the next state without encoding it again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import is_
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.core.codec import encode, encode_into
from perdure.core.delta import Altered, Grown
from perdure.core.leaves import FlatDict, PlainItems
from perdure.core.message import FrozenDict, FrozenList
from perdure.core.plain import LEAVES

if TYPE_CHECKING:
    from perdure.core.objects import ObjectItems
    from perdure.core.subclasses import Subclasses

_LONG = 16  # a shorter list is encoded sooner than it is compared
_PATIENCE = 3  # lists that changed elsewhere than at their end this often are not remembered for a while
_REST = 32


def is_frozen(value: Any) -> bool:
    """Whether nothing reachable from `value` can change.

    Only then does the same object prove the same bytes: a caller may have changed any other one in place.
    """
    kind = type(value)
    if kind in LEAVES or isinstance(value, Enum):
        return True
    if kind in (tuple, frozenset, FrozenList):
        return all(map(is_frozen, value))
    if kind is FrozenDict:
        return all(map(is_frozen, value.values()))
    if isinstance(value, msgspec.Struct) and kind.__struct_config__.frozen:
        return all(is_frozen(getattr(value, name)) for name in kind.__struct_fields__)
    return _is_atom(kind)


def _is_atom(kind: type) -> bool:
    from perdure.core import scalars

    return kind in scalars.PACK and kind is not bytearray


class FrozenItems:
    """Items of a list that can never change, held so that their identities stay theirs."""

    __slots__ = ("_items", "count")

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self.count = len(items)

    @classmethod
    def of(cls, items: Sequence[Any]) -> FrozenItems | None:
        """Remember items that are immutable all the way down; None for any other."""
        return cls(list(items)) if all(map(is_frozen, items)) else None

    def grown_to(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with exactly the remembered ones."""
        return len(items) >= self.count and all(map(is_, self._items, items))

    def extend(self, tail: FrozenItems) -> None:
        """Remember those that came after these."""
        self._items += tail._items
        self.count += tail.count


if TYPE_CHECKING:
    Items = PlainItems | FrozenItems | ObjectItems


class Seen:
    """The long lists of a state as they were last saved, by key, and the flat dicts beside them."""

    __slots__ = ("_dicts", "_lists", "_misses", "_tails")

    def __init__(self) -> None:
        self._lists: dict[str, Items] = {}
        self._tails: dict[str, Any] = {}  # what comes to the lists once the state is saved
        self._misses: dict[str, int] = {}
        self._dicts: dict[str, FlatDict] = {}

    def settled(self) -> Seen:
        """The state was saved: its lists have become longer. They are too long to be copied at each save."""
        for key, tail in self._tails.items():
            self._lists[key].extend(tail)
        self._tails = {}
        return self

    def encoded(self, state: Any, buffer: bytearray, subclasses: Subclasses = "refuse") -> tuple[Any, Seen]:
        """Encode a state, leaving out parts that are still what they were; return it and what is seen now.

        The result is what `delta` takes: a view of the buffer, or a dict of encoded, `Grown` and `Altered` values. What
        is seen now takes the place of this once the state is saved (`settled`).
        """
        long = _long_lists(state)
        if not long:
            return encode_into(state, buffer, subclasses=subclasses), _NOTHING
        grown = {key: known for key, known in self._lists.items() if key in long and known.grown_to(long[key])}
        # First what is to be remembered, then what is stored: of a list that another thread changes meanwhile the next
        # save has to find out. The other way round it would take the change for one that is stored.
        after = self._after(long, grown)
        if not grown:
            return encode_into(state, buffer, subclasses=subclasses), after
        new = {
            key: _tail(key, value, grown[key], subclasses)
            if key in grown
            else self._part(key, value, after, subclasses)
            for key, value in state.items()
        }
        return new, after

    def _part(self, key: str, value: Any, after: Seen, subclasses: Subclasses) -> Raw | Altered:
        """A value that is no long list; `after` takes what is to be remembered of it."""
        known = self._dicts.get(key)
        altered = known.altered_to(value) if known else None
        changed, flat = altered or (None, FlatDict.of(value))
        if flat is not None:
            after._dicts[key] = flat
        if changed is None:
            return Raw(encode(value, at=(key,), subclasses=subclasses))
        return Altered(
            {name: Raw(encode(each, at=(key, name), subclasses=subclasses)) for name, each in changed.items()}
        )

    def _after(self, long: dict[str, list[Any]], grown: dict[str, Items]) -> Seen:
        after = Seen()
        for key, value in long.items():
            known = grown.get(key)
            if known is not None:
                after._misses[key] = 0
                if (tail := known.of(value[known.count :])) is not None:
                    after._lists[key], after._tails[key] = known, tail
                continue
            after._misses[key] = misses = (self._misses.get(key, -1) + 1) % _REST
            # Not at the first save: a process that saves once and ends would remember for nobody.
            if key in self._misses and (items := _remembered(value, misses)):
                after._lists[key] = items
        return after


_NOTHING = Seen()


def _long_lists(state: Any) -> dict[str, list[Any]]:
    if type(state) is not dict:
        return {}
    long: dict[str, list[Any]] = {}
    for key, value in state.items():
        if type(key) is not str or not key.isprintable():
            return {}
        if type(value) is list and len(value) >= _LONG:
            long[key] = value
    return long


def _tail(key: str, value: list[Any], known: Items, subclasses: Subclasses) -> Grown:
    fresh = enumerate(value[known.count :], known.count)
    return Grown(known.count, [Raw(encode(item, at=(key, at), subclasses=subclasses)) for at, item in fresh])


def _remembered(value: list[Any], misses: int) -> Items | None:
    if misses > _PATIENCE:
        return None
    return PlainItems.of(value) or FrozenItems.of(value) or _objects(value)


def _objects(value: list[Any]) -> Items | None:
    from perdure.core.objects import ObjectItems  # few states have any

    return ObjectItems.of(value)
