"""The door where callers give the change: paths checked against the state, turned into operations.

Everything is checked before anything is written, so that no log ever holds an operation that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Raw

from perdure.core import steps
from perdure.core.codec import encode
from perdure.core.document import Document, Opened, opened
from perdure.core.errors import InvalidPathError
from perdure.core.ops import Append, Delete, Op, Set
from perdure.core.steps import Path, Step, show

_EMPTY_DICT = Raw(b"\x80")


class Change:
    """A checked request, independent of any version: encoded once, placed again after each rebase."""

    def __init__(
        self, set: Mapping[Any, object], append: Mapping[Any, Sequence[object]], delete: Iterable[Any]
    ) -> None:
        self._sets = [(path, Raw(encode(value, at=path))) for path, value in _parsed(set)]
        self._appends = [
            (path, [Raw(encode(item, at=(*path, at))) for at, item in enumerate(_items(path, items))])
            for path, items in _parsed(append)
        ]
        self._deletes = [steps.parse(path) for path in delete]
        _refuse_overlap([path for path, _ in (*self._sets, *self._appends)] + self._deletes)

    @property
    def commutes(self) -> bool:
        """Whether it may be placed after changes its caller has not seen: appends may."""
        return not self._sets and not self._deletes

    def request(self) -> list[object]:
        """What the caller asked for, for comparing requests under one key."""
        return [self._deletes, self._sets, self._appends]

    def place(self, document: Document) -> list[Op]:
        """The operations for this document; raise `InvalidPathError` where a path does not fit it."""
        placer = _Placer(document)
        for path in self._deletes:
            placer.delete(path)
        for path, value in self._sets:
            placer.set(path, value)
        for path, items in self._appends:
            placer.append(path, items)
        return placer.ops


def _parsed(given: Mapping[Any, Any]) -> list[tuple[Path, Any]]:
    return [(steps.parse(path), value) for path, value in given.items()]


def _items(path: Path, items: object) -> Sequence[object]:
    if not isinstance(items, list | tuple):
        raise InvalidPathError(show(path)[1:], "needs a list of items to append")
    return items


def _refuse_overlap(paths: list[Path]) -> None:
    if len(paths) < 2:
        return
    ordered = sorted(tuple(map(str, path)) for path in paths)
    for one, other in pairwise(ordered):
        if other[: len(one)] == one:
            raise InvalidPathError(".".join(other), f"overlaps {'.'.join(one)!r} in the same update; make it two")


class _Placer:
    def __init__(self, document: Document) -> None:
        self.ops: list[Op] = []
        self._made: set[Path] = set()
        if document.root is None:
            self._made.add(())
            self.ops.append(Set((), _EMPTY_DICT))
        else:
            document.root = opened(document.root)
        self._root = document.root

    def set(self, path: Path, value: Raw) -> None:
        inside, found = self._parent(path)
        self.ops.append(Set((*found, self._slot(inside, path, found)), value))

    def append(self, path: Path, items: list[Raw]) -> None:
        inside, found = self._parent(path)
        step = self._slot(inside, path, found)
        if inside is None or (type(inside) is dict and step not in inside):
            self.ops.append(Set((*found, step), Raw(b"\x90")))
        elif type(_open_child(inside, step)) is not list:
            raise InvalidPathError(_text(path), "is not a list, so nothing can be appended to it")
        self.ops.append(Append((*found, step), items))

    def delete(self, path: Path) -> None:
        inside, found = self._parent(path, make=False)
        if type(inside) is not dict or path[-1] not in inside:
            raise InvalidPathError(_text(path), "is not a key of the state, so it cannot be deleted")
        self.ops.append(Delete((*found, path[-1])))

    def _parent(self, path: Path, make: bool = True) -> tuple[Any, Path]:
        """Open the way to the parent of `path`; parents that are missing are made first, once each."""
        node, found = self._root, ()
        for step in path[:-1]:
            step = self._slot(node, path, found)
            found = (*found, step)
            node = self._way(node, step, found, path, make)
        return _inside(node), found

    def _way(self, node: Any, step: Step, found: Path, path: Path, make: bool) -> Any:
        inside = _inside(node)
        if inside is not None and (type(inside) is list or step in inside):
            return _open_child(inside, step)
        if not make or type(node) is Opened:
            raise InvalidPathError(_text(path), f"cannot be reached: there is no {_text(found)}")
        if found not in self._made:
            self._made.add(found)
            self.ops.append(Set(found, _EMPTY_DICT))
        return None

    def _slot(self, node: Any, path: Path, found: Path) -> Step:
        """The next key or index of `path`, fitted to the container it goes into."""
        step, inside = path[len(found)], _inside(node)
        if inside is None or type(inside) is dict:
            if not isinstance(step, str):
                raise InvalidPathError(_text(path), f"has the index {step} where the state has no list")
            if type(node) is Opened and step not in node.fields:
                raise InvalidPathError(_text(path), f"is not a field of the {node.tag} there")
            return step
        if type(inside) is not list:
            raise InvalidPathError(_text(path), f"cannot be reached: {_text(found) or 'the state'} is not a container")
        index = int(step) if isinstance(step, str) and step.isascii() and step.isdigit() else step
        if not isinstance(index, int) or not 0 <= index < len(inside):
            raise InvalidPathError(_text(path), f"has no index of a list of {len(inside)}: {step!r}")
        return index


def _inside(node: Any) -> Any:
    return node.fields if type(node) is Opened else node


def _open_child(inside: Any, step: Step) -> Any:
    inside[step] = child = opened(inside[step])
    return child


def _text(path: Path) -> str:
    return show(path).removeprefix(".")
