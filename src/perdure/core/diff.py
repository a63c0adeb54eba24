"""The difference of two states for people: which paths changed, from what to what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core import json_patch
from perdure.core.align import Pair, gaps
from perdure.core.codec import decode_tagged
from perdure.core.compare_items import paired
from perdure.core.document import Opened, opened
from perdure.core.errors import NestingTooDeepError, ValueDamagedError
from perdure.core.json_patch import Pointer
from perdure.core.plain import MAX_DEPTH
from perdure.core.steps import Path, show

WHOLE = "(state)"


class Missing:
    """The value of a path that does not exist on one side."""

    def __repr__(self) -> str:
        return "(missing)"


MISSING = Missing()


class At(msgspec.Struct, frozen=True):
    """A place in both states. Edits are made from the first to the last: what lies before is as in the new one."""

    path: Path = ()  # in the old state
    pointer: Pointer = ()  # in the rendering of the new one

    def key(self, name: str) -> At:
        """The place of a dict's value."""
        return At((*self.path, name), (*self.pointer, json_patch.key(name)))

    def item(self, old: int, new: int) -> At:
        """The place of an item that both lists have."""
        return At((*self.path, old), (*self.pointer, new))

    def fields(self) -> At:
        """The place of the fields of an object."""
        return At(self.path, (*self.pointer, *json_patch.OBJECT))


class Changed(msgspec.Struct, frozen=True):
    """Another value at a place; None where a side has nothing there."""

    at: At
    old: Raw | None
    new: Raw | None

    def show(self) -> str:
        """The path for people."""
        return show(self.at.path).removeprefix(".") or WHOLE

    def values(self) -> tuple[Any, Any]:
        """The old and the new value."""
        return value_of(self.old), value_of(self.new)

    def operations(self) -> Iterable[dict[str, Any]]:
        """The same as JSON Patch."""
        return [json_patch.replaced(self.at.pointer, self.old, self.new)]


class Spliced(msgspec.Struct, frozen=True):
    """Items of a list that were removed, added, or replaced by others."""

    at: At
    start: int  # in the old list
    index: int  # in the new one
    old: list[Raw]
    new: list[Raw]

    def show(self) -> str:
        """The path for people: the range of the old list."""
        return f"{show(self.at.path).removeprefix('.') or WHOLE}[{self.start}:{self.start + len(self.old)}]"

    def values(self) -> tuple[list[Any], list[Any]]:
        """The removed and the added items."""
        return list(map(value_of, self.old)), list(map(value_of, self.new))

    def operations(self) -> Iterable[dict[str, Any]]:
        """The same as JSON Patch."""
        return json_patch.spliced(self.at.pointer, self.index, self.old, self.new)


Edit = Changed | Spliced
Known = Mapping[Path, Sequence[Pair]]
_NOTHING: Known = {}


class Difference(msgspec.Struct, frozen=True):
    """One changed path of the old state, with the value on both sides, `MISSING` where there is none.

    Items that were removed from a list or added to it have the range of the old list as their path: `tags[2:2]` is
    before the third. `edit` is the same, encoded.
    """

    path: str
    old: Any
    new: Any
    edit: Edit

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}"

    def __repr__(self) -> str:
        return f"Difference({self})"

    @property
    def field(self) -> str:
        """The top-level field it is in."""
        path = self.edit.at.path
        return path[0] if path and isinstance(path[0], str) else WHOLE


def differences(old: Raw, new: Raw, known: Known = _NOTHING) -> list[Difference]:
    """Every changed path between two encoded states, in the order of the old one."""
    try:
        return [Difference(edit.show(), *edit.values(), edit) for edit in edits(old, new, known)]
    except RecursionError:
        raise NestingTooDeepError("a compared value, called from here,", MAX_DEPTH) from None


def edits(old: Raw, new: Raw, known: Known = _NOTHING) -> Iterator[Edit]:
    """What leads from one encoded value to another, found as it is asked for.

    The order of a dict's keys is no difference. `known` are pairs of items of lists that were found before.
    """
    return _Walk(known).values(old, new, At())


def value_of(value: Raw | None) -> Any:
    """The value without users' classes; one that needs them, such as a set of objects, as JSON shows it."""
    if value is None:
        return MISSING
    try:
        return decode_tagged(value)
    except ValueDamagedError:
        return json_patch.rendered(value)


class _Walk:
    """Goes through two values at once, and opens them only where they differ."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def values(self, old: Raw, new: Raw, at: At) -> Iterator[Edit]:
        if old == new:
            return
        before, after = opened(old), opened(new)
        if type(before) is dict and type(after) is dict:
            yield from self._dict(before, after, at)
        elif type(before) is list and type(after) is list:
            yield from self._list(before, after, at)
        elif type(before) is Opened and type(after) is Opened and _alike(before, after):
            yield from self._dict(before.fields, after.fields, at.fields())
        else:
            yield Changed(at, old, new)

    def _dict(self, before: dict[str, Raw], after: dict[str, Raw], at: At) -> Iterator[Edit]:
        for name, value in before.items():
            if name not in after:
                yield Changed(at.key(name), value, None)
            elif value != after[name]:
                yield from self.values(value, after[name], at.key(name))
        for name, value in after.items():
            if name not in before:
                yield Changed(at.key(name), None, value)

    def _list(self, before: list[Raw], after: list[Raw], at: At) -> Iterator[Edit]:
        pairs = self._known[at.path] if at.path in self._known else paired(before, after)
        done = 0
        for place, left, right in gaps(pairs, len(before), len(after)):
            yield from self._items(before, after, pairs[done:place], at)
            removed, added = before[left.start : left.stop], after[right.start : right.stop]
            yield Spliced(at, left.start, right.start, removed, added)
            done = place
        yield from self._items(before, after, pairs[done:], at)

    def _items(self, before: list[Raw], after: list[Raw], pairs: Sequence[Pair], at: At) -> Iterator[Edit]:
        for i, j in pairs:
            if before[i] != after[j]:
                yield from self.values(before[i], after[j], at.item(i, j))


def _alike(one: Opened, other: Opened) -> bool:
    return one.tag == other.tag and one.version == other.version
