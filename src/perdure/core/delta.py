"""Finding the change between two states by comparing their encoded bytes.

Equal bytes are equal values of equal types: 1, True and 1.0 differ, a list changed in place differs.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from perdure.core import align
from perdure.core.document import Document, Node, Opened, closed, measure, opened
from perdure.core.ops import Append, Delete, Op, Set, Splice, Truncate, weight
from perdure.core.steps import Path

_RAW = {Raw}


def delta(old: Document, new: bytes, *, shortest: bool = True) -> tuple[list[Op], Document]:
    """Return the operations from `old` to an encoded state, and the document they lead to.

    `old` is not changed, and nothing of the result refers to the memory of `new`: what is kept of it is copied. A
    container whose parts changed so much that storing it whole is shorter is replaced, unless `shortest` is False and
    every changed part is wanted.
    """
    finder = _Finder(shortest)
    if old.root is None:
        whole = Raw(new).copy()
        return [Set((), whole)], Document(whole, len(whole))
    node = finder.compare(old.root, Raw(new), ())
    return finder.ops, Document(node, max(old.size + finder.growth, 1))


def changes(old: Document, new: Node) -> list[Op]:
    """The operations from a document to a state whose parts are encoded (`codec.encode_parts`)."""
    if old.root is None:
        return [Set((), closed(new))]
    old.root = opened(old.root)  # for the next time
    if type(old.root) is dict and type(new) is dict:
        for key in new.keys() & old.root.keys():
            if type(new[key]) is list:
                old.root[key] = opened(old.root[key])
    finder = _Finder(shortest=True, builds=False)
    finder.compare(old.root, new, ())
    return finder.ops


class _Finder:
    def __init__(self, shortest: bool, builds: bool = True) -> None:
        self._shortest = shortest
        self._builds = builds  # whether anybody wants the nodes that result
        self.ops: list[Op] = []
        self.growth = 0

    def compare(self, old: Node, new: Node, path: Path) -> Node:
        """Emit what turns `old` into `new`, and return the node that results."""
        if type(old) is Raw and type(new) is Raw and old == new:
            return old
        before, after = opened(old), opened(new)
        if type(before) is Raw and type(after) is Raw:
            return self._set(old, after, path)
        if type(before) is dict and type(after) is dict:
            return self._compact(self._dict, before, after, new, path)
        if type(before) is list and type(after) is list:
            return self._compact(self._list, before, after, new, path)
        if type(before) is Opened and type(after) is Opened and _alike(before, after):
            fields = self._compact(self._dict, before.fields, after.fields, new, path)
            return fields if type(fields) is Raw else Opened(before.tag, before.version, fields)
        return old if type(after) is Raw and closed(old) == after else self._set(old, closed(new), path)

    def _compact(self, way: Any, before: Any, after: Any, new: Node, path: Path) -> Node:
        """Compare part by part, but replace the whole where that is shorter."""
        mark, growth = len(self.ops), self.growth
        node = way(before, after, path)
        parts = len(self.ops) - mark
        if self._shortest and parts > 1 and sum(map(weight, self.ops[mark:])) > measure(new):
            del self.ops[mark:]
            self.growth = growth
            return self._set(before, closed(new), path)
        return node

    def _set(self, old: Node, new: Raw, path: Path) -> Raw:
        kept = new.copy()
        self.ops.append(Set(path, kept))
        if self._builds:
            self.growth += len(kept) - measure(old)
        return kept

    def _dict(self, before: dict[str, Node], after: dict[str, Node], path: Path) -> dict[str, Node]:
        # The old order is kept: folding the log gives it too, and an order-only change is no change.
        kept = {
            # Most are what they were: a call for each would take longer than comparing them.
            key: node if type(node) is Raw and node == after[key] else self.compare(node, after[key], (*path, key))
            for key, node in before.items()
            if key in after
        }
        if len(kept) < len(before):
            self._delete([key for key in before if key not in after], before, path)
        if len(kept) < len(after):
            for key in after:
                if key not in kept:
                    kept[key] = self._set(Raw(b""), closed(after[key]), (*path, key))
        return kept

    def _delete(self, keys: list[str], before: dict[str, Node], path: Path) -> None:
        self.ops.extend(Delete((*path, key)) for key in keys)
        if self._builds:
            self.growth -= sum(measure(before[key]) for key in keys)

    def _list(self, before: list[Node], after: list[Raw], path: Path) -> list[Node]:
        """Equal items are cut off both ends, by their bytes, before anything is aligned."""
        if set(map(type, before)) != _RAW:
            before = [closed(node) for node in before]
        start, end = align.common_ends(before, after)
        old, new = before[start : len(before) - end], after[start : len(after) - end]
        if not old:
            middle = self._splice(old, new, start, path, at_end=not end)
        elif moved := align.moved(old, new):
            self._splice(old[:moved], [], start, path, at_end=False)
            rest = old[moved:]
            middle = rest + self._splice([], new[len(rest) :], start + len(rest), path, at_end=not end)
        else:
            middle = self._aligned(old, new, start, path, at_end=not end)
        return [*before[:start], *middle, *before[len(before) - end :]] if self._builds else before

    def _aligned(self, old: list[Raw], new: list[Raw], start: int, path: Path, at_end: bool) -> list[Node]:
        pairs = align.matches(old, new) if new else []
        if len(pairs) > align.in_place(old, new):
            return self._spliced(old, new, pairs, start, path)
        return self._replaced(old, new, start, path, at_end)

    def _replaced(self, old: list[Raw], new: list[Raw], start: int, path: Path, at_end: bool) -> list[Node]:
        """Item by item: a change inside one item costs that item's change."""
        both = min(len(old), len(new))
        pairs = zip(old, new, strict=False)
        items = [closed(self.compare(one, two, (*path, start + at))) for at, (one, two) in enumerate(pairs)]
        return [*items, *self._splice(old[both:], new[both:], start + both, path, at_end)]

    def _splice(self, old: list[Raw], new: list[Raw], at: int, path: Path, at_end: bool) -> list[Raw]:
        if not old and not new:
            return []
        new = [item.copy() for item in new]
        if at_end and not old:
            self.ops.append(Append(path, new))
        elif at_end and not new:
            self.ops.append(Truncate(path, at))
        else:
            self.ops.append(Splice(path, at, len(old), new))
        if self._builds:
            self.growth += sum(map(len, new)) - sum(map(len, old))
        return new

    def _spliced(self, old: list[Raw], new: list[Raw], pairs: list[align.Pair], start: int, path: Path) -> list[Node]:
        """Keep the paired items and replace what lies between, from the end on, so that indexes stay true."""
        bounds = [(-1, -1), *pairs, (len(old), len(new))]
        parts: list[list[Node]] = []
        for (old_low, new_low), (old_high, new_high) in zip(reversed(bounds[:-1]), reversed(bounds[1:]), strict=True):
            gap_old, gap_new = old[old_low + 1 : old_high], new[new_low + 1 : new_high]
            kept = old[old_high : old_high + 1] if old_high < len(old) else []
            parts.append(self._gap(gap_old, gap_new, start + old_low + 1, path) + kept)
        return [item for part in reversed(parts) for item in part]

    def _gap(self, old: list[Raw], new: list[Raw], at: int, path: Path) -> list[Node]:
        if len(old) == len(new):
            return self._replaced(old, new, at, path, at_end=False)
        return list(self._splice(old, new, at, path, at_end=False))


def _alike(one: Opened, other: Opened) -> bool:
    return one.tag == other.tag and one.version == other.version
