"""Values that can never change: the same object then proves the same bytes, and is not encoded again."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.message import FrozenDict, FrozenList
from perdure.core.plain import LEAVES

# A frozen object and its bytes, by its identity. Holding the object keeps its identity its own.
Known = dict[int, tuple[object, Raw]]


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
    if may_be_frozen(kind):
        return all(is_frozen(getattr(value, name)) for name in kind.__struct_fields__)
    return _is_atom(kind)


def may_be_frozen(kind: type) -> bool:
    """Whether its objects cannot be assigned to; what they hold may still change."""
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen


def _is_atom(kind: type) -> bool:
    from perdure.core import scalars

    return kind in scalars.PACK and kind is not bytearray
