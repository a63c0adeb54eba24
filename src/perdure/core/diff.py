"""The difference of two states for people: which paths changed, from what to what."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.codec import decode_tagged
from perdure.core.delta import delta
from perdure.core.document import Document, DoesNotFit, closed
from perdure.core.ops import Append, Delete, Op, Set, Truncate
from perdure.core.steps import show


class Missing:
    """The value of a path that does not exist on one side."""

    def __repr__(self) -> str:
        return "(missing)"


MISSING = Missing()


class Difference(msgspec.Struct, frozen=True):
    """One changed path. Lists name the items that were removed and added."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}"


class Comparison(msgspec.Struct, frozen=True):
    """How two states differ."""

    differences: list[Difference]

    @property
    def changed_fields(self) -> list[str]:
        """The top-level fields that differ, in order."""
        return list(dict.fromkeys(each.path.split(".")[0].split("[")[0] for each in self.differences))

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences)) or "no difference"


def compare(old: bytes, new: bytes) -> Comparison:
    """Compare two encoded states."""
    ops, _ = delta(Document.of(old), new, shortest=False)
    walked = Document.of(old)
    found: list[Difference] = []
    for op in ops:
        found.append(_difference(walked, op))
        walked.apply([op])
    return Comparison(found)


def _difference(before: Document, op: Op) -> Difference:
    path = show(op.path).removeprefix(".") or "(state)"
    if isinstance(op, Set):
        return Difference(path, _value(before, op.path), decode_tagged(op.value))
    if isinstance(op, Delete):
        return Difference(path, _value(before, op.path), MISSING)
    items: list[Any] = list(before.reach(op.path))
    start, stop, added = len(items), len(items), []
    if isinstance(op, Append):
        added = op.items
    elif isinstance(op, Truncate):
        start = op.length
    else:
        start, stop, added = op.at, op.at + op.removed, op.items
    removed = [decode_tagged(closed(item)) for item in items[start:stop]]
    return Difference(f"{path}[{start}:{stop}]", removed, [decode_tagged(item) for item in added])


def _value(document: Document, path: Any) -> Any:
    try:
        return decode_tagged(closed(document.reach(path)))
    except DoesNotFit:
        return MISSING
