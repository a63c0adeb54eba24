"""Building the values of states that are mostly alike, as neighbours in a log are: what they share is decoded once.

Every value has dicts, lists and objects of its own: whoever changes one state never changes another. Only leaves that
nobody can change are shared.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from operator import is_
from typing import Any

from msgspec import Raw

from perdure.core.codec import decode, guarded
from perdure.core.document import Document, Node, Opened, opened
from perdure.core.plain import LEAVES
from perdure.core.registry import REGISTRY, Registry

Make = Callable[[], Any]  # makes the value of a node, anew each time


@contextmanager
def _collecting_later() -> Generator[None]:
    """Nothing of thousands of new objects can be garbage yet; looking through them took as long as building them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Alike:
    """Builds states. Encoded parts are known again by being the very same object in the next document."""

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self._registry = registry
        self._makes: dict[int, Make] = {}
        self._held: list[Raw] = []  # as long as a part is held, no other one has its id
        self._flats: dict[int, _Flats] = {}  # by the list they are read from, which the next document has too

    def build(self, document: Document) -> Any:
        """The value of a document; its dicts and lists stay open, so that the next one has the same parts."""
        with _collecting_later():
            return guarded(self._built, document)

    def _built(self, document: Document) -> Any:
        root = document.reach(())
        for name in list(root) if type(root) is dict else ():
            document.reach((name,))
        return self._value(root)

    def _value(self, node: Node) -> Any:
        if type(node) is dict:
            return {key: self._value(child) for key, child in node.items()}
        if type(node) is list:
            return self._items(node)
        return self._make(node)()

    def _items(self, node: list[Node]) -> list[Any]:
        flats = self._flats.setdefault(id(node), _Flats(node))
        if flats.follow():
            return list(map(dict.copy, flats.values))
        known, make = self._makes.get, self._make
        return [(known(id(child)) or make(child))() for child in node]

    def _make(self, node: Node) -> Make:
        if type(node) is not Raw:
            return lambda: self._value_of_open(node)
        make = self._makes.get(id(node))
        if make is None:
            make = self._makes[id(node)] = self._made(node)
            self._held.append(node)
        return make

    def _value_of_open(self, node: Node) -> Any:
        return self._object(node)() if type(node) is Opened else self._value(node)

    def _made(self, raw: Raw) -> Make:
        inside = opened(raw)
        if type(inside) is Opened:
            return self._object(inside)
        value = decode(raw, registry=self._registry)
        if type(value) in LEAVES:
            return lambda: value
        if type(value) in (dict, list) and type(inside) is type(value):
            return _copying(value) or self._parts(inside)
        return lambda: decode(raw, registry=self._registry)

    def _parts(self, inside: dict[str, Raw] | list[Raw]) -> Make:
        if isinstance(inside, list):
            items = [self._make(child) for child in inside]
            return lambda: [make() for make in items]
        fields, makes = self._fields(inside)
        holders = _holders(fields, makes)
        return lambda: _filled(fields.copy(), holders)

    def _fields(self, inside: dict[str, Raw]) -> tuple[dict[str, Any], dict[str, Make]]:
        """The parts of a dict, and how each is made anew."""
        makes = {key: self._make(child) for key, child in inside.items()}
        return {key: make() for key, make in makes.items()}, makes

    def _object(self, node: Opened) -> Make:
        """Its class builds each one: what it does then, it may do only for that one."""
        kept = self._registry.tagged(node.tag, node.version)
        version = node.version
        fields, makes = self._fields(node.fields)
        build = kept.like(fields) if kept.like is not None and version == kept.version else None
        holders = _holders(fields, makes)
        if build is not None:
            return lambda: build(_filled(fields.copy(), holders))
        return lambda: kept.build(kept.upgraded(_filled(fields.copy(), holders), version))


class _Flats:
    """The items of a list, as long as all of them are dicts of leaves: a conversation of plain messages."""

    def __init__(self, node: list[Node]) -> None:
        self._node = node
        self._children: list[Node] = []
        self.values: list[dict[str, Any]] = []
        self._is_flat = True

    def follow(self) -> bool:
        """Read what the list has by now; False when something else is among it."""
        if self._is_flat and not all(map(is_, self._children, self._node)):
            self._children, self.values = [], []
        if len(self._node) < len(self._children):
            self._children, self.values = [], []
        new = self._node[len(self._children) :]
        if self._is_flat:
            self._is_flat = all(map(self._take, new))
        return self._is_flat

    def _take(self, child: Node) -> bool:
        if type(child) is not Raw or type(opened(child)) is not dict:
            return False
        value = decode(child)
        if not set(map(type, value.values())) <= LEAVES:
            return False
        self._children.append(child)
        self.values.append(value)
        return True


def _holders(fields: dict[str, Any], makes: dict[str, Make]) -> list[tuple[str, Make]]:
    """The fields that hold something which can be changed."""
    return [(key, makes[key]) for key, value in fields.items() if type(value) not in LEAVES]


def _filled(fields: dict[str, Any], holders: list[tuple[str, Make]]) -> dict[str, Any]:
    """The dict with containers of its own."""
    for key, make in holders:
        fields[key] = make()
    return fields


def _copying(value: Any) -> Make | None:
    """How to copy a dict or list of leaves; None for one that has others inside."""
    inside = value.values() if type(value) is dict else value
    return value.copy if set(map(type, inside)) <= LEAVES else None
