"""Which items of two lists belong together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

Pair = tuple[int, int]


def common_prefix(old: Sequence[Raw], new: Sequence[Raw]) -> int:
    """How many items are equal from the start."""
    for index, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return index
    return min(len(old), len(new))


def common_suffix(old: Sequence[Raw], new: Sequence[Raw]) -> int:
    """How many items are equal from the end."""
    return common_prefix(old[::-1], new[::-1])


def in_place(old: Sequence[Raw], new: Sequence[Raw]) -> int:
    """How many items are equal at the same index."""
    return sum(one == other for one, other in zip(old, new, strict=False))


def matches(old: Sequence[Raw], new: Sequence[Raw]) -> list[Pair]:
    """Equal items in rising order on both sides, found greedily: exact for what was only inserted or only removed."""
    places: dict[bytes, list[int]] = {}
    for index, item in enumerate(old):
        places.setdefault(bytes(item), []).append(index)
    return _rising(places, new)


def _rising(places: dict[bytes, list[int]], new: Sequence[Raw]) -> list[Pair]:
    pairs: list[Pair] = []
    after = -1
    cursor: dict[bytes, int] = {}
    for index, item in enumerate(new):
        found = places.get(bytes(item), ())
        start = cursor.get(bytes(item), 0)
        while start < len(found) and found[start] <= after:
            start += 1
        cursor[bytes(item)] = start
        if start < len(found):
            after = found[start]
            pairs.append((after, index))
    return pairs
