"""The door where callers give the change: paths checked against the state, turned into operations.

Everything is checked before anything is written, so that no log ever holds an operation that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from perdure.core import steps
from perdure.core.codec import encode, guarded
from perdure.core.document import Document, Opened, opened
from perdure.core.errors import InvalidInputError, InvalidPathError, short_repr
from perdure.core.ops import Append, Delete, Op, Ops, Set, Splice, Truncate
from perdure.core.steps import Path, Step, show

if TYPE_CHECKING:
    from perdure.core.subclasses import Subclasses

_NIL = b"\xc0"
_EMPTY_DICT = Raw(b"\x80")
_INDEX_DIGITS = 18  # of the longest index; Python refuses to read an int of 5,000


class Change:
    """A checked request, independent of any version: encoded once, placed again after each rebase."""

    def __init__(
        self,
        set: Mapping[Any, object],
        append: Mapping[Any, Sequence[object]],
        delete: Iterable[Any],
        subclasses: Subclasses = "refuse",
    ) -> None:
        sets, appends = _parsed(set) if set != {} else [], _parsed(append) if append != {} else []
        self._sets = [(path, Raw(encode(value, at=path, subclasses=subclasses))) for path, value in sets]
        self._appends = [(path, _encoded(path, items, subclasses)) for path, items in appends]
        self._deletes = [steps.parse(path) for path in _paths(delete)] if delete != () else []
        if len(sets) + len(appends) + len(self._deletes) > 1:
            _refuse_overlap([*(path for path, _ in sets), *(path for path, _ in appends), *self._deletes])
        self.commutes = not sets and not self._deletes  # it may be placed after changes its caller has not seen

    def request(self) -> list[object]:
        """What the caller asked for, for comparing requests under one key."""
        return [self._deletes, self._sets, self._appends]

    def place(self, document: Document) -> list[Op]:
        """The operations for this document; raise `InvalidPathError` where a path does not fit it."""
        placer = _Placer(document)
        for path in self._deletes:
            placer.delete(path)
        for path, value in self._sets:
            if len(path) == 1 and type(document.root) is dict and type(path[0]) is str:
                placer.ops.append(Set(path, value))
            else:
                placer.set(path, value)
        for path, items in self._appends:
            placer.append(path, items)
        return placer.ops

    def placed_after(self, newest: Ops) -> list[Op] | None:
        """The operations, where the newest change alone shows that they fit; None where it takes the whole state.

        It shows that for appends to lists that it appended to itself.
        """
        if not self.commutes or not all(_leaves_list(newest, path) for path, _ in self._appends):
            return None
        return [Append(path, items) for path, items in self._appends]


def _leaves_list(ops: Ops, path: Path) -> bool:
    """Whether there is a list at `path` after these operations, as far as they tell."""
    shown = False
    for op in ops:
        if op.path == path and isinstance(op, Append | Truncate | Splice):
            shown = True
        elif path[: len(op.path)] == op.path:
            shown = False
    return shown


def _paths(delete: object) -> Iterable[object]:
    if isinstance(delete, str):
        return (delete,)  # one path, not one for each of its letters
    if not isinstance(delete, Iterable):
        raise InvalidInputError(f"delete must be a list of paths, not {delete!r}")
    return delete


def _parsed(given: Mapping[Any, Any]) -> list[tuple[Path, Any]]:
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"set and append take a dict of paths, not {given!r}")
    return [(steps.parse(path), value) for path, value in given.items()]


def _encoded(path: Path, items: object, subclasses: Subclasses) -> list[Raw]:
    if not isinstance(items, list | tuple):
        raise InvalidPathError(show(path)[1:], "needs a list of items to append")
    given: Sequence[object] = items
    return [Raw(encode(item, at=(*path, at), subclasses=subclasses)) for at, item in enumerate(given)]


def _refuse_overlap(paths: list[Path]) -> None:
    taken = set(paths)
    for path in paths:
        for depth in range(1, len(path)):
            if path[:depth] in taken:
                raise _overlap(path, path[:depth])
    if len(taken) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise _overlap(twice, twice)


def _overlap(path: Path, other: Path) -> InvalidPathError:
    return InvalidPathError(_text(path), f"overlaps {_text(other)!r} in the same update; make it two")


class _Placer:
    def __init__(self, document: Document) -> None:
        self.ops: list[Op] = []
        self._made: set[Path] = set()
        if type(document.root) is dict:
            self._root: Any = document.root
            return
        self._root = None if _is_none(document.root) else guarded(opened, document.root)
        if self._root is None:
            self._made.add(())
            self.ops.append(Set((), _EMPTY_DICT))
        else:
            document.root = self._root

    def set(self, path: Path, value: Raw) -> None:
        node, found = self._parent(path)
        self.ops.append(Set((*found, self._slot(node, path, found)), value))

    def append(self, path: Path, items: list[Raw]) -> None:
        node, found = self._parent(path)
        step, inside = self._slot(node, path, found), _inside(node)
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
        return node, found

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
                raise InvalidPathError(_text(path), f"has the index {short_repr(step)} where the state has no list")
            if type(node) is Opened and step not in node.fields:
                raise InvalidPathError(_text(path), f"is not a field of the {node.tag} there")
            return step
        if type(inside) is not list:
            raise InvalidPathError(_text(path), f"cannot be reached: {_text(found) or 'the state'} is not a container")
        index = int(step) if isinstance(step, str) and _is_index(step) else step
        if not isinstance(index, int) or not 0 <= index < len(inside):
            raise InvalidPathError(_text(path), f"has no index of a list of {len(inside)}: {short_repr(step)}")
        return index


def _is_none(root: Any) -> bool:
    """Whether there is no state yet, or a rewind went back to before there was one, which is kept as nothing."""
    return root is None or (type(root) is Raw and bytes(root) == _NIL)


def _is_index(text: str) -> bool:
    return len(text) <= _INDEX_DIGITS and text.isascii() and text.isdigit()


def _inside(node: Any) -> Any:
    return node.fields if type(node) is Opened else node


def _open_child(inside: Any, step: Step) -> Any:
    inside[step] = child = guarded(opened, inside[step])
    return child


def _text(path: Path) -> str:
    return show(path).removeprefix(".")
