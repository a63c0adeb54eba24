"""Values out of LangGraph's bytes, by its own serializer; only classes that are known here are built."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Generator, Iterator, Mapping, Set
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from perdure.adapters.langgraph.packed import check_json, check_packed
from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.types import Opaque
from perdure.core.errors import UnsupportedValueError
from perdure.core.registry import REGISTRY
from perdure.core.steps import Path, show

_LOGGER = "langgraph.checkpoint.serde.jsonplus"
_BLOCKED = ("msgpack_blocked", "msgpack_method_blocked")
_BUILDING = range(7)  # codes of extensions that name a class, or are an array
_ARRAY, _SNAPSHOT = 6, 7
_READABLE = ("null", "bytes", "bytearray", "json", "msgpack")


def known_names() -> set[tuple[str, str]]:
    """The classes that may be built: those that are registered here, as the serializer names them."""
    return {(cls.__module__, cls.__name__) for cls in REGISTRY.classes()}


def serializer() -> JsonPlusSerializer:
    """LangGraph's serializer, limited to what is known here."""
    names = known_names()
    return JsonPlusSerializer(
        allowed_msgpack_modules=tuple(names),
        allowed_json_modules=[(*module.split("."), name) for module, name in names],
    )


class Foreign(Exception):
    """A value has an object of a class that nobody allowed, or cannot be read."""

    def __init__(self, value: Opaque, reason: str = "") -> None:
        super().__init__()
        self.value = value
        self.reason = reason  # why it cannot be read


class Reviver:
    """Reads the values of one graph in one thread; a value that did not change is not read again."""

    def __init__(self, serde: JsonPlusSerializer) -> None:
        self._serde = serde
        self._last: dict[str, tuple[Opaque, Any]] = {}

    def read(self, value: Opaque) -> Any:
        """A value. Raises `Foreign` when it has an object of a class that is not allowed, or cannot be read."""
        if value.type not in _READABLE:
            raise Foreign(value, f"it is kept as {value.type[:100]!r}, which is not read")
        try:
            return self._read(value)
        except Foreign:
            raise
        except Exception as exc:  # whatever the serializer and the classes that it builds raise
            raise Foreign(value, f"it cannot be read ({type(exc).__name__}: {str(exc)[:200]})") from exc

    def _read(self, value: Opaque) -> Any:
        if value.type == "json" and not _check_json(value):
            return json.loads(value.data)
        if value.type == "msgpack":
            _check_packed(value)
        with _blocked() as names:
            found = self._serde.loads_typed((value.type, value.data))
        if names:
            raise Foreign(value)
        return found

    def channels(self, values: Mapping[str, Opaque], sealed: Set[str], *, opaque: bool) -> dict[str, Any]:
        """The values of all channels. Those in `sealed` stay bytes; with `opaque` also those that raise `Foreign`."""
        found = {name: each if name in sealed else self._channel(name, each, opaque) for name, each in values.items()}
        self._last = {name: (values[name], value) for name, value in found.items() if name not in sealed}
        return found

    def _channel(self, name: str, value: Opaque, opaque: bool) -> Any:
        before = self._last.get(name)
        return before[1] if before is not None and before[0] == value else self.read_or_keep(value, opaque)

    def read_or_keep(self, value: Opaque, opaque: bool) -> Any:
        """A value; with `opaque`, the bytes of one that cannot be read."""
        try:
            return self.read(value)
        except Foreign:
            if not opaque:
                raise
            return value

    def same(self, one: Any, other: Any) -> bool:
        """Whether two values are equal, or the serializer makes the same of both: not every value equals itself."""
        if type(one) is type(other) and one == other:
            return True
        try:
            return self._serde.dumps_typed(one) == self._serde.dumps_typed(other)
        except TypeError:
            return False  # also what the serializer raises for a value it cannot keep


@contextmanager
def _blocked() -> Generator[list[str]]:
    """What the serializer does not build while this lasts: it goes on with the fields alone, and tells listeners."""
    from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener

    names: list[str] = []
    here = threading.get_ident()

    def heard(event: Any) -> None:
        if event["kind"] in _BLOCKED and threading.get_ident() == here:
            names.append(f"{event['module']}:{event['name']}")

    stop = register_serde_event_listener(heard)
    logger = logging.getLogger(_LOGGER)
    logger.addFilter(_unsaid)  # what is blocked is said by an error that names the place
    try:
        yield names
    finally:
        logger.removeFilter(_unsaid)
        stop()


