"""The operations a delta is made of, as they are stored.

A delta is a list of operations, applied in order. Values are encoded; paths are lists of keys and indexes. Every
container on the way to a path exists when an operation is applied: a change that needs a new one sets it first.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from perdure.core.steps import Path


class Set(msgspec.Struct, array_like=True, tag=1, frozen=True, gc=False):
    """Put `value` at `path`; an empty path is the whole state."""

    path: Path
    value: Raw


class Delete(msgspec.Struct, array_like=True, tag=2, frozen=True, gc=False):
    """Remove the dict key at the end of `path`."""

    path: Path


class Append(msgspec.Struct, array_like=True, tag=3, frozen=True, gc=False):
    """Add `items` to the list at `path`."""

    path: Path
    items: list[Raw]


class Truncate(msgspec.Struct, array_like=True, tag=4, frozen=True, gc=False):
    """Keep the first `length` items of the list at `path`."""

    path: Path
    length: int


class Splice(msgspec.Struct, array_like=True, tag=5, frozen=True, gc=False):
    """Replace `removed` items of the list at `path` from index `at` on by `items`."""

    path: Path
    at: int
    removed: int
    items: list[Raw]


# gc=False: operations hold no cycles, and tracking thousands of them while a log is folded is what the collector would
# spend its time on.
Op = Set | Delete | Append | Truncate | Splice
Ops = Sequence[Op]


def moves_items(op: Op) -> bool:
    """Whether it moves what comes after it in a list, which takes as long as the list is."""
    return isinstance(op, Splice) or (isinstance(op, Delete) and bool(op.path) and isinstance(op.path[-1], int))


def weight(op: Op) -> int:
    """About how many bytes `op` takes when stored."""
    overhead = 4
    for step in op.path:
        overhead += len(step) + 1 if isinstance(step, str) else 3
    if isinstance(op, Set):
        return overhead + len(op.value)
    if isinstance(op, (Append, Splice)):
        return overhead + sum(map(len, op.items))
    return overhead
