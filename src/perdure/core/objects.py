"""Recognising the objects of a list that are still what they were, without taking them apart.

A pydantic object is a dict of its fields and a little beside it. If the same dicts hold the very same leaves, and what
is beside them is equal, the objects encode to the same bytes; a change made in place shows up as another leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from perdure.core.leaves import PlainItems
from perdure.core.registry import REGISTRY

_fields_of = attrgetter("__dict__")
_given = attrgetter("__pydantic_fields_set__")
_private = attrgetter("__pydantic_private__")
_extra = attrgetter("__pydantic_extra__")


class ObjectItems:
    """Pydantic objects of a list as they were last saved."""

    __slots__ = ("_fields", "_kinds", "_set", "count")

    def __init__(self, kinds: list[type], fields: PlainItems, given: list[Any]) -> None:
        self.count = len(kinds)
        self._kinds = kinds
        self._fields = fields
        self._set = given  # which fields were given, of each

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
            and list(map(_given, begin)) == self._set
        )

    def extend(self, tail: ObjectItems) -> None:
        """Remember those that came after these."""
        self._kinds += tail._kinds
        self._fields.extend(tail._fields)
        self._set += tail._set
        self.count += tail.count


def _is_known(kind: type) -> bool:
    return hasattr(kind, "__pydantic_fields__") and REGISTRY.of(kind) is not None


def _nothing_else(items: Sequence[Any]) -> bool:
    """Whether they hold nothing but their fields; what is private or extra is taken apart each time."""
    return not any(map(_private, items)) and not any(map(_extra, items))