def _unsaid(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Blocked deserialization")


@cache
def _has_numpy() -> bool:
    return find_spec("numpy") is not None


def _check_packed(value: Opaque) -> None:
    """Raise `Foreign` for extensions that the serializer makes None of: arrays without numpy, and unknown ones."""
    codes = check_packed(value.data)
    if _ARRAY in codes and not _has_numpy():
        raise Foreign(value)
    if _ARRAY in codes and not _arrays_are_whole(value.data):
        # The serializer makes None of it, without a word.
        raise Foreign(value, "it has an array that does not hold what it says")
    if unknown := [code for code in codes if code not in _BUILDING and code != _SNAPSHOT]:
        raise Foreign(value, f"it has an extension of kind {unknown[0]}, which LangGraph does not know")


def _arrays_are_whole(data: bytes) -> bool:
    """Whether each array has as many bytes as its shape and type say, and no objects."""
    import numpy

    broken: list[object] = []

    def check(code: int, inner: bytes) -> Any:
        inside = ormsgpack.unpackb(inner, ext_hook=check, option=ormsgpack.OPT_NON_STR_KEYS)
        if code == _ARRAY:
            try:
                kind, shape, _, held = inside
                dtype = numpy.dtype(kind)
                is_whole = not dtype.hasobject and math.prod(shape) * dtype.itemsize == len(held)
            except (TypeError, ValueError, OverflowError):
                is_whole = False
            if not is_whole:
                broken.append(inside)
        return None

    ormsgpack.unpackb(data, ext_hook=check, option=ormsgpack.OPT_NON_STR_KEYS)
    return not broken


def _check_json(value: Opaque) -> bool:
    """Whether a JSON value has objects. Raises `Foreign` when one of them is not to be built."""
    check_json(value.data)
    objects = [each for _, each in _walk(json.loads(value.data), ()) if isinstance(each, dict) and "lc" in each]
    for each in objects:
        if _constructor(each):
            if not _may_build(each):
                raise Foreign(value)
        elif each.get("type") in ("secret", "not_implemented"):
            raise Foreign(value, f"it has a {each['type']!r} of LangChain's, which is not read")
    return bool(objects)


def _constructor(value: dict[str, Any]) -> bool:
    return value.get("lc") in (1, 2) and value.get("type") == "constructor" and "id" in value


def _may_build(value: dict[str, Any]) -> bool:
    *module, name = value["id"]
    known = known_names() | _safe()
    if value["lc"] == 1:  # the place in the package may be one of an earlier release: LangChain knows where it is now
        return module[0] in ("langchain", "langchain_core") and name in {each for _, each in known}
    return (".".join(module), name) in known


class _Shown(NamedTuple):
    """An object that was not built."""

    cls: str
    fields: Any


def unsupported(place: Place, at: Path, foreign: Foreign) -> UnsupportedValueError:
    """The error about a value that cannot be built: where it is, which class it needs, and what to type."""
    if foreign.reason:
        return _error(place, show(at), foreign.reason, "")
    try:
        path, cls = next(_foreign(foreign.value), ((), ""))
    except Exception as exc:
        return _error(place, show(at), f"it cannot be read ({type(exc).__name__}: {str(exc)[:200]})", "")
    remedy = f"allow it with --types {cls}" if cls else ""
    return _error(place, show((*at, *path)), f"an object of {cls or 'an unknown class'} is not built", remedy)


def _error(place: Place, path: str, reason: str, remedy: str) -> UnsupportedValueError:
    kept = "keep it as bytes with --opaque"
    return UnsupportedValueError(f"{named(place)}, {path}", reason, f"{remedy}, or {kept}" if remedy else kept)


def named(place: Place) -> str:
    """A checkpoint for people."""
    subgraph = f" ({place.ns})" if place.ns else ""
    return f"thread {place.thread!r}{subgraph}, checkpoint {place.checkpoint}"


def _foreign(value: Opaque) -> Iterator[tuple[Path, str]]:
    """Where objects are that nobody allowed, and of which class each is. Nothing is built for it."""
    known = known_names() | _safe()
    for path, each in _walk(_unbuilt(value), ()):
        if isinstance(each, _Shown) and tuple(each.cls.rsplit(":", 1)) not in known:
            yield path, each.cls
        elif isinstance(each, dict) and _constructor(each) and not _may_build(each):
            *module, name = each["id"]
            yield path, f"{'.'.join(module)}:{name}"


def _safe() -> set[tuple[str, str]]:
    from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES

    return {(each[0], each[1]) for each in SAFE_MSGPACK_TYPES}


def _unbuilt(value: Opaque) -> Any:
    if value.type == "json":
        return json.loads(value.data)
    return ormsgpack.unpackb(value.data, ext_hook=_shown, option=ormsgpack.OPT_NON_STR_KEYS)


def _shown(code: int, data: bytes) -> Any:
    inside = ormsgpack.unpackb(data, ext_hook=_shown, option=ormsgpack.OPT_NON_STR_KEYS)
    if code == _SNAPSHOT:
        return inside
    if code == _ARRAY:
        return _Shown("numpy:ndarray", None)
    module, name, fields, *_ = inside
    return _Shown(f"{module}:{name}", fields)


def _walk(value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    waiting = [(at, value)]
    while waiting:
        at, value = waiting.pop()
        yield at, value
        if isinstance(value, _Shown):
            value = value.fields
        if isinstance(value, dict):
            waiting += [((*at, str(name)), each) for name, each in reversed(value.items())]
        elif isinstance(value, (list, tuple)):
            waiting += [((*at, index), each) for index, each in reversed(list(enumerate(value)))]
