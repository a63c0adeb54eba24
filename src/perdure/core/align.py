"""Which items of two lists belong together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Raw

Pair = tuple[int, int]

# Bounds on the work for two lists that have little but repeated items in common.
_PAIRS = 200_000  # places where an item of one list is equal to one of the other
_STEPS = 2_000_000  # items that are looked at while edits are counted
_EDITS = 256


def common_prefix(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many items are equal from the start; halves are compared, each in one step of C."""
    low, high = 0, min(len(old), len(new))
    if old[:high] == new[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many items are equal from the end."""
    return common_prefix(old[::-1], new[::-1])


def common_ends(old: Sequence[Any], new: Sequence[Any]) -> Pair:
    """How many items are equal from the start, and how many of the rest from the end."""
    start = common_prefix(old, new)
    room = min(len(old), len(new)) - start
    return start, min(common_suffix(old[start:], new[start:]), room)


def moved(old: Sequence[Raw], new: Sequence[Raw]) -> int:
    """How many items went from the start, if that is all but for what came to the end; 0 for any other change.

    That is what a window does, and aligning its items one by one would take longer than encoding them.
    """
    if not new or new[0] not in old:
        return 0
    gone = old.index(new[0])
    return gone if old[gone:] == new[: len(old) - gone] else 0


def in_place(old: Sequence[Raw], new: Sequence[Raw]) -> int:
    """How many items are equal at the same index."""
    return sum(one == other for one, other in zip(old, new, strict=False))


def matches(old: Sequence[Raw], new: Sequence[Raw]) -> list[Pair]:
    """Equal items in rising order on both sides, found greedily: exact for what was only inserted or only removed."""
    return _greedy(_places(map(bytes, old)), [bytes(item) for item in new])


def longest(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Equal items in rising order on both sides, as many as there can be: a longest common subsequence.

    Exact whenever items are mostly different from each other, and whenever few edits lead from one list to the other.
    Two long lists of a few repeated items that differ everywhere are matched greedily instead, which may find fewer.
    """
    start, end = common_ends(old, new)
    middle = _middle(old[start : len(old) - end], new[start : len(new) - end])
    ends = [(len(old) - back, len(new) - back) for back in range(end, 0, -1)]
    return [*((at, at) for at in range(start)), *((i + start, j + start) for i, j in middle), *ends]


class Gap(NamedTuple):
    """What lies between pairs: ranges of both lists, one of which may be empty."""

    at: int  # the index of the pair after it
    old: range
    new: range


def gaps(pairs: Sequence[Pair], old: int, new: int) -> Iterator[Gap]:
    """What lies before, between and after pairs of two lists of these lengths, wherever there is something."""
    left = right = 0
    for at, (i, j) in enumerate((*pairs, (old, new))):
        if i != left or j != right:
            yield Gap(at, range(left, i), range(right, j))
        left, right = i + 1, j + 1


def _middle(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Items without an equal on the other side are in no common subsequence: they cost nothing more."""
    places, wanted = _places(old), set(new)
    left = [at for at, item in enumerate(old) if item in wanted]
    right = [at for at, item in enumerate(new) if item in places]
    if sum(len(places[new[at]]) for at in right) <= _PAIRS:
        return _rising(places, new, right)
    one, other = [old[at] for at in left], [new[at] for at in right]
    found = _few_edits(one, other)
    if found is None:
        found = _greedy(_places(one), other)
    return [(left[i], right[j]) for i, j in found]


def _places(items: Iterable[Hashable]) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = {}
    for index, item in enumerate(items):
        places.setdefault(item, []).append(index)
    return places


def _rising(places: dict[Hashable, list[int]], new: Sequence[Hashable], right: Sequence[int]) -> list[Pair]:
    """Hunt and Szymanski: the longest rising chain of all equal pairs. The work grows with the number of pairs."""
    ends: list[int] = []  # ends[n]: the lowest old index at which a chain of n + 1 pairs ends
    chains: list[Any] = []  # … and that chain, from its end on
    for at in right:
        for place in reversed(places[new[at]]):
            length = bisect_left(ends, place)
            if length == len(ends):
                ends.append(place)
                chains.append(None)
            ends[length] = place
            chains[length] = (place, at, chains[length - 1] if length else None)
    return _unwound(chains[-1] if chains else None)


def _unwound(chain: Any) -> list[Pair]:
    pairs: list[Pair] = []
    while chain is not None:
        place, at, chain = chain
        pairs.append((place, at))
    return pairs[::-1]


def _few_edits(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair] | None:
    """Myers: the fewest edits from one list to the other; None when they are too many. The work grows with them."""
    reach = {1: 0}  # diagonal → how far into `old` it is followed
    trail: list[dict[int, int]] = []
    for edits in range(min(_EDITS, _STEPS // (len(old) + len(new))) + 1):
        trail.append(reach.copy())
        for diagonal in range(-edits, edits + 1, 2):
            below = _before(reach, diagonal, edits)
            x = reach[below] + (below < diagonal)
            while x < len(old) and x - diagonal < len(new) and old[x] == new[x - diagonal]:
                x += 1
            reach[diagonal] = x
            if x >= len(old) and x - diagonal >= len(new):
                return _followed(trail, len(old), len(new))
    return None


def _before(reach: dict[int, int], diagonal: int, edits: int) -> int:
    """The diagonal from which this one is reached with one more edit."""
    inserted = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
    return diagonal + 1 if inserted else diagonal - 1


def _followed(trail: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    """Go the way back, and collect the equal items on it."""
    pairs: list[Pair] = []
    for edits in range(len(trail) - 1, -1, -1):
        before = _before(trail[edits], x - y, edits)
        goal = trail[edits][before]
        while x > goal and y > goal - before:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = goal, goal - before
    return pairs[::-1]


def _greedy(places: dict[Hashable, list[int]], new: Sequence[Hashable]) -> list[Pair]:
    pairs: list[Pair] = []
    after = -1
    cursor: dict[Hashable, int] = {}
    for index, item in enumerate(new):
        found = places.get(item, ())
        start = cursor.get(item, 0)
        while start < len(found) and found[start] <= after:
            start += 1
        cursor[item] = start
        if start < len(found):
            after = found[start]
            pairs.append((after, index))
    return pairs
