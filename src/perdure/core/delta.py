"""Finding the change between two states by comparing their encoded bytes.

Equal bytes are equal values of equal types: 1, True and 1.0 differ, a list changed in place differs. Identity of
objects is trusted only for what cannot change: leaves (`leaves`), and items proven deeply immutable (`frozen`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from perdure.core import align
from perdure.core.document import Document, Edit, Node, Opened, Placed, closed, measure, opened
from perdure.core.ops import Append, Delete, Op, Set, Splice, Truncate, weight
from perdure.core.steps import Path, show

_CONTAINERS = (dict, list, Opened)


class Grown(msgspec.Struct, frozen=True):
    """A new list whose first `kept` items are known to be those of the old one."""

    kept: int
    tail: list[Raw]


class Altered(msgspec.Struct, frozen=True):
    """A new dict with the keys of the old one; all its values are known to be the old ones but for these."""

    values: dict[str, Raw]


def delta(old: Document, new: Any, *, shortest: bool = True) -> tuple[list[Op], Document]:
    """Return the operations from `old` to `new`, and the document they lead to.

    `new` is an encoded state, or a dict whose values are encoded, `Grown` or `Altered`. `old` is not changed, and
    nothing of the result refers to the memory of `new`: what is kept of it is copied. A container whose parts changed
    so much that storing it whole is shorter is replaced, unless `shortest` is False and every changed part is wanted.
    """
    finder = _Finder(shortest)
    root = Raw(new) if isinstance(new, bytes) else new
    if old.root is None:
        whole = closed(root).copy()
        return [Set((), whole)], Document(whole, len(whole))
    node = finder.compare(old.root, root, ())
    return finder.ops, Document(node, max(old.size + finder.growth, 1))


def placed(old: Document, new: Any) -> Placed:
    """The change of `delta`, to be made in place: a long list that grew is not copied for the document it leads to."""
    if old.root is None:
        return Placed(delta(old, new)[0])
    if type(old.root) is Raw:
        old.root = opened(old.root)  # for the next time
    return _placed_quickly(old.root, new) or Placed(_changes(old.root, new))


def _changes(root: Node, new: Any) -> list[Op]:
    finder = _Finder(shortest=True, builds=False)
    finder.compare(root, new, ())
    return finder.ops


def _placed_quickly(root: Node, new: Any) -> Placed | None:
    """The common case, where lists grew, flat dicts have other values and nothing else changed; None for any other."""
    if type(root) is not dict or type(new) is not dict or root.keys() != new.keys():
        return None
    ops: list[Op] = []
    edits: list[Edit] = []
    for key, value in new.items():
        found = _edits(root, key, value)
        if found is None:
            return None
        edits += found
        ops += [Append((key,), part) if step is None else Set((key, step), part) for _, step, part in found]
    return Placed(ops, edits)


def _edits(root: dict[str, Node], key: str, new: Any) -> list[Edit] | None:
    old = root[key]
    if type(new) is Raw:
        return [] if type(old) is Raw and old == new else None
    if type(old) is Raw:
        old = root[key] = opened(old)
    if type(new) is Grown and type(old) is list and len(old) == new.kept:
        return [(old, None, new.tail)] if new.tail else []
    if type(new) is Altered and type(old) is dict:
        return [(old, name, part) for name, part in new.values.items() if old[name] != part]
    return None


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
        if type(before) is list and type(after) is Grown:
            return self._grown(before, after, path)
        if type(before) is dict and type(after) is Altered:
            return self._altered(before, after, path)
        if type(before) is list and type(after) is list:
            return self._compact(self._list, before, after, new, path)
        if type(before) is Opened and type(after) is Opened and _alike(before, after):
            fields = self._compact(self._dict, before.fields, after.fields, new, path)
            return fields if type(fields) is Raw else Opened(before.tag, before.version, fields)
        return old if type(after) is Raw and closed(old) == after else self._set(old, _whole(new, path), path)

    def _compact(self, way: Any, before: Any, after: Any, new: Node, path: Path) -> Node:
        """Compare part by part, but replace the whole where that is shorter."""
        mark, growth = len(self.ops), self.growth
        node = way(before, after, path)
        parts = len(self.ops) - mark
        if self._shortest and parts > 1 and type(new) is Raw and sum(map(weight, self.ops[mark:])) > len(new):
            del self.ops[mark:]
            self.growth = growth
            return self._set(before, new, path)
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
                    kept[key] = self._set(Raw(b""), _whole(after[key], (*path, key)), (*path, key))
        return kept

    def _delete(self, keys: list[str], before: dict[str, Node], path: Path) -> None:
        self.ops.extend(Delete((*path, key)) for key in keys)
        if self._builds:
            self.growth -= sum(measure(before[key]) for key in keys)

    def _grown(self, before: list[Node], after: Grown, path: Path) -> list[Node]:
        if after.kept < len(before):
            self.ops.append(Truncate(path, after.kept))
            if self._builds:
                self.growth -= sum(map(measure, before[after.kept :]))
            before = before[: after.kept]
        return self._append(before, after.tail, path)

    def _altered(self, before: dict[str, Node], after: Altered, path: Path) -> dict[str, Node]:
        changed = {key: self.compare(before[key], value, (*path, key)) for key, value in after.values.items()}
        return {**before, **changed} if self._builds else before

    def _append(self, before: list[Node], tail: list[Raw], path: Path) -> list[Node]:
        if not tail:
            return before
        kept = [item.copy() for item in tail]
        self.ops.append(Append(path, kept))
        if not self._builds:
            return before
        self.growth += sum(map(len, kept))
        return before + kept

    def _list(self, before: list[Node], after: list[Raw], path: Path) -> list[Node]:
        count = len(before)
        if len(after) >= count and before == after[:count]:
            return self._append(before, after[count:], path)
        return self._edited([closed(node) for node in before], after, path)

    def _edited(self, before: list[Raw], after: list[Raw], path: Path) -> list[Node]:
        start = align.common_prefix(before, after)
        room = min(len(before), len(after)) - start
        end = min(align.common_suffix(before[start:], after[start:]), room)
        old, new = before[start : len(before) - end], after[start : len(after) - end]
        pairs = align.matches(old, new) if old and new else []
        if len(pairs) > align.in_place(old, new):
            middle = self._spliced(old, new, pairs, start, path)
        else:
            middle = self._replaced(old, new, start, path, at_end=not end)
        return [*before[:start], *middle, *before[len(before) - end :]]

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


def _whole(node: Node, path: Path) -> Raw:
    if type(node) is Grown or type(node) is Altered:
        raise TypeError(f"{show(path)} is not what was saved last: what is known of it does not fit")
    return closed(node)
