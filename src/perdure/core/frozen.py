"""Which values can never change, so that meeting the same object again proves the same bytes.

Identity alone proves nothing: a caller may have changed the object in place. It does when the object is immutable all
the way down, which is checked once, when the object is first saved.
"""

from __future__ import annotations

from enum import Enum
from operator import is_
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.codec import encode, encode_into
from perdure.core.delta import Grown
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


class Seen:
    """The frozen items of a state's lists as they were last saved, held so that their identities stay theirs."""

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}

    def encoded(self, state: Any, buffer: bytearray) -> tuple[Any, Seen]:
        """Encode a state, leaving out the frozen items that were seen before; return it and what is seen now.

        The result is what `delta` takes: a view of the buffer, or a dict of encoded and `Grown` values.
        """
        if type(state) is not dict or not any(map(_is_candidate, state.values())) or not _has_text_keys(state):
            return encode_into(state, buffer), _NOTHING
        after = Seen()
        return {key: self._value(key, value, after) for key, value in state.items()}, after

    def _value(self, key: str, value: Any, after: Seen) -> Any:
        if not _is_candidate(value):
            return Raw(encode(value, at=(key,)))
        known = self._lists.get(key, ())
        if known and len(value) >= len(known) and all(map(is_, known, value)):
            return self._grown(key, value, len(known), after)
        if all(map(is_frozen, value)):
            after._lists[key] = value.copy()
        return Raw(encode(value, at=(key,)))

    def _grown(self, key: str, value: list[Any], kept: int, after: Seen) -> Grown:
        fresh = value[kept:]
        tail = [Raw(encode(item, at=(key, kept + at))) for at, item in enumerate(fresh)]
        if all(map(is_frozen, fresh)):
            after._lists[key] = value.copy()
        return Grown(kept, tail)


_NOTHING = Seen()


def _is_candidate(value: Any) -> bool:
    return type(value) is list and bool(value) and isinstance(value[-1], msgspec.Struct)


def _has_text_keys(state: dict[Any, Any]) -> bool:
    return all(type(key) is str and key.isprintable() for key in state)
