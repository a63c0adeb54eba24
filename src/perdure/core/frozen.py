"""Which values can never change, so that meeting the same object again proves the same bytes.

Identity alone proves nothing: a caller may have changed the object in place. It does when the object is immutable all
the way down, which is checked once, when the object is first saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import is_
from typing import Any

import msgspec

from perdure.core.message import FrozenDict, FrozenList
from perdure.core.plain import LEAVES


def is_frozen(value: Any) -> bool:
    """Whether nothing reachable from `value` can change."""
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
