"""A state as a tree of encoded parts, opened only where somebody looked.

Folding a log, finding a change and checking a path touch a few places of a state that may have thousands. A document
keeps the rest as encoded bytes. Dicts and lists open into dicts and lists, objects of registered classes into their
fields; everything else is a leaf.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.codec import decode, decode_each, guarded
from perdure.core.ops import Append, Delete, Op, Ops, Set, Truncate, weight
from perdure.core.steps import Path, Step, show


class Opened(msgspec.Struct):
    """An object of a registered class, opened."""

    tag: str
    version: int
    fields: dict[str, Any]


Node = Any  # Raw | dict[str, Node] | list[Node] | Opened | Missing

_encode = msgspec.msgpack.Encoder().encode
_open_dict = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_open_list = msgspec.msgpack.Decoder(list[Raw]).decode
_open_object = msgspec.msgpack.Decoder(tuple[str, int, dict[str, Raw]]).decode
_open_ext = msgspec.msgpack.Decoder(Ext).decode
_NOTHING = Raw(b"")
_RAW = {Raw}
_EXT_HEADS = {0xC7: 2, 0xC8: 3, 0xC9: 5, 0xD4: 1, 0xD5: 1, 0xD6: 1, 0xD7: 1, 0xD8: 1}  # head byte → offset of the code


class DoesNotFit(Exception):
    """An operation that cannot be applied to this document."""


def opened(node: Node) -> Node:
    """Open an encoded node by one level; a leaf stays as it is."""
    if type(node) is not Raw:
        return node
    view = memoryview(node)
    head = view[0]
    if 0x80 <= head <= 0x8F or head in (0xDE, 0xDF):
        return _open_dict(node)
    if 0x90 <= head <= 0x9F or head in (0xDC, 0xDD):
        return _open_list(node)
    if head in _EXT_HEADS and view[_EXT_HEADS[head]] == zoo.OBJECT:
        return Opened(*_open_object(_open_ext(node).data))
    return node


def closed(node: Node) -> Raw:
    """Encode a node back into one value."""
    return node if type(node) is Raw else Raw(_encode(_closed_objects(node)))


def _closed_objects(node: Node) -> Any:
    if type(node) is dict:
        return {key: child if type(child) is Raw else _closed_objects(child) for key, child in node.items()}
    if type(node) is list:
        return [child if type(child) is Raw else _closed_objects(child) for child in node]
    if type(node) is Opened:
        return Ext(zoo.OBJECT, _encode([node.tag, node.version, _closed_objects(node.fields)]))
    return node


def _value(node: Node) -> Any:
    if type(node) is dict:
        return dict(zip(node, _values(node.values()), strict=True))
    return _values(node) if type(node) is list else decode(closed(node))


def _values(nodes: Collection[Node]) -> list[Any]:
    return decode_each(nodes) if set(map(type, nodes)) <= {Raw} else [_value(each) for each in nodes]


def measure(node: Node) -> int:
    """About how many bytes a node takes when encoded."""
    if type(node) is Raw:
        return len(node)
    if type(node) is Opened:
        return measure(node.fields)
    if type(node) is dict:
        return sum(len(key) + 1 + measure(child) for key, child in node.items())
    if set(map(type, node)) == _RAW:
        return sum(map(len, node))
    return sum(map(measure, node))


class Document:
    """The state of a thread at one version. `root` is None before the first state."""

    __slots__ = ("_size", "root")

    def __init__(self, root: Node | None = None, size: int | None = None) -> None:
        self.root: Node | None = root
        self._size = size

    @property
    def size(self) -> int:
        """About how many bytes the state takes; counted when first asked for, and followed from then on."""
        if self._size is None:
            self._size = 0 if self.root is None else measure(self.root)
        return self._size

    @classmethod
    def of(cls, encoded: bytes) -> Document:
        """The document of an encoded state."""
        return cls(Raw(encoded), len(encoded))

    def encoded(self) -> bytes:
        """The whole state, encoded."""
        return bytes(closed(self.root))

    def value(self) -> Any:
        """The state as it was saved, None before the first one. It is built part by part: nothing is put together."""
        return None if self.root is None else guarded(_value, self.root)

    def items(self, key: str, count: int) -> list[Raw]:
        """The first items of a list of the state, encoded."""
        found = self._list((key,))[:count]
        return found if set(map(type, found)) == _RAW else list(map(closed, found))

    def parts(self) -> Any:
        """The whole state, as an encoder takes it."""
        return None if self.root is None else _closed_objects(self.root)

    def close(self) -> Raw:
        """Close every opened part, and return the whole state, encoded, without copying it again."""
        if self.root is None:
            return Raw(b"\xc0")
        self.root = closed(self.root)
        self._size = len(self.root)
        return self.root

    def apply(self, ops: Ops) -> None:
        """Apply `ops` in place; raise `DoesNotFit` when one cannot be."""
        for op in ops:
            root = self.root
            if type(op) is Set and len(op.path) == 1 and type(root) is dict and type(op.path[0]) is str:
                old = root.get(op.path[0], _NOTHING)
                if self._size is not None:
                    self._size += len(op.value) - (len(old) if type(old) is Raw else measure(old))
                root[op.path[0]] = op.value
            else:
                self._apply(op)

    def fold(self, ops: Iterable[Op]) -> None:
        """Apply many operations in place: containers that were reached once are found again by their path.

        The size is not followed on the way: it is counted when somebody asks.
        """
        self._size = None
        reached: dict[Path, Any] = {}
        for op in ops:
            kind, path = type(op), op.path
            if kind is Append:
                items = reached.get(path)
                if items is None:
                    items = reached[path] = self._list(path)
                items.extend(op.items)  # type: ignore[union-attr]
            elif kind is Set and path:
                self._fold_set(path, op.value, reached)  # type: ignore[union-attr]
            else:
                reached.clear()  # a place that was reached may be gone, or another's
                self._apply(op)
                self._size = None

    def _fold_set(self, path: Path, value: Raw, reached: dict[Path, Any]) -> None:
        parent, step = path[:-1], path[-1]
        inside = reached.get(parent)
        if inside is None:
            inside = reached[parent] = self._inside(parent)
        if type(inside) is not dict and not _has(inside, step):
            raise DoesNotFit(f"{show(path)} cannot be set")
        if type(inside.get(step) if type(inside) is dict else inside[step]) is not Raw:
            reached.clear()  # an opened place is replaced: what was reached inside it is gone
        inside[step] = value

    def _apply(self, op: Op) -> None:
        if isinstance(op, Set):
            self._set(op)
        elif isinstance(op, Append):
            self._list(op.path).extend(op.items)
            self.grow(weight(op))
        elif isinstance(op, Delete):
            self._delete(op)
        elif isinstance(op, Truncate):
            self._cut(self._list(op.path), op.length, None, [])
        else:
            self._cut(self._list(op.path), op.at, op.at + op.removed, op.items)

    def _cut(self, items: list[Node], start: int, stop: int | None, new: list[Raw]) -> None:
        if start > len(items) or (stop is not None and stop > len(items)):
            raise DoesNotFit(f"the list has only {len(items)} items")
        self.grow(sum(map(len, new)) - sum(map(measure, items[start:stop])))
        items[start:stop] = new

    def grow(self, by: int) -> None:
        """Follow a change of so many bytes; where nobody asked for the size yet, it is counted when somebody does."""
        if self._size is not None:
            self._size += by

    def _set(self, op: Set) -> None:
        if not op.path:
            self.root, self._size = op.value, len(op.value)
            return
        inside, step = self._inside(op.path[:-1]), op.path[-1]
        is_there = _has(inside, step)
        if not is_there and not (type(inside) is dict and isinstance(step, str)):
            raise DoesNotFit(f"{show(op.path)} cannot be set")
        self.grow(len(op.value) - (measure(inside[step]) if is_there else 0))
        inside[step] = op.value

    def _delete(self, op: Delete) -> None:
        # A key that is not there is no fault: composing "added" and "deleted" leaves only the deletion.
        inside = self._inside(op.path[:-1])
        if _has(inside, op.path[-1]):
            self.grow(-measure(inside.pop(op.path[-1])))

    def _list(self, path: Path) -> list[Node]:
        node = self.reach(path)
        if type(node) is not list:
            raise DoesNotFit(f"{show(path)} is not a list")
        return node

    def _inside(self, path: Path) -> Any:
        node = self.reach(path)
        return node.fields if type(node) is Opened else node

    def reach(self, path: Path) -> Node:
        """Open every node on the way to `path` and return the one there; raise `DoesNotFit` when there is none."""
        if self.root is None:
            raise DoesNotFit("there is no state yet")
        node = self.root = opened(self.root)
        for step in path:
            inside: Any = node.fields if type(node) is Opened else node
            if not _has(inside, step):
                raise DoesNotFit(f"there is no {show(path)}")
            node = inside[step]
            if type(node) is Raw:
                inside[step] = node = opened(node)
        return node


def _has(inside: Any, step: Step) -> bool:
    if type(inside) is dict:
        return step in inside
    return type(inside) is list and isinstance(step, int) and 0 <= step < len(inside)
