"""Composing deltas: one that does what several did, without what they overwrote.

For every document: applying `compose(a, b)` equals applying `a`, then `b`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from perdure.core.document import Document, closed
from perdure.core.ops import Append, Delete, Op, Ops, Set, Splice, Truncate
from perdure.core.steps import Path


def compose(*deltas: Ops) -> list[Op]:
    """Return one delta with the effect of all, in order."""
    composed: list[Op] = []
    for op in (op for delta in deltas for op in delta):
        _add(composed, op)
    return composed


def _add(composed: list[Op], op: Op) -> None:
    for at in _reachable(composed, op.path):
        earlier = composed[at]
        if isinstance(earlier, Set) and _covers(earlier.path, op.path) and not _replaces(op, earlier):
            composed[at] = _folded(earlier, op)
            return
        if isinstance(op, Set) and isinstance(earlier, Set) and earlier.path == op.path:
            composed[at] = op  # where it was: a new key keeps its place among the others
            return
        if isinstance(op, Append) and isinstance(earlier, Append) and earlier.path == op.path:
            composed[at] = Append(op.path, [*earlier.items, *op.items])
            return
        if isinstance(op, Append) and isinstance(earlier, Truncate | Splice) and earlier.path == op.path:
            break
        if isinstance(op, Set | Delete) and _covers(op.path, earlier.path) and not _moves_to_end(op, earlier):
            del composed[at]
    composed.append(op)


def _reachable(composed: list[Op], path: Path) -> Iterable[int]:
    """Indexes of earlier operations, newest first, for which `path` still means the same place."""
    for at in range(len(composed) - 1, -1, -1):
        yield at
        if at < len(composed) and _moves(composed[at], path):
            return


def _moves(op: Op, path: Path) -> bool:
    """Whether `op` may have shifted an index that `path` goes through."""
    return isinstance(op, Truncate | Splice) and len(path) > len(op.path) and _covers(op.path, path)


def _moves_to_end(op: Op, earlier: Op) -> bool:
    """Whether a key is taken away and set again: it then stands behind the others."""
    return isinstance(op, Set) and isinstance(earlier, Delete) and op.path == earlier.path


def _covers(outer: Path, inner: Path) -> bool:
    return inner[: len(outer)] == outer


def _replaces(op: Op, earlier: Set) -> bool:
    return isinstance(op, Set | Delete) and op.path == earlier.path


def _folded(earlier: Set, op: Op) -> Set:
    """Do `op` inside the value that `earlier` sets."""
    document = Document(earlier.value)
    document.apply([_below(op, len(earlier.path))])
    return Set(earlier.path, Raw(bytes(closed(document.root))))


def _below(op: Op, depth: int) -> Op:
    return msgspec.structs.replace(op, path=op.path[depth:])
